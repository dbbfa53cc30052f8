"""Tie each GPU activity to the host call that launched it and to the operator around that call.

Correlation first, containment in time second; ``External id`` only where the file proves that it
names operators (in half of all public files it is a copy of the correlation id, and those numbers
happen to match unrelated operators).
"""

from importlib import resources
from typing import Any

import numpy as np

from tracelens.store import Store

_PROVEN_FRAC = 0.99

_LINK = """
INSERT INTO raw.link (activity_id, call_id, op_id, method)
SELECT a.activity_id, l.call_id, o.op_id, coalesce(l.method, 'none')
FROM raw.activity AS a
LEFT JOIN _launched AS l USING (activity_id)
LEFT JOIN _call_op AS o USING (call_id)
"""
_EXTERNAL = """
SELECT
    count(*) FILTER (a.external_id = o.external_id) AS agree, count(*) AS total
FROM raw.link AS l
JOIN raw.activity AS a USING (activity_id)
JOIN raw.op AS o USING (op_id)
WHERE a.process = ? AND a.external_id IS NOT NULL AND a.external_id <> a.correlation
"""
_USE_EXTERNAL = """
UPDATE raw.link SET op_id = o.op_id, method = 'external_id'
FROM raw.activity AS a
JOIN (
    SELECT process, external_id, min(op_id) AS op_id FROM raw.op GROUP BY ALL HAVING count(*) = 1
) AS o ON o.process = a.process AND o.external_id = a.external_id
WHERE raw.link.activity_id = a.activity_id AND raw.link.call_id IS NULL AND a.process = ?
    AND a.external_id <> coalesce(a.correlation, -1)
"""


def link_activities(store: Store) -> None:
    """Fill ``raw.link`` for every activity."""
    sql = resources.files("tracelens.ingest").joinpath("linking.sql").read_text(encoding="utf-8")
    store.execute(sql)
    _enclosing_ops(store)
    store.execute(_LINK)
    for (process,) in store.rows("SELECT process FROM raw.process ORDER BY process"):
        agree, total = store.rows(_EXTERNAL, [process])[0]
        if total and agree >= _PROVEN_FRAC * total:
            store.execute(_USE_EXTERNAL, [process])
    store.execute(
        "DROP TABLE _call; DROP TABLE _activity; DROP TABLE _launched; DROP TABLE _call_op"
    )


def _enclosing_ops(store: Store) -> None:
    store.execute("CREATE OR REPLACE TEMP TABLE _call_op (call_id BIGINT, op_id BIGINT)")
    threads = store.rows(
        "SELECT DISTINCT thread FROM _launched WHERE thread IN (SELECT thread FROM raw.op)"
    )
    for (thread,) in threads:
        calls = store.arrays(
            "SELECT DISTINCT call_id, start_ns FROM _launched WHERE thread = ? ORDER BY start_ns",
            [thread],
        )
        ops = store.arrays(
            "SELECT op_id, start_ns, end_ns FROM raw.op WHERE thread = ? "
            "ORDER BY start_ns, end_ns DESC, op_id",
            [thread],
        )
        position = innermost(ops["start_ns"], ops["end_ns"], calls["start_ns"])
        inside = position >= 0
        store.append_temp(
            "_call_op",
            {"call_id": calls["call_id"][inside], "op_id": ops["op_id"][position[inside]]},
        )


def innermost(
    start_ns: np.ndarray[Any, Any], end_ns: np.ndarray[Any, Any], at_ns: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    """Find the innermost interval around each instant.

    Intervals may nest or overlap partly: the one that began last among those still open wins.

    Args:
        start_ns: starts, ascending; of equal starts the longer interval first.
        end_ns: ends.
        at_ns: instants, ascending. An interval contains its start, not its end.

    Returns:
        Position of the interval for each instant, -1 where there is none.
    """
    found = np.full(len(at_ns), -1, dtype=np.int64)
    starts, ends = start_ns.tolist(), end_ns.tolist()
    stack: list[int] = []
    position = 0
    for index, instant in enumerate(at_ns.tolist()):
        while position < len(starts) and starts[position] <= instant:
            while stack and ends[stack[-1]] <= starts[position]:
                stack.pop()
            stack.append(position)
            position += 1
        while stack and ends[stack[-1]] <= instant:
            stack.pop()
        if stack:
            found[index] = stack[-1]
    return found
