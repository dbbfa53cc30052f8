"""Which recorded interval of the host lies around the launch of each collective?"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from tracelens.store import Store

_COMM = (
    "SELECT activity_id FROM raw.activity_class "
    "WHERE class LIKE 'collective:%' OR class LIKE 'p2p:%'"
)
_LAUNCHES = f"""
SELECT DISTINCT ON (l.activity_id) l.activity_id, h.thread, h.start_ns
FROM raw.link AS l
JOIN raw.host_call AS h USING (call_id)
WHERE l.activity_id IN ({_COMM}) AND h.thread IS NOT NULL
ORDER BY l.activity_id, h.start_ns
"""
_DESCRIBED_OPS = """
SELECT thread, start_ns, end_ns, op_id FROM raw.op
WHERE op_id IN (SELECT op_id FROM raw.collective)
ORDER BY thread, start_ns, end_ns DESC, op_id
"""
_ANNOTATIONS = """
SELECT r.thread, r.start_ns, r.end_ns, r.name_id
FROM raw.range AS r
JOIN raw.name AS n USING (name_id)
WHERE n.name LIKE 'nccl%'
ORDER BY r.thread, r.start_ns, r.end_ns DESC, r.range_id
"""


@dataclass
class Intervals:
    """Intervals of one thread, added by ascending start; of equal starts the longest first."""

    _start_ns: list[int] = field(default_factory=list)
    _end_ns: list[int] = field(default_factory=list)
    _value: list[int] = field(default_factory=list)
    _outer: list[int] = field(default_factory=list)

    def add(self, start_ns: int, end_ns: int, value: int) -> None:
        """Add an interval; it contains its start, not its end."""
        position = len(self._start_ns) - 1
        while position >= 0 and self._end_ns[position] <= end_ns:
            position = self._outer[position]
        self._outer.append(position)
        self._start_ns.append(start_ns)
        self._end_ns.append(end_ns)
        self._value.append(value)

    def innermost(self, at_ns: int) -> int | None:
        """Return the value of the interval that began last of those around an instant."""
        position = bisect_right(self._start_ns, at_ns) - 1
        # Whatever began before and ends no later has ended too: only longer ones are candidates.
        while position >= 0 and self._end_ns[position] <= at_ns:
            position = self._outer[position]
        return self._value[position] if position >= 0 else None


def find_enclosing(store: Store) -> None:
    """Fill the temporary table ``_enclosing``: the op with metadata and the annotation around."""
    store.execute(
        "CREATE OR REPLACE TEMP TABLE _enclosing "
        "(activity_id BIGINT, op_id BIGINT, annotation_id INTEGER)"
    )
    ops = _by_thread(store.rows(_DESCRIBED_OPS))
    annotations = _by_thread(store.rows(_ANNOTATIONS))
    if not ops and not annotations:
        return
    launches = store.rows(_LAUNCHES)
    none = Intervals()
    store.append_temp(
        "_enclosing",
        {
            "activity_id": [activity for activity, _, _ in launches],
            "op_id": [ops.get(thread, none).innermost(at_ns) for _, thread, at_ns in launches],
            "annotation_id": [
                annotations.get(thread, none).innermost(at_ns) for _, thread, at_ns in launches
            ],
        },
    )


def _by_thread(rows: Iterable[tuple[int | None, int, int, int]]) -> dict[int, Intervals]:
    threads: dict[int, Intervals] = defaultdict(Intervals)
    for thread, start_ns, end_ns, value in rows:
        if thread is not None:
            threads[thread].add(start_ns, end_ns, value)
    return dict(threads)
