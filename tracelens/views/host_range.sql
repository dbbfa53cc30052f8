CREATE VIEW main.host_range AS
SELECT r.range_id, r.kind, n.name, t.tid AS thread, r.start_ns, r.end_ns, r.process
FROM raw.range AS r
JOIN raw.name AS n USING (name_id)
LEFT JOIN raw.thread AS t USING (thread);
COMMENT ON VIEW main.host_range IS 'Annotations on the host: step marks, user ranges, NVTX.';
COMMENT ON COLUMN main.host_range.range_id IS 'Row id.';
COMMENT ON COLUMN main.host_range.kind IS 'annotation, nvtx or python.';
COMMENT ON COLUMN main.host_range.name IS 'Text of the range.';
COMMENT ON COLUMN main.host_range.thread IS 'Host thread id as the trace writes it.';
COMMENT ON COLUMN main.host_range.start_ns IS 'Start, ns.';
COMMENT ON COLUMN main.host_range.end_ns IS 'End, ns.';
COMMENT ON COLUMN main.host_range.process IS 'Internal number of the process.';
