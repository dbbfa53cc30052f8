"""The partition must cover each analysed window exactly: checked on every run, never repaired."""

from typing import Any

from tracelens.errors import IdentityError
from tracelens.store import Store

_TIME = """
SELECT
    coalesce(sum(w.window_ns), 0)::BIGINT AS window_ns,
    coalesce(sum(s.covered_ns), 0)::BIGINT AS covered_ns,
    coalesce(max(abs(w.window_ns - coalesce(s.covered_ns, 0))), 0)::BIGINT AS worst_ns
FROM (
    SELECT gpu, step, sum(end_ns - start_ns)::BIGINT AS window_ns
    FROM raw.step WHERE included GROUP BY ALL
) AS w
FULL JOIN (
    SELECT gpu, step, sum(end_ns - start_ns)::BIGINT AS covered_ns
    FROM raw.segment GROUP BY ALL
) AS s ON s.gpu = w.gpu AND s.step IS NOT DISTINCT FROM w.step
"""
_DISJOINT = """
SELECT count(*)
FROM (
    SELECT
        start_ns, end_ns,
        lead(start_ns) OVER (PARTITION BY gpu ORDER BY start_ns, end_ns) AS next_start_ns
    FROM raw.segment
)
WHERE end_ns < start_ns OR next_start_ns < end_ns
"""


def check_partition(store: Store) -> dict[str, Any]:
    """Check that segments are disjoint and sum to the window of every GPU and step.

    Returns:
        The section ``identities`` of the answer.

    Raises:
        IdentityError: if a single nanosecond is missing or counted twice.
    """
    window_ns, covered_ns, worst_ns = store.rows(_TIME)[0]
    overlapping = store.scalar(_DISJOINT)
    if worst_ns or window_ns != covered_ns or overlapping:
        raise IdentityError(
            f"time partition: window {window_ns} ns, charged {covered_ns} ns, "
            f"worst step off by {worst_ns} ns, {overlapping} overlapping segments",
            hint="this is a bug of TraceLens: please report it with the trace",
        )
    return {"time": {"ok": True, "residual_ns": window_ns - covered_ns}, "splits": {"ok": True}}
