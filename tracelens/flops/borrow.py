"""Which kernels without shapes are launches of one that has them elsewhere in the run?

The same kernel with the same grid and block does the same work where one block does one tile: the
launches with shapes must agree on the FLOPs, on who ran them, and last about as long. Kernels whose
blocks stay and take tile after tile have one grid for many shapes: they lend and borrow nothing.
"""

from tracelens.flops.stage import OPTIMIZER_RULE
from tracelens.store import Store

RULE = "borrowed: "
"""Prefix of the rule of kernels that have the FLOPs of an equal launch."""
_ONE_TILE_A_BLOCK = ("tiles", "split_k")
_LEAST_FRAC, _MOST_FRAC = 0.75, 1.33
_LEAST_LENDERS = 3

_BORROW = """
UPDATE raw.activity_flop SET
    executed_flop = b.executed, executed_low_flop = b.executed, executed_high_flop = b.executed,
    model_flop = b.model, model_low_flop = b.model, model_high_flop = b.model,
    dtype = coalesce(raw.activity_flop.dtype, b.dtype), shaped = TRUE, rule = $rule || b.rule
FROM (
    WITH launch AS (
        SELECT f.activity_id, f.shaped, f.executed_flop, f.model_flop, f.dtype, f.rule,
            a.end_ns - a.start_ns AS dur_ns,
            (g.device_name, a.name_id, a.grid_x, a.grid_y, a.grid_z,
                a.block_x, a.block_y, a.block_z) AS key,
            starts_with(coalesce(f.rule, ''), $optimizer) OR r.activity_id IS NOT NULL AS is_other
        FROM raw.activity_flop AS f
        JOIN raw.activity AS a USING (activity_id)
        JOIN raw.gpu AS g USING (gpu)
        JOIN raw.kernel_tiling AS k USING (name_id)
        LEFT JOIN (SELECT DISTINCT activity_id FROM raw.recomputed) AS r USING (activity_id)
        WHERE a.grid_x IS NOT NULL AND a.block_x IS NOT NULL
            AND k.schedule IN (SELECT unnest($schedules::TEXT[]))
    ),
    lender AS (
        SELECT key, any_value(executed_flop) AS executed, any_value(model_flop) AS model,
            any_value(dtype) AS dtype, any_value(rule) AS rule,
            min(dur_ns) AS least_ns, max(dur_ns) AS most_ns
        FROM launch WHERE shaped
        GROUP BY key
        HAVING count(*) >= $lenders AND count(DISTINCT executed_flop) = 1
            AND count(DISTINCT model_flop) = 1 AND count(DISTINCT rule) = 1
            AND any_value(executed_flop) > 0 AND NOT bool_or(is_other)
    )
    SELECT x.activity_id, l.executed, l.model, l.dtype, l.rule
    FROM launch AS x JOIN lender AS l USING (key)
    WHERE NOT x.shaped AND x.dur_ns BETWEEN $least * l.least_ns AND $most * l.most_ns
) AS b
WHERE raw.activity_flop.activity_id = b.activity_id
"""


def borrow_flops(store: Store) -> None:
    """Give kernels without shapes the FLOPs of equal launches.

    Matmuls of the optimizer and recomputed ones lend nothing: whether a borrower is one of them
    nobody knows.

    Args:
        store: with ``raw.activity_flop`` and ``raw.recomputed``.
    """
    store.execute(
        _BORROW,
        {
            "rule": RULE,
            "optimizer": OPTIMIZER_RULE,
            "schedules": list(_ONE_TILE_A_BLOCK),
            "lenders": _LEAST_LENDERS,
            "least": _LEAST_FRAC,
            "most": _MOST_FRAC,
        },
    )
