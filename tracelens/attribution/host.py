"""What the host was doing: labelled timelines of the threads that launch GPU work."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tracelens.attribution.timeline import Timeline, flatten
from tracelens.store import Store

Array = np.ndarray[Any, Any]

Spans = tuple[Array, Array]
_NO_SPANS: Spans = (np.empty(0, np.int64), np.empty(0, np.int64))

LABELS = ("profiler", "gc", "ckpt", "dataloader", "alloc", "compile", "cuda_api", "blocked")
"""Host causes, the most telling first; each is the leaf ``host.<label>``."""
BLOCKED = LABELS.index("blocked")
INSIDE = len(LABELS)
"""Inside some operator or API call that explains nothing by itself."""
UNRECORDED = INSIDE + 1
_SLOW_CALL_NS = 20_000

_INTERVALS = """
SELECT x.thread, x.start_ns, x.end_ns, x.label, x.kind
FROM (
    SELECT h.thread, h.start_ns, h.end_ns, h.kind, coalesce(c.label, l.label, '') AS label
    FROM raw.host_call AS h
    LEFT JOIN raw.host_label AS l ON l.name_id = h.name_id AND l.target = 'call'
    LEFT JOIN (
        SELECT k.call_id, any_value(b.label) AS label
        FROM raw.link AS k
        JOIN raw.activity AS a USING (activity_id)
        JOIN raw.host_label AS b ON b.name_id = a.name_id AND b.target = 'copy'
        GROUP BY k.call_id
    ) AS c USING (call_id)
    WHERE h.process = $process
    UNION ALL
    SELECT o.thread, o.start_ns, o.end_ns, 'op', coalesce(l.label, '')
    FROM raw.op AS o
    LEFT JOIN raw.host_label AS l ON l.name_id = o.name_id AND l.target = 'op'
    WHERE o.process = $process
    UNION ALL
    SELECT r.thread, r.start_ns, r.end_ns, 'range', coalesce(l.label, '')
    FROM raw.range AS r
    LEFT JOIN raw.host_label AS l ON l.name_id = r.name_id AND l.target = 'range'
    WHERE r.process = $process
    UNION ALL
    SELECT v.thread, v.start_ns, v.end_ns, 'overhead', coalesce(l.label, 'profiler')
    FROM raw.overhead AS v
    LEFT JOIN raw.host_label AS l ON l.name_id = v.name_id AND l.target = 'overhead'
    WHERE v.process = $process
) AS x
WHERE x.end_ns > x.start_ns
"""


@dataclass(frozen=True)
class HostActivity:
    """Timelines of one process.

    Attributes:
        threads: one timeline per thread that launched GPU work.
        together: all launching threads as one, for a thread that shows nothing; waits in the
            operating system are left out, for one may be waiting for the other.
        others: for each thread what the others did, for one that waits in the operating system:
            there such a wait is the weakest label, since one of them may be at work.
        blocking: per thread (starts, ends) of calls that wait for the GPU, ascending, merged.
        blocking_together: the same for all launching threads.
    """

    threads: dict[int, Timeline]
    together: Timeline
    others: dict[int, Timeline]
    blocking: dict[int, Spans]
    blocking_together: Spans

    def drained_at(self, thread: int, at_ns: Array) -> Array:
        """Tell at which instants the host waited for the GPU.

        The launching thread counts; where it shows nothing or waits itself, whoever it waits for.
        """
        own = _inside(self.blocking.get(thread, _NO_SPANS), at_ns)
        idle = np.isin(self.threads[thread].label_at(at_ns), (BLOCKED, UNRECORDED))
        return own | (idle & _inside(self.blocking_together, at_ns))


def load_host_activity(store: Store, process: int, threads: list[int]) -> HostActivity:
    """Read what the launching threads of a process did.

    Args:
        store: with ``raw.host_label`` filled.
        process: whose threads.
        threads: those that launched GPU work.
    """
    columns = store.arrays(_INTERVALS, {"process": process})
    names = columns["label"].astype(str)
    kind = columns["kind"].astype(str)
    start, end, thread = (columns[name] for name in ("start_ns", "end_ns", "thread"))
    in_call = _inside_calls(start, end, thread, kind)
    retried = _retried(start, thread, kind, names)
    label = _priorities(np.where(retried, "alloc", names), kind, end - start)
    # The profiler and the loader of code stop the process, whatever thread they report.
    everywhere = (kind == "overhead") & (label < INSIDE)
    mine = np.isin(thread, threads) | everywhere
    shown = mine & (label < UNRECORDED) & ~in_call
    timelines = {
        number: _flat(start, end, label, shown & ((thread == number) | everywhere))
        for number in threads
    }
    others = {
        number: _weakly_blocked(start, end, label, shown & (thread != number)) for number in threads
    }
    waiting = (names == "blocking") & np.isin(thread, threads)
    return HostActivity(
        timelines,
        _flat(start, end, label, shown & (label != BLOCKED)),
        others,
        {number: _merged(start, end, waiting & (thread == number)) for number in threads},
        _merged(start, end, waiting),
    )


def _flat(start: Array, end: Array, label: Array, chosen: Array) -> Timeline:
    return flatten(start[chosen], end[chosen], label[chosen], UNRECORDED)


def _weakly_blocked(start: Array, end: Array, label: Array, chosen: Array) -> Timeline:
    """Flatten with waits in the operating system below plain work, not above it."""
    swap = np.arange(UNRECORDED + 1)
    swap[[BLOCKED, INSIDE]] = INSIDE, BLOCKED
    flat = _flat(start, end, swap[label], chosen)
    return Timeline(flat.edges, swap[flat.label], UNRECORDED)


def _priorities(names: Array, kind: Array, dur_ns: Array) -> Array:
    """Position in ``LABELS``, ``INSIDE`` for calls and operators, ``UNRECORDED`` for the rest."""
    distinct, where = np.unique(names, return_inverse=True)
    known = np.array(
        [LABELS.index(name) if name in LABELS else UNRECORDED for name in distinct], dtype=np.int64
    )
    label = known[where]
    plain = (label == UNRECORDED) & (kind != "range") & (kind != "overhead")
    label = np.where(plain, INSIDE, label)
    calls = plain & (names == "") & np.isin(kind, ("runtime", "driver"))
    label = np.where(calls & (dur_ns > _SLOW_CALL_NS), LABELS.index("cuda_api"), label)
    in_os = plain & (kind == "os") & (names != "blocking")
    return np.where(in_os, BLOCKED, label)


def _retried(start: Array, thread: Array, kind: Array, names: Array) -> Array:
    """Find synchronizations between two calls of the allocator: it frees and tries again."""
    result = np.zeros(len(names), bool)
    calls = np.flatnonzero(np.isin(kind, ("runtime", "driver")))
    calls = calls[np.lexsort((start[calls], thread[calls]))]
    if len(calls) < 3:
        return result
    allocates, owner = names[calls] == "alloc", thread[calls]
    middle = (names[calls[1:-1]] == "blocking") & allocates[:-2] & allocates[2:]
    middle &= (owner[1:-1] == owner[:-2]) & (owner[1:-1] == owner[2:])
    result[calls[1:-1][middle]] = True
    return result


def _inside_calls(start: Array, end: Array, thread: Array, kind: Array) -> Array:
    """Find calls of the operating system inside a CUDA call: they belong to that call."""
    result = np.zeros(len(start), bool)
    in_os = kind == "os"
    cuda = np.isin(kind, ("runtime", "driver"))
    for number in np.unique(thread[in_os]):
        mine = np.flatnonzero(in_os & (thread == number))
        spans = _merged(start, end, cuda & (thread == number))
        result[mine] = _inside(spans, start[mine])
    return result


def _inside(spans: Spans, at_ns: Array) -> Array:
    starts, ends = spans
    if not len(starts):
        return np.zeros(len(at_ns), bool)
    position = np.searchsorted(starts, at_ns, side="right") - 1
    inside: Array = (position >= 0) & (at_ns < ends[np.maximum(position, 0)])
    return inside


def _merged(start: Array, end: Array, chosen: Array) -> Spans:
    start, end = start[chosen], end[chosen]
    if not len(start):
        return _NO_SPANS
    order = np.argsort(start, kind="stable")
    start, end = start[order], np.maximum.accumulate(end[order])
    first = np.concatenate([[True], start[1:] >= end[:-1]])
    last = np.concatenate([first[1:], [True]])
    return start[first], end[last]
