"""Exclude activities that cannot have happened, and say so.

A kernel that lasts over 100 times the median of its name while three or more later kernels of its
own stream begin during it, or one that overlaps its successor by more than a millisecond, is a
writer's error: streams are serial. Kept, it would hide all idle time. Overlaps of microseconds are
real (programmatic dependent launch) and stay, as do the branches of a CUDA graph.
"""

from tracelens.store import Store

_FACTOR = 100
_LATER_KERNELS = 3
_OVERLAP_NS = 1_000_000
REASON = "impossible kernel: spans later kernels of its own stream"

_SUSPECTS = f"""
CREATE OR REPLACE TEMP TABLE _suspect AS
SELECT activity_id, input
FROM (
    SELECT
        a.activity_id, g.input, a.end_ns, a.end_ns - a.start_ns AS dur_ns,
        median(a.end_ns - a.start_ns) OVER (PARTITION BY a.gpu, a.name_id) AS median_ns,
        median(a.end_ns - a.start_ns) OVER (PARTITION BY a.gpu, a.stream) AS stream_median_ns,
        lead(a.start_ns, {_LATER_KERNELS}) OVER (
            PARTITION BY a.gpu, a.stream ORDER BY a.start_ns, a.activity_id
        ) AS later_ns,
        lead(a.start_ns) OVER (
            PARTITION BY a.gpu, a.stream ORDER BY a.start_ns, a.activity_id
        ) AS next_ns,
        count(*) OVER (PARTITION BY a.process, nullif(a.correlation, 0)) > 1
            AND a.correlation > 0 AS in_graph
    FROM raw.activity AS a
    JOIN raw.gpu AS g USING (gpu)
    WHERE a.kind = 'kernel'
)
WHERE dur_ns > {_FACTOR} * least(median_ns, stream_median_ns)
    AND (later_ns < end_ns OR (next_ns + {_OVERLAP_NS} < end_ns AND NOT in_graph))
"""


def drop_implausible(store: Store) -> None:
    """Remove impossible activities from ``raw.activity`` and count them in ``raw.damage``."""
    store.execute(_SUSPECTS)
    found = store.rows("SELECT input, count(*) FROM _suspect GROUP BY input ORDER BY input")
    for source_input, count in found:
        store.append("damage", {"input": [source_input], "reason": [REASON], "count": [count]})
    if found:
        store.execute(
            "DELETE FROM raw.activity WHERE activity_id IN (SELECT activity_id FROM _suspect)"
        )
    store.execute("DROP TABLE _suspect")
