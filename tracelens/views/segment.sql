CREATE VIEW main.segment AS
SELECT
    g.rank, s.step, s.start_ns, s.end_ns, s.end_ns - s.start_ns AS dur_ns, s.leaf,
    s.activity_id, s.call_id, s.detail, b.rank AS blamed_rank
FROM raw.segment AS s
JOIN raw.gpu AS g USING (gpu)
LEFT JOIN raw.gpu AS b ON b.gpu = s.blamed_gpu;
COMMENT ON VIEW main.segment IS 'The partition itself: disjoint segments that cover every analysed step exactly.';
COMMENT ON COLUMN main.segment.rank IS 'Rank.';
COMMENT ON COLUMN main.segment.step IS 'Step whose window the segment lies in.';
COMMENT ON COLUMN main.segment.start_ns IS 'Start, ns.';
COMMENT ON COLUMN main.segment.end_ns IS 'End, ns.';
COMMENT ON COLUMN main.segment.dur_ns IS 'Duration in ns.';
COMMENT ON COLUMN main.segment.leaf IS 'Where the time is charged.';
COMMENT ON COLUMN main.segment.activity_id IS 'Owner of busy time; for idle time the activity that ended it.';
COMMENT ON COLUMN main.segment.call_id IS 'Idle time: the launch that came late.';
COMMENT ON COLUMN main.segment.detail IS 'Idle time: what the host was doing.';
COMMENT ON COLUMN main.segment.blamed_rank IS 'Waiting: the rank that came last; NULL where clocks do not tell.';
