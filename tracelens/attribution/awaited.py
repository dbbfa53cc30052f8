"""Which work did a kernel really wait for, by the waits between streams that were recorded?

A stream that waits for an event waits for what its recording stream was given before the record:
the last activity launched on it until then, or what that stream itself had to wait for since, where
that ends later. Launches, records and waits are placed by the start of their host calls. A wait
whose record is missing, or behind which an activity without a launch may have been queued, tells
nothing.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tracelens.attribution.activities import Activities
from tracelens.attribution.sweep import Awaited
from tracelens.store import Store
from tracelens.taxonomy import Kind

Array = np.ndarray[Any, Any]
_NEVER = 2**62

_WAITS = """
SELECT w.stream, w.wait_on_stream, w.start_ns, h.start_ns AS record_ns
FROM raw.stream_wait AS w
ASOF JOIN raw.host_call AS h
    ON h.process = w.process AND h.correlation = w.record_correlation AND w.start_ns >= h.start_ns
WHERE w.gpu = ? AND w.stream IS NOT NULL AND w.wait_on_stream IS NOT NULL
ORDER BY w.start_ns, w.stream, w.wait_on_stream, record_ns
"""


@dataclass(frozen=True)
class _Waits:
    """Recorded waits, ascending by the time of their call."""

    stream: Array
    on_stream: Array
    at_ns: Array
    record_ns: Array


@dataclass(frozen=True)
class _Place:
    """Where calls stand in the queue of a stream; all arrays have one length.

    Attributes:
        last: position of the last activity launched before, -1 where there is none.
        sure: whether no activity without a launch may have come between.
    """

    last: Array
    sure: Array


def find_awaited(store: Store, gpu: int, activities: Activities) -> Awaited:
    """Pair what was waited for with the first compute kernel of the waiting stream after it."""
    columns = store.arrays(_WAITS, [gpu])
    waits = _Waits(
        columns["stream"], columns["wait_on_stream"], columns["start_ns"], columns["record_ns"]
    )
    producer = _producers(activities, waits)
    resumed = np.full(len(producer), -1, np.int64)
    compute = (activities.kind <= Kind.OPAQUE) & (activities.end_ns > activities.start_ns)
    for stream in np.unique(waits.stream):
        mine = np.flatnonzero((waits.stream == stream) & (producer >= 0))
        kernels = np.flatnonzero(compute & (activities.stream == stream))
        done_ns = activities.end_ns[producer[mine]]
        place = np.searchsorted(activities.start_ns[kernels], done_ns, side="left")
        follows = place < len(kernels)
        mine, kernel = mine[follows], kernels[place[follows]]
        after = activities.launch_start_ns[kernel] > waits.at_ns[mine]
        resumed[mine[after]] = kernel[after]
    known = resumed >= 0
    return Awaited(producer[known], activities.start_ns[resumed[known]])


def _producers(activities: Activities, waits: _Waits) -> Array:
    """Return the activity that each wait is for, -1 where that is not known."""
    recorded = _places(activities, waits.on_stream, waits.record_ns)
    waiting = _places(activities, waits.stream, waits.at_ns)
    before, earlier = _waits_before(waits)
    pending = recorded.sure & (before >= 0) & (waiting.last[before] == recorded.last)
    producer: Array = np.where(recorded.sure, recorded.last, -1)
    if pending.any():
        same_queue = (earlier >= 0) & (waiting.last[earlier] == waiting.last)
        _follow(
            activities,
            producer,
            np.where(pending, before, -1).tolist(),
            np.where(same_queue, earlier, -1).tolist(),
        )
    return producer


def _places(activities: Activities, stream: Array, at_ns: Array) -> _Place:
    last = np.full(len(at_ns), -1, np.int64)
    sure = np.ones(len(at_ns), bool)
    for number in np.unique(stream):
        queue = np.flatnonzero(activities.stream == number)
        if not len(queue):
            continue
        mine = np.flatnonzero(stream == number)
        launched = activities.launched[queue]
        launch = np.where(launched, activities.launch_start_ns[queue], _NEVER)
        first_after = np.minimum.accumulate(launch[::-1])[::-1]
        following = np.searchsorted(first_after, at_ns[mine], side="left")
        last[mine] = np.where(following > 0, queue[np.maximum(following - 1, 0)], -1)
        sure[mine] = np.append(launched, True)[following]
    return _Place(last, sure)


def _waits_before(waits: _Waits) -> tuple[Array, Array]:
    """Return the last wait of the recording stream before each record, and the stream's own last.

    Both are positions of waits, -1 where there is none.
    """
    before, own = np.full(len(waits.at_ns), -1, np.int64), np.full(len(waits.at_ns), -1, np.int64)
    for number in np.unique(waits.stream):
        mine, theirs = (np.flatnonzero(on == number) for on in (waits.stream, waits.on_stream))
        own[mine[1:]] = mine[:-1]
        place = np.searchsorted(waits.at_ns[mine], waits.record_ns[theirs], side="left") - 1
        before[theirs] = np.where(place >= 0, mine[np.maximum(place, 0)], -1)
    return before, own


def _follow(activities: Activities, producer: Array, before: list[int], earlier: list[int]) -> None:
    """Give each wait what the recording stream had to wait for itself, where that ends later.

    Args:
        activities: of the GPU.
        producer: what was launched on the recording stream; changed in place.
        before: the last wait that stands between that and the record, -1.
        earlier: the wait before, on the same stream and behind the same activity, -1.
    """
    latest: list[int] = []
    for wait, (link, last) in enumerate(zip(before, earlier, strict=True)):
        candidates = [int(producer[wait])] + ([latest[link]] if link >= 0 else [])
        producer[wait] = max(candidates, key=lambda i: _ending(activities, i))
        held = [int(producer[wait])] + ([latest[last]] if last >= 0 else [])
        latest.append(max(held, key=lambda i: _ending(activities, i)))


def _ending(activities: Activities, position: int) -> tuple[int, int, int]:
    if position < 0:
        return (-_NEVER, 0, 0)
    start, end = int(activities.start_ns[position]), int(activities.end_ns[position])
    return (end, start, -position)
