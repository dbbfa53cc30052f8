CREATE VIEW main.launch AS
SELECT
    l.activity_id, g.rank, h.call_id, n.name, h.kind, t.tid AS thread, h.start_ns, h.end_ns,
    a.start_ns - h.start_ns AS delay_ns, l.method
FROM raw.link AS l
JOIN raw.activity AS a USING (activity_id)
JOIN raw.gpu AS g USING (gpu)
JOIN raw.host_call AS h USING (call_id)
JOIN raw.name AS n ON n.name_id = h.name_id
LEFT JOIN raw.thread AS t USING (thread);
COMMENT ON VIEW main.launch IS 'Launch calls that could be tied to a GPU activity.';
COMMENT ON COLUMN main.launch.activity_id IS 'The activity.';
COMMENT ON COLUMN main.launch.rank IS 'Rank of the activity.';
COMMENT ON COLUMN main.launch.call_id IS 'The host call; a graph launch has many activities.';
COMMENT ON COLUMN main.launch.name IS 'Name of the call, e.g. cudaLaunchKernel.';
COMMENT ON COLUMN main.launch.kind IS 'runtime or driver.';
COMMENT ON COLUMN main.launch.thread IS 'Host thread id as the trace writes it.';
COMMENT ON COLUMN main.launch.start_ns IS 'Start of the call, ns.';
COMMENT ON COLUMN main.launch.end_ns IS 'End of the call, ns.';
COMMENT ON COLUMN main.launch.delay_ns IS 'Start of the activity minus start of the call; negative values are clock error.';
COMMENT ON COLUMN main.launch.method IS 'How the two were tied: correlation, correlation_order, correlation_time, external_id.';
