"""What the host was doing: labelled timelines of the threads that launch GPU work."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tracelens.attribution.timeline import Timeline, flatten
from tracelens.store import Store

Array = np.ndarray[Any, Any]

LABELS = ("profiler", "gc", "ckpt", "dataloader", "alloc", "compile", "cuda_api", "blocked")
"""Host causes, the most telling first; each is the leaf ``host.<label>``."""
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
        together: all launching threads as one, for a thread that waits for another.
        blocking: per thread (starts, ends) of calls that wait for the GPU, ascending, merged.
    """

    threads: dict[int, Timeline]
    together: Timeline
    blocking: dict[int, tuple[Array, Array]]

    def blocked_at(self, thread: int, at_ns: Array) -> Array:
        """Tell at which instants a thread was inside a blocking call."""
        starts, ends = self.blocking.get(thread, (_NONE, _NONE))
        if not len(starts):
            return np.zeros(len(at_ns), bool)
        position = np.searchsorted(starts, at_ns, side="right") - 1
        inside: Array = (position >= 0) & (at_ns < ends[np.maximum(position, 0)])
        return inside


_NONE: Array = np.empty(0, np.int64)


def load_host_activity(store: Store, process: int, threads: list[int]) -> HostActivity:
    """Read what the launching threads of a process did.

    Args:
        store: with ``raw.host_label`` filled.
        process: whose threads.
        threads: those that launched GPU work.
    """
    columns = store.arrays(_INTERVALS, {"process": process})
    label = _priorities(columns)
    everywhere = label == 0  # the profiler stops the process, whatever thread it reports
    chosen = np.isin(columns["thread"], threads) | everywhere
    start, end, thread = (columns[name] for name in ("start_ns", "end_ns", "thread"))
    shown = chosen & (label < UNRECORDED)
    timelines = {
        number: _flat(start, end, label, shown & ((thread == number) | everywhere))
        for number in threads
    }
    waiting = columns["label"] == "blocking"
    blocking = {number: _merged(start, end, waiting & (thread == number)) for number in threads}
    return HostActivity(timelines, _flat(start, end, label, shown), blocking)


def _flat(start: Array, end: Array, label: Array, chosen: Array) -> Timeline:
    return flatten(start[chosen], end[chosen], label[chosen], UNRECORDED)


def _priorities(columns: dict[str, Array]) -> Array:
    """Position in ``LABELS``, ``INSIDE`` for calls and operators, ``UNRECORDED`` for the rest."""
    names, where = np.unique(columns["label"].astype(str), return_inverse=True)
    known = np.array([LABELS.index(name) if name in LABELS else UNRECORDED for name in names])
    label = known[where] if len(names) else np.empty(0, np.int64)
    kind = columns["kind"].astype(str)
    plain = (label == UNRECORDED) & (kind != "range") & (kind != "overhead")
    label = np.where(plain, INSIDE, label)
    dur = columns["end_ns"] - columns["start_ns"]
    ordinary = np.isin(columns["label"].astype(str), ("", "other"))
    slow = plain & ordinary & np.isin(kind, ("runtime", "driver")) & (dur > _SLOW_CALL_NS)
    label = np.where(slow, LABELS.index("cuda_api"), label)
    in_os = plain & (kind == "os") & (columns["label"].astype(str) != "blocking")
    return np.where(in_os, LABELS.index("blocked"), label)


def _merged(start: Array, end: Array, chosen: Array) -> tuple[Array, Array]:
    start, end = start[chosen], end[chosen]
    if not len(start):
        return _NONE, _NONE
    order = np.argsort(start, kind="stable")
    start, end = start[order], np.maximum.accumulate(end[order])
    first = np.concatenate([[True], start[1:] >= end[:-1]])
    last = np.concatenate([first[1:], [True]])
    return start[first], end[last]
