-- FLOP-bearing kernels that own time in the window, or whose FLOPs are counted in it, with what is
-- known of each: owned time, FLOPs, launch, the operator's record, the tiles that the name tells.
WITH span AS (SELECT gpu, step, start_ns, end_ns FROM raw.step WHERE included),
work AS (
    SELECT f.activity_id, a.gpu, a.start_ns, s.step
    FROM raw.activity_flop AS f
    JOIN raw.activity AS a USING (activity_id)
    LEFT JOIN raw.activity_step AS s USING (activity_id)
),
counted AS (
    SELECT w.activity_id FROM work AS w JOIN span AS p USING (gpu, step)
    UNION ALL
    SELECT w.activity_id FROM work AS w JOIN span AS p USING (gpu)
    WHERE w.step IS NULL AND w.start_ns >= p.start_ns AND w.start_ns < p.end_ns
),
owned AS (
    SELECT activity_id, max(leaf) AS leaf, sum(end_ns - start_ns)::BIGINT AS owned_ns
    FROM raw.segment WHERE starts_with(leaf, 'flop.') GROUP BY activity_id
),
again AS (SELECT DISTINCT activity_id FROM raw.recomputed),
sharing AS (
    SELECT op_id, count(*) AS kernels FROM raw.activity_flop
    WHERE op_id IS NOT NULL AND executed_flop > 0 GROUP BY op_id
)
SELECT
    f.activity_id, a.gpu, a.start_ns, greatest(a.end_ns, a.start_ns) AS end_ns,
    coalesce(o.owned_ns, 0) AS owned_ns, x.activity_id IS NOT NULL AS is_counted,
    CASE
        WHEN o.leaf = 'flop.gemm' THEN 'gemm'
        WHEN o.leaf = 'flop.conv' THEN 'conv'
        WHEN o.leaf = 'flop.attn' THEN 'attention'
        WHEN o.leaf IS NOT NULL OR ($relabelled AND r.activity_id IS NOT NULL) THEN 'recompute'
        WHEN c.class IN ('gemm', 'gemm_mem') THEN 'gemm'
        ELSE c.class
    END AS part,
    coalesce(f.executed_flop, 'nan'::DOUBLE) AS flop, coalesce(f.dtype, '') AS dtype,
    coalesce(p.record, -1) AS record, coalesce(s.kernels, 0) = 1 AS is_alone_in_op,
    coalesce(k.tile_m, 0) AS tile_m, coalesce(k.tile_n, 0) AS tile_n, coalesce(k.schedule, '') AS schedule,
    CASE
        WHEN a.grid_x IS NULL THEN 0
        WHEN k.grid_unit = 'work_items' THEN
            (a.grid_x::BIGINT * a.grid_y * a.grid_z)
            // greatest(a.block_x::BIGINT * a.block_y * a.block_z, 1)
        ELSE a.grid_x::BIGINT * a.grid_y * a.grid_z
    END AS blocks,
    (dense_rank() OVER (ORDER BY
        a.gpu, k.kernel_key, a.grid_x, a.grid_y, a.grid_z, a.block_x, a.block_y, a.block_z, p.record
    ) - 1) AS key
FROM raw.activity_flop AS f
JOIN raw.activity AS a USING (activity_id)
JOIN raw.activity_class AS c USING (activity_id)
LEFT JOIN owned AS o USING (activity_id)
LEFT JOIN counted AS x USING (activity_id)
LEFT JOIN again AS r USING (activity_id)
LEFT JOIN raw.kernel_tiling AS k USING (name_id)
LEFT JOIN raw.flops_record AS p USING (op_id)
LEFT JOIN sharing AS s USING (op_id)
WHERE o.activity_id IS NOT NULL OR x.activity_id IS NOT NULL
ORDER BY f.activity_id
