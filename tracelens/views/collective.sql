CREATE VIEW main.collective AS
SELECT
    a.rank, a.activity_id, d.dimension, d.collective, d.bytes, d.group_size, d.source AS dimension_source,
    a.step, a.stream, a.start_ns, a.end_ns, a.dur_ns, coalesce(e.exposed_ns, 0) AS exposed_ns,
    coalesce(w.window_ns, 0) - coalesce(e.exposed_ns, 0) AS hidden_ns,
    coalesce(w.window_ns, 0) AS window_ns
FROM raw.activity_dimension AS d
JOIN main.activity AS a USING (activity_id)
LEFT JOIN (
    SELECT activity_id, sum(end_ns - start_ns)::BIGINT AS exposed_ns
    FROM raw.segment
    WHERE leaf LIKE 'comm.%' OR leaf LIKE 'pp.%'
    GROUP BY activity_id
) AS e USING (activity_id)
LEFT JOIN (
    SELECT
        m.activity_id,
        sum(least(m.end_ns, p.end_ns) - greatest(m.start_ns, p.start_ns))::BIGINT AS window_ns
    FROM raw.activity AS m
    JOIN raw.activity_dimension AS n USING (activity_id)
    JOIN raw.step AS p
        ON p.gpu = m.gpu AND p.included AND p.start_ns < m.end_ns AND p.end_ns > m.start_ns
    GROUP BY ALL
) AS w USING (activity_id);
COMMENT ON VIEW main.collective IS 'Communication kernels with what is known of them.';
COMMENT ON COLUMN main.collective.rank IS 'Rank.';
COMMENT ON COLUMN main.collective.activity_id IS 'The kernel.';
COMMENT ON COLUMN main.collective.dimension IS 'Parallel dimension: dp, fsdp, tp, pp, ep, cp, world, embed, unknown.';
COMMENT ON COLUMN main.collective.collective IS 'all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, reduce, barrier, send_recv, generic.';
COMMENT ON COLUMN main.collective.bytes IS 'Message size by the convention of nccl-tests; NULL when not recorded.';
COMMENT ON COLUMN main.collective.group_size IS 'Ranks in the process group.';
COMMENT ON COLUMN main.collective.dimension_source IS 'What decided the dimension.';
COMMENT ON COLUMN main.collective.step IS 'Step that launched it.';
COMMENT ON COLUMN main.collective.stream IS 'Stream.';
COMMENT ON COLUMN main.collective.start_ns IS 'Start, ns.';
COMMENT ON COLUMN main.collective.end_ns IS 'End, ns.';
COMMENT ON COLUMN main.collective.dur_ns IS 'Duration in ns.';
COMMENT ON COLUMN main.collective.exposed_ns IS 'Part of the analysed window in which it, and no compute, held the GPU.';
COMMENT ON COLUMN main.collective.hidden_ns IS 'Part of the analysed window in which it ran while something else held the GPU; hidden and exposed sum to window_ns.';
COMMENT ON COLUMN main.collective.window_ns IS 'Part of its duration that lies in the analysed window.';
