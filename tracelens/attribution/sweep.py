"""Give every nanosecond of a GPU to one owner: the only place where an overlap is decided.

All starts and ends are sorted once; between two neighbouring edges the set of running activities is
constant, and the kind with the highest precedence wins it (``taxonomy.Kind``). Within a kind:

* FLOP kernels share the segment equally, the remainder of the division goes to the first;
* compute, opaque graphs and copies: the activity that started first;
* communication: the one that the resuming compute waited for (the blocker rule): by recorded waits
  between streams, else the one that ended last before it.

O(n log n) in NumPy; ``tests/property`` holds it against a nanosecond-by-nanosecond reference.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tracelens.taxonomy import Kind

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Segments:
    """Disjoint segments in order.

    Attributes:
        start_ns: starts.
        end_ns: ends.
        owner: position of the owning activity, -1 for idle time.
    """

    start_ns: Array
    end_ns: Array
    owner: Array


@dataclass(frozen=True)
class Awaited:
    """Activities that compute explicitly waited for. Both arrays have one length, in no order.

    Attributes:
        activity: positions of activities.
        resumed_ns: when the compute that waited for it started.
    """

    activity: Array
    resumed_ns: Array


_NOTHING = Awaited(np.empty(0, np.int64), np.empty(0, np.int64))


class Sweep:
    """The elementary segments of one GPU in one span.

    Args:
        start_ns: starts of the activities, ascending (ties by id): the order decides ties.
        end_ns: ends.
        kind: ``taxonomy.Kind`` of each activity.
        span: window [a, b) that the segments cover exactly.
        cuts: further edges, where a segment must not reach across (step boundaries).
    """

    def __init__(
        self,
        start_ns: Array,
        end_ns: Array,
        kind: Array,
        span: tuple[int, int],
        cuts: Array | None = None,
    ) -> None:
        first, last = span
        low = np.clip(start_ns, first, last)
        high = np.clip(end_ns, first, last)
        extra = np.array([first, last], dtype=np.int64)
        inner = np.empty(0, np.int64) if cuts is None else cuts[(cuts > first) & (cuts < last)]
        self.edges: Array = np.unique(np.concatenate([low, high, extra, inner]).astype(np.int64))
        self._from: Array = np.searchsorted(self.edges, low)
        self._to: Array = np.searchsorted(self.edges, high)
        self._cuts = inner
        self._kind = kind
        self._start_ns = start_ns
        self._end_ns = end_ns
        self._count = {kind_: self.active(kind == kind_) for kind_ in Kind if kind_ != Kind.IDLE}
        self.elementary_owner: Array = np.full(len(self.edges) - 1, -1, dtype=np.int64)
        self.winner = np.full(len(self.edges) - 1, int(Kind.IDLE), dtype=np.int64)
        for kind_ in sorted(self._count, reverse=True):
            self.winner[self._count[kind_] > 0] = int(kind_)

    def active(self, chosen: Array) -> Array:
        """Return how many of the chosen activities (a mask) run in each elementary segment."""
        size = len(self.edges)
        steps = np.bincount(self._from[chosen], minlength=size).astype(np.int64)
        steps -= np.bincount(self._to[chosen], minlength=size)
        running: Array = np.cumsum(steps)
        return running[:-1]

    def owners(self, awaited: Awaited = _NOTHING) -> Segments:
        """Return the partition of the span; neighbours of one owner are joined.

        Args:
            awaited: what compute waited for, by recorded waits.
        """
        owner = np.full(len(self.winner), -1, dtype=np.int64)
        for kind in (Kind.COMPUTE, Kind.OPAQUE, Kind.COPY):
            self._first_started(kind, owner)
        self._blockers(owner, awaited)
        self._sole_flop(owner)
        shared = self._count[Kind.FLOP] > 1
        start, end = self.edges[:-1], self.edges[1:]
        pieces = self._share(np.flatnonzero(shared), owner)
        self.elementary_owner = owner
        keep = ~shared
        start = np.concatenate([start[keep], pieces.start_ns])
        end = np.concatenate([end[keep], pieces.end_ns])
        owner = np.concatenate([owner[keep], pieces.owner])
        order = np.argsort(start, kind="stable")
        return self._joined(Segments(start[order], end[order], owner[order]))

    def _joined(self, segments: Segments) -> Segments:
        same = segments.owner[1:] == segments.owner[:-1]
        same &= ~np.isin(segments.start_ns[1:], self._cuts)
        first = np.concatenate([[True], ~same])
        last = np.concatenate([~same, [True]])
        return Segments(segments.start_ns[first], segments.end_ns[last], segments.owner[first])

    def _first_started(self, kind: Kind, owner: Array) -> None:
        """Give segments won by ``kind`` to its activity that started first.

        Earlier activities hold every segment up to the latest of their ends, so an activity owns
        what lies between that and its own end.
        """
        chosen = np.flatnonzero((self._kind == kind) & (self._to > self._from))
        if not len(chosen):
            return
        reach = np.maximum.accumulate(self._to[chosen])
        begin = np.maximum(self._from[chosen], np.concatenate([[0], reach[:-1]]))
        length = np.maximum(self._to[chosen] - begin, 0)
        segment = _ranges(begin, length)
        held = np.repeat(chosen, length)
        won = self.winner[segment] == kind
        owner[segment[won]] = held[won]

    def _members(self, kind: Kind, segments: Array) -> tuple[Array, Array]:
        """Return (segment, activity) for every activity of ``kind`` in the given segments."""
        chosen = np.flatnonzero((self._kind == kind) & (self._to > self._from))
        low = np.searchsorted(segments, self._from[chosen])
        length = np.searchsorted(segments, self._to[chosen]) - low
        return segments[_ranges(low, length)], np.repeat(chosen, length)

    def _sole_flop(self, owner: Array) -> None:
        sole = np.flatnonzero(self._count[Kind.FLOP] == 1)
        segment, activity = self._members(Kind.FLOP, sole)
        owner[segment] = activity

    def _share(self, segments: Array, owner: Array) -> Segments:
        """Divide segments among the FLOP kernels that run in them; note the first as owner."""
        segment, activity = self._members(Kind.FLOP, segments)
        if not len(segment):
            return Segments(segment, segment, activity)
        order = np.lexsort((activity, segment))
        segment, activity = segment[order], activity[order]
        count = self._count[Kind.FLOP][segment]
        dur = self.edges[segment + 1] - self.edges[segment]
        share, rest = np.divmod(dur, count)
        leading = np.concatenate([[True], segment[1:] != segment[:-1]])
        owner[segment[leading]] = activity[leading]
        length = share + np.where(leading, rest, 0)
        total = np.cumsum(length)
        before = total - length
        base = before[leading][np.cumsum(leading) - 1]
        start = self.edges[segment] + before - base
        kept = length > 0
        return Segments(start[kept], (start + length)[kept], activity[kept])

    def _blockers(self, owner: Array, awaited: Awaited) -> None:
        """Give exposed communication to the instance that compute waited for.

        A run is a maximal stretch without compute. Its blocker is the instance with the latest end
        inside the run (of equals the latest start), of those that the compute which ends the run
        explicitly waited for, where there are any; a receive that outlives the run is not what
        compute waited for.
        """
        exposed = self.winner >= Kind.COMM
        comm = np.flatnonzero(self.winner == Kind.COMM)
        segment, activity = self._members(Kind.COMM, comm)
        if not len(segment):
            return
        starts_run = exposed & ~np.concatenate([[False], exposed[:-1]])
        run = np.cumsum(starts_run) - 1
        last_of_run = np.flatnonzero(exposed & ~np.concatenate([exposed[1:], [False]]))
        run_end_ns = self.edges[last_of_run + 1]
        end, start = self._end_ns[activity], self._start_ns[activity]
        in_time = end <= run_end_ns[run[segment]]
        blocker = np.full(len(run_end_ns), -1, dtype=np.int64)
        order = np.lexsort((-activity, start, end, in_time, run[segment]))
        final = order[_last_of_group(run[segment][order])]
        blocker[run[segment][final]] = np.where(in_time[final], activity[final], -1)
        self._override(blocker, run, run_end_ns, awaited)
        is_blocker = activity == blocker[run[segment]]
        order = np.lexsort((-activity, start, end, is_blocker, segment))
        final = order[_last_of_group(segment[order])]
        owner[segment[final]] = activity[final]

    def _override(self, blocker: Array, run: Array, run_end_ns: Array, awaited: Awaited) -> None:
        """Let what compute explicitly waited for block the runs that it ends in."""
        chosen = awaited.activity
        here = (self._kind[chosen] == Kind.COMM) & (self._to[chosen] > self._from[chosen])
        chosen, resumed_ns = chosen[here], awaited.resumed_ns[here]
        last = self._to[chosen] - 1  # an instance that compute hid to its end blocked nothing
        in_run = (self.winner[last] == Kind.COMM) & (run_end_ns[run[last]] == resumed_ns)
        chosen, last = chosen[in_run], last[in_run]
        if not len(chosen):
            return
        order = np.lexsort((-chosen, self._start_ns[chosen], self._end_ns[chosen], run[last]))
        final = order[_last_of_group(run[last][order])]
        blocker[run[last][final]] = chosen[final]


def _ranges(begin: Array, length: Array) -> Array:
    """Concatenate the integer ranges [begin, begin + length)."""
    total = int(length.sum())
    if not total:
        return np.empty(0, np.int64)
    offset = np.cumsum(length) - length
    ranges: Array = np.arange(total, dtype=np.int64) - np.repeat(offset - begin, length)
    return ranges


def _last_of_group(groups: Array) -> Array:
    """Return positions of the last element of each run of equal values."""
    last: Array = np.concatenate([groups[1:] != groups[:-1], [True]])
    return np.flatnonzero(last)


def union_gaps(start_ns: Array, end_ns: Array) -> tuple[Array, Array]:
    """Return (start, end) of the stretches between the first start and last end that none covers.

    Args:
        start_ns: starts, ascending; intervals of no length must have been removed.
        end_ns: ends.
    """
    if not len(start_ns):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    reach = np.maximum.accumulate(end_ns)
    gap = start_ns[1:] > reach[:-1]
    return reach[:-1][gap], start_ns[1:][gap]
