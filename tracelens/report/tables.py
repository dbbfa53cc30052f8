"""Which rows do the tables of the page hold beyond those of the answer?"""

from typing import Any

from tracelens.store import Store

KERNEL_ROWS = 50

# Time is what a kernel owned in the partition: rows of different kernels never overlap and add up.
_KERNELS = f"""
WITH owned AS (
    SELECT activity_id, sum(end_ns - start_ns)::BIGINT AS owned_ns
    FROM raw.segment
    WHERE activity_id IS NOT NULL
        AND split_part(leaf, '.', 1) IN ('flop', 'compute', 'opaque', 'comm', 'mem')
    GROUP BY activity_id
)
SELECT n.name, c.class, count(*) AS count, sum(o.owned_ns)::BIGINT AS owned_ns,
    sum(f.executed_flop) AS executed_flop,
    (sum(o.owned_ns) FILTER (f.executed_flop IS NOT NULL))::BIGINT AS flop_ns
FROM owned AS o
JOIN raw.activity AS a USING (activity_id)
JOIN raw.name AS n USING (name_id)
LEFT JOIN raw.activity_class AS c USING (activity_id)
LEFT JOIN raw.activity_flop AS f USING (activity_id)
GROUP BY n.name, c.class
ORDER BY owned_ns DESC, n.name, c.class
LIMIT {KERNEL_ROWS}
"""


def kernels(store: Store, document: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the kernels that own most of the window, with their rate where shapes are known."""
    total_ns = document["window"]["total_ns"]
    peak = document["peak"]["flop_per_s"]
    rows = store.records(_KERNELS)
    for row in rows:
        row["share_frac"] = row["owned_ns"] / total_ns if total_ns else None
        known = row["executed_flop"] is not None and row["flop_ns"]
        row["flop_per_s"] = row["executed_flop"] * 1e9 / row["flop_ns"] if known else None
        row["peak_frac"] = row["flop_per_s"] / peak if known and peak else None
    return rows
