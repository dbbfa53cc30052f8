CREATE VIEW main.rank AS
SELECT g.rank, g.rank_source, g.device, g.device_name, g.num_sms, i.path, g.gpu
FROM raw.gpu AS g
JOIN raw.input AS i USING (input);
COMMENT ON VIEW main.rank IS 'Ranks: one physical GPU of one run each.';
COMMENT ON COLUMN main.rank.rank IS 'Rank in the job.';
COMMENT ON COLUMN main.rank.rank_source IS 'Where the rank number comes from: trace, environment, file name, order.';
COMMENT ON COLUMN main.rank.device IS 'Device ordinal inside the process.';
COMMENT ON COLUMN main.rank.device_name IS 'Device name as the trace gives it; NULL when it does not.';
COMMENT ON COLUMN main.rank.num_sms IS 'Streaming multiprocessors as the trace gives them.';
COMMENT ON COLUMN main.rank.path IS 'File the rank comes from.';
COMMENT ON COLUMN main.rank.gpu IS 'Internal number of the GPU within this run.';
