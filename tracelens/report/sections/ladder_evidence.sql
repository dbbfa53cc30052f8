-- The three instances that lose most to each step of the ladder, largest loss first.
WITH lost AS (
    UNPIVOT (
        SELECT
            activity_id, owned_ns, flop, m, n, k, batch,
            precision_ns, memory_ns, sm_reserved_ns, quantisation_ns, clock_ns, ceiling_ns, kernel_ns,
            contention_ns
        FROM raw.ladder
    )
    ON precision_ns, memory_ns, sm_reserved_ns, quantisation_ns, clock_ns, ceiling_ns, kernel_ns,
        contention_ns
    INTO NAME step VALUE lost_ns
),
ranked AS (
    SELECT *, row_number() OVER (PARTITION BY step ORDER BY lost_ns DESC, activity_id) AS place
    FROM lost WHERE lost_ns > 0
)
SELECT
    'ineff.' || replace(r.step, '_ns', '') AS leaf, r.lost_ns, r.owned_ns AS dur_ns, r.flop AS executed_flop,
    r.m, r.n, r.k, r.batch, g.rank, a.start_ns, a.end_ns, n.name, a.process, a.stream, a.correlation,
    i.viewer_zero_ns, i.format
FROM ranked AS r
JOIN raw.activity AS a USING (activity_id)
JOIN raw.gpu AS g USING (gpu)
JOIN raw.name AS n USING (name_id)
JOIN raw.input AS i ON i.input = g.input
WHERE r.place <= 3
ORDER BY leaf, r.place
