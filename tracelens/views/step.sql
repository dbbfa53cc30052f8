CREATE VIEW main.step AS
SELECT g.rank, s.step, s.start_ns, s.end_ns, s.end_ns - s.start_ns AS dur_ns, s.included, s.reason
FROM raw.step AS s
JOIN raw.gpu AS g USING (gpu);
COMMENT ON VIEW main.step IS 'Step windows on the GPU; included ones tile the analysed window.';
COMMENT ON COLUMN main.step.rank IS 'Rank.';
COMMENT ON COLUMN main.step.step IS 'Step number as marked.';
COMMENT ON COLUMN main.step.start_ns IS 'Start: first main-stream compute kernel launched in the step.';
COMMENT ON COLUMN main.step.end_ns IS 'End: start of the next step.';
COMMENT ON COLUMN main.step.dur_ns IS 'Duration in ns.';
COMMENT ON COLUMN main.step.included IS 'Whether the step is part of the account.';
COMMENT ON COLUMN main.step.reason IS 'Why a step is excluded.';
