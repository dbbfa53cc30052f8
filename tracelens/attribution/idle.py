"""Why a GPU was idle: each gap is split by what the launch of the next activity was waiting for.

A gap ends with the activity e. If the launch call of e had not returned when the gap began, the
GPU was starved: the time until the call is the host's, the rest is launch latency. If it had, the
work was queued: the gap is the hardware's, another stream's, or unknown.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tracelens.attribution.activities import Activities
from tracelens.attribution.host import BLOCKED, INSIDE, LABELS, UNRECORDED, HostActivity
from tracelens.attribution.timeline import Pieces, Timeline

Array = np.ndarray[Any, Any]

IDLE_LEAVES = (
    *(f"host.{label}" for label in LABELS),
    "host.dispatch",
    "host.sync",
    "host.unlabelled",
    "gap.launch_latency",
    "gap.kernel",
    "gap.graph",
    "gap.dependency",
    "idle.unknown",
    "idle.tail",
)
_CODE = {leaf: position for position, leaf in enumerate(IDLE_LEAVES)}
IN_CALL_NS = 100_000
UNRECORDED_NS = 200_000
KAPPA_RANGE_NS = (3_000, 20_000)
LAMBDA_DEFAULT_NS = 6_000
BY_SYNC = "enabled_by=sync"


@dataclass(frozen=True)
class Gaps:
    """Idle intervals of one GPU with the activity that ended each.

    Attributes:
        start_ns: starts.
        end_ns: ends.
        ender: position of the activity that ended it, -1 where none follows.
    """

    start_ns: Array
    end_ns: Array
    ender: Array


@dataclass(frozen=True)
class IdlePieces:
    """Parts of gaps, each with one cause.

    Attributes:
        start_ns: starts.
        end_ns: ends.
        leaf: position in ``IDLE_LEAVES``.
        ender: position of the activity that ended the gap, -1.
        by_sync: whether a host synchronisation exposed this time.
    """

    start_ns: Array
    end_ns: Array
    leaf: Array
    ender: Array
    by_sync: Array


def find_enders(activities: Activities, start_ns: Array, end_ns: Array, last_ns: int) -> Gaps:
    """Find the activity that ended each gap.

    Of several that start together the one launched first counts. Activities without duration and
    unified-memory migrations never end a gap; one that starts after ``last_ns`` ends none either.
    """
    real = (activities.end_ns > activities.start_ns) & ~activities.migration
    order = np.flatnonzero(real)
    if not len(order):
        return Gaps(start_ns, end_ns, np.full(len(start_ns), -1, dtype=np.int64))
    launch = np.where(activities.launched[order], activities.launch_start_ns[order], 2**62)
    order = order[np.lexsort((order, launch, activities.start_ns[order]))]
    starts = activities.start_ns[order]
    position = np.searchsorted(starts, end_ns, side="left")
    found = position < len(order)
    ender = np.where(found, order[np.minimum(position, len(order) - 1)], -1)
    too_late = found & (activities.start_ns[ender] > last_ns)
    return Gaps(start_ns, end_ns, np.where(too_late, -1, ender))


@dataclass(frozen=True)
class Calibration:
    """What a trace says of its own machine.

    Attributes:
        kappa_ns: longest ordinary gap between queued kernels: nearest-rank 99th percentile of
            queued gaps, within 3 and 20 µs.
        kappa_samples: gaps it rests on; 0 for the default.
        lambda_ns: launch latency on an idle GPU: nearest-rank 10th percentile of the time from the
            start of the launch call to the start of the activity, over starved gaps.
        lambda_samples: gaps it rests on; 0 for the default.
    """

    kappa_ns: int
    kappa_samples: int
    lambda_ns: int
    lambda_samples: int


def calibrate(activities: Activities, gaps: Gaps) -> Calibration:
    """Measure the thresholds over all gaps of a trace."""
    known = gaps.ender >= 0
    ender, start_ns = gaps.ender[known], gaps.start_ns[known]
    launched = activities.launched[ender]
    queued = launched & (activities.launch_end_ns[ender] <= start_ns)
    lengths = np.sort((gaps.end_ns[known] - start_ns)[queued])
    starved = ender[launched & ~queued]
    latency = np.sort(activities.start_ns[starved] - activities.launch_start_ns[starved])
    latency = latency[latency > 0]
    low, high = KAPPA_RANGE_NS
    return Calibration(
        int(np.clip(_nearest_rank(lengths, 99), low, high)) if len(lengths) else low,
        len(lengths),
        _nearest_rank(latency, 10) if len(latency) else LAMBDA_DEFAULT_NS,
        len(latency),
    )


def _nearest_rank(ascending: Array, percent: int) -> int:
    rank = -(-percent * len(ascending) // 100)
    return int(ascending[rank - 1])


class IdleCauses:
    """Splits gaps of one GPU into causes.

    Args:
        activities: of the GPU.
        host: what its process did.
        kappa_ns: longest ordinary gap between queued kernels.
        evidence: what decides between causes, per activity.
    """

    def __init__(
        self,
        activities: Activities,
        host: HostActivity,
        kappa_ns: int,
        evidence: "Evidence",
    ) -> None:
        self._a = activities
        self._host = host
        self._kappa_ns = kappa_ns
        self._evidence = evidence
        self._pieces: list[IdlePieces] = []

    def split(self, gaps: Gaps) -> IdlePieces:
        """Return pieces that cover the gaps exactly, in no particular order."""
        self._pieces = []
        none = gaps.ender < 0
        self._take(gaps, none, "idle.tail")
        ender = np.maximum(gaps.ender, 0)
        launched = self._a.launched[ender]
        self._take(gaps, ~none & ~launched, "idle.unknown")
        starved = self._a.launch_end_ns[ender] > gaps.start_ns
        self._queued(_select(gaps, ~none & launched & ~starved))
        self._starved(_select(gaps, ~none & launched & starved))
        return _concatenated(self._pieces)

    # --- queued ----------------------------------------------------------------------------------

    def _queued(self, gaps: Gaps) -> None:
        length = gaps.end_ns - gaps.start_ns
        graph = self._evidence.graph_follower[gaps.ender]
        waits = ~graph & self._evidence.waited(self._a, gaps)
        short = ~graph & ~waits & (length <= self._kappa_ns)
        self._take(gaps, graph, "gap.graph")
        self._take(gaps, waits, "gap.dependency")
        self._take(gaps, short, "gap.kernel")
        self._take(gaps, ~graph & ~waits & ~short, "idle.unknown")

    # --- starved ---------------------------------------------------------------------------------

    def _starved(self, gaps: Gaps) -> None:
        launch_start = self._a.launch_start_ns[gaps.ender]
        launch_end = self._a.launch_end_ns[gaps.ender]
        host_end = np.clip(launch_start, gaps.start_ns, gaps.end_ns)
        call_end = np.clip(launch_end, host_end, gaps.end_ns)
        self._host_part(Gaps(gaps.start_ns, host_end, gaps.ender))
        call = Gaps(host_end, call_end, gaps.ender)
        slow = (call_end - host_end > IN_CALL_NS) & ~self._evidence.graph_call[gaps.ender]
        first = self._evidence.first_of_name[gaps.ender]
        self._take(call, slow & first, "host.compile")
        self._take(call, slow & ~first, "host.cuda_api")
        self._take(call, ~slow, "gap.launch_latency")
        late = gaps.end_ns - call_end > IN_CALL_NS
        after = Gaps(call_end, gaps.end_ns, gaps.ender)
        self._take(after, ~late, "gap.launch_latency")
        self._queued(_select(after, late))

    def _host_part(self, gaps: Gaps) -> None:
        gaps = _select(gaps, gaps.end_ns > gaps.start_ns)
        threads = self._a.thread[gaps.ender]
        for thread in np.unique(threads):
            self._thread_part(_select(gaps, threads == thread), int(thread))

    def _thread_part(self, gaps: Gaps, thread: int) -> None:
        """Cut the host's part of gaps by what the launching thread did.

        Where that thread shows nothing or waits in the operating system, the other launching
        threads speak for it: backward is launched by a thread that waits for the main one.
        """
        drained = self._host.drained_at(thread, gaps.start_ns)
        own = self._host.threads[thread].pieces(gaps.start_ns, gaps.end_ns)
        others = self._host.others[thread]
        found = _seen_by(self._host.together, own.where(own.label == UNRECORDED), shared=True)
        long = found.is_silent(UNRECORDED, UNRECORDED_NS)
        waits = _seen_by(others, found.where(long)).unless(BLOCKED, UNRECORDED)
        blocked = _seen_by(others, own.where(own.label == BLOCKED))
        # Where no other thread is at work either, it is the operating system that it waits for.
        alone = blocked.is_silent(UNRECORDED, UNRECORDED_NS)
        known = own.where((own.label != UNRECORDED) & (own.label != BLOCKED))
        for pieces in (
            known,
            found.where(~long),
            waits,
            blocked.where(~alone),
            blocked.where(alone).all_as(BLOCKED),
        ):
            self._label(gaps, pieces.source, pieces, drained)

    def _label(
        self,
        gaps: Gaps,
        source: Array,
        pieces: Pieces,
        drained: Array,
    ) -> None:
        label, stretch = pieces.label, pieces.stretch_ns
        by_sync = drained[source]
        leaf = label.copy()  # LABELS and IDLE_LEAVES begin alike
        plain = np.where(by_sync, _CODE["host.sync"], _CODE["host.dispatch"])
        leaf = np.where(label == INSIDE, plain, leaf)
        silent = label == UNRECORDED
        long = silent & (stretch > UNRECORDED_NS)
        leaf = np.where(silent & ~long, plain, leaf)
        leaf = np.where(long, _CODE["host.unlabelled"], leaf)
        shown = by_sync & (leaf != _CODE["host.sync"])
        self._pieces.append(
            IdlePieces(pieces.start_ns, pieces.end_ns, leaf, gaps.ender[source], shown)
        )

    def _take(self, gaps: Gaps, chosen: Array, leaf: str) -> None:
        chosen = chosen & (gaps.end_ns > gaps.start_ns)
        count = int(chosen.sum())
        if count:
            self._pieces.append(
                IdlePieces(
                    gaps.start_ns[chosen],
                    gaps.end_ns[chosen],
                    np.full(count, _CODE[leaf]),
                    gaps.ender[chosen],
                    np.zeros(count, bool),
                )
            )


@dataclass(frozen=True)
class Evidence:
    """Per activity, what decides between causes.

    Attributes:
        graph_follower: node of a CUDA graph that is not the first of its launch.
        graph_call: launched by a graph launch.
        first_of_name: kernel that is the first launch of its name in the process.
        wait_stream: streams of recorded stream waits.
        wait_start_ns: when those waits began, ascending.
    """

    graph_follower: Array
    graph_call: Array
    first_of_name: Array
    wait_stream: Array
    wait_start_ns: Array

    def waited(self, activities: Activities, gaps: Gaps) -> Array:
        """Tell which gaps ended when another stream's work released a waiting stream.

        The ender's stream has a wait recorded since its previous activity, and what ran last
        before the gap was on another stream.
        """
        result = np.zeros(len(gaps.ender), bool)
        if not len(self.wait_stream) or not len(gaps.ender):
            return result
        for stream in np.unique(self.wait_stream):
            mine = np.flatnonzero(activities.stream[gaps.ender] == stream)
            if not len(mine):
                continue
            waits = self.wait_start_ns[self.wait_stream == stream]
            on_stream = np.flatnonzero(activities.stream == stream)
            ends = np.maximum.accumulate(activities.end_ns[on_stream])
            place = np.searchsorted(on_stream, gaps.ender[mine])
            previous_end = np.where(place > 0, ends[np.maximum(place - 1, 0)], -(2**62))
            starts = activities.launch_start_ns[on_stream]
            previous_launch = np.where(place > 0, starts[np.maximum(place - 1, 0)], -(2**62))
            low = np.searchsorted(waits, previous_launch, side="right")
            high = np.searchsorted(waits, gaps.end_ns[mine], side="right")
            result[mine] = (high > low) & (previous_end < gaps.start_ns[mine])
        return result


def _seen_by(timeline: Timeline, pieces: Pieces, *, shared: bool = False) -> Pieces:
    """Cut pieces by what another timeline shows; they keep the gap that they belong to.

    Args:
        timeline: the other timeline.
        pieces: of one's own timeline.
        shared: whether a stretch lasts only while both timelines show the same.
    """
    found = timeline.pieces(pieces.start_ns, pieces.end_ns)
    stretch = found.stretch_ns
    if shared:
        stretch = np.minimum(stretch, pieces.stretch_ns[found.source])
    return replace(found, source=pieces.source[found.source], stretch_ns=stretch)


def _select(gaps: Gaps, chosen: Array) -> Gaps:
    return Gaps(gaps.start_ns[chosen], gaps.end_ns[chosen], gaps.ender[chosen])


def _concatenated(pieces: list[IdlePieces]) -> IdlePieces:
    if not pieces:
        empty: Array = np.empty(0, np.int64)
        return IdlePieces(empty, empty, empty, empty, empty.astype(bool))
    return IdlePieces(
        *(
            np.concatenate([getattr(piece, name) for piece in pieces])
            for name in ("start_ns", "end_ns", "leaf", "ender", "by_sync")
        )
    )
