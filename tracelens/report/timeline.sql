-- Intervals of one GPU between $2 and $3, at most $4 of them, the longest; cut to the span.
WITH kept AS (
    SELECT * FROM (
        -- What every nanosecond is charged to, with the activity that owns it.
        SELECT 'charged' AS lane, s.leaf, s.start_ns, s.end_ns,
            CASE WHEN split_part(s.leaf, '.', 1) IN ('gap', 'host', 'idle') THEN NULL ELSE s.activity_id END AS activity_id
        FROM raw.segment AS s WHERE s.gpu = $1
        UNION ALL
        SELECT 'idle', s.leaf, s.start_ns, s.end_ns, NULL
        FROM raw.segment AS s
        WHERE s.gpu = $1 AND split_part(s.leaf, '.', 1) IN ('gap', 'host', 'idle', 'pp')
        UNION ALL
        -- What ran, hidden or not.
        SELECT
            CASE
                WHEN d.dimension IS NOT NULL THEN 'comm ' || d.dimension
                WHEN c.class LIKE 'collective:%' OR c.class IN ('p2p:sendrecv', 'memcpy:p2p') THEN 'comm unknown'
                WHEN c.class = 'graph' OR a.kind = 'graph' THEN 'opaque'
                WHEN a.kind IN ('memcpy', 'memset') THEN 'mem'
                WHEN c.class IN ('gemm', 'gemm_mem', 'attention', 'conv') THEN 'matmul'
                ELSE 'compute'
            END AS lane,
            CASE
                WHEN r.activity_id IS NOT NULL THEN 'compute.recompute'
                WHEN d.dimension IS NOT NULL OR c.class LIKE 'collective:%' OR c.class = 'p2p:sendrecv' THEN 'comm.unknown.undivided'
                WHEN c.class = 'graph' OR a.kind = 'graph' THEN 'opaque.graph'
                WHEN a.kind IN ('memcpy', 'memset') THEN 'mem.d2d'
                WHEN c.class = 'attention' THEN 'flop.attn'
                WHEN c.class IN ('gemm', 'gemm_mem', 'conv') THEN 'flop.gemm'
                ELSE 'compute.other'
            END AS leaf,
            a.start_ns, a.end_ns, a.activity_id
        FROM raw.activity AS a
        LEFT JOIN raw.activity_class AS c USING (activity_id)
        LEFT JOIN raw.activity_dimension AS d USING (activity_id)
        LEFT JOIN raw.recomputed AS r USING (activity_id)
        WHERE a.gpu = $1
    ) AS shown
    WHERE start_ns < $3 AND end_ns > $2
    ORDER BY least(end_ns, $3) - greatest(start_ns, $2) DESC, start_ns, lane
    LIMIT $4
)
SELECT k.lane, k.leaf, greatest(k.start_ns, $2) AS start_ns, least(k.end_ns, $3) AS end_ns,
    n.name, a.stream, a.correlation
FROM kept AS k
LEFT JOIN raw.activity AS a USING (activity_id)
LEFT JOIN raw.name AS n USING (name_id)
ORDER BY k.lane, start_ns, end_ns, a.activity_id
