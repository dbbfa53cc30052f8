CREATE VIEW main.loss_time AS
SELECT rank, step, leaf, sum(dur_ns)::BIGINT AS dur_ns, count(*) AS segments
FROM main.segment
GROUP BY ALL;
COMMENT ON VIEW main.loss_time IS 'Time by rank, step and leaf; sums to the window of each step.';
COMMENT ON COLUMN main.loss_time.rank IS 'Rank.';
COMMENT ON COLUMN main.loss_time.step IS 'Step.';
COMMENT ON COLUMN main.loss_time.leaf IS 'Leaf of the taxonomy.';
COMMENT ON COLUMN main.loss_time.dur_ns IS 'Time in ns.';
COMMENT ON COLUMN main.loss_time.segments IS 'Number of segments.';
