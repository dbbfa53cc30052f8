CREATE VIEW main.overlap AS
SELECT g.rank, c.step, c.active, c.owner_leaf, c.dur_ns
FROM raw.concurrency AS c
JOIN raw.gpu AS g USING (gpu);
COMMENT ON VIEW main.overlap IS 'Every set of leaves that ran at the same time. Rows are disjoint and sum to the window: sum those WHERE list_has_any(active, [...]) AND list_has_any(active, [...]) for the overlap of any leaves with any others.';
COMMENT ON COLUMN main.overlap.rank IS 'Rank.';
COMMENT ON COLUMN main.overlap.step IS 'Step whose window the time lies in.';
COMMENT ON COLUMN main.overlap.active IS 'Leaves of all activities that ran, sorted, each once; empty while the GPU was idle.';
COMMENT ON COLUMN main.overlap.owner_leaf IS 'Leaf of the activity that owned the time, the first of several that shared it; NULL while the GPU was idle.';
COMMENT ON COLUMN main.overlap.dur_ns IS 'Time in ns.';
