CREATE VIEW main.kernel AS
SELECT
    rank, name, class, count(*) AS count, sum(dur_ns)::BIGINT AS total_ns,
    min(dur_ns) AS min_ns, median(dur_ns)::BIGINT AS median_ns, max(dur_ns) AS max_ns,
    sum(executed_flop) AS executed_flop,
    sum(executed_flop) / nullif(sum(dur_ns) FILTER (executed_flop IS NOT NULL), 0) * 1e9 AS flop_per_s
FROM main.activity
WHERE kind = 'kernel'
GROUP BY ALL;
COMMENT ON VIEW main.kernel IS 'Kernels by rank and name, over the whole trace.';
COMMENT ON COLUMN main.kernel.rank IS 'Rank.';
COMMENT ON COLUMN main.kernel.name IS 'Kernel name.';
COMMENT ON COLUMN main.kernel.class IS 'Class of the kernel.';
COMMENT ON COLUMN main.kernel.count IS 'Instances.';
COMMENT ON COLUMN main.kernel.total_ns IS 'Sum of durations in ns (overlaps counted twice: not a share of time).';
COMMENT ON COLUMN main.kernel.min_ns IS 'Shortest instance, ns.';
COMMENT ON COLUMN main.kernel.median_ns IS 'Median instance, ns.';
COMMENT ON COLUMN main.kernel.max_ns IS 'Longest instance, ns.';
COMMENT ON COLUMN main.kernel.executed_flop IS 'FLOP executed by instances with known shapes.';
COMMENT ON COLUMN main.kernel.flop_per_s IS 'FLOP per second over instances with known shapes.';
