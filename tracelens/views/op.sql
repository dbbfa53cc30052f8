CREATE VIEW main.op AS
SELECT
    o.op_id, n.name, t.tid AS thread, o.start_ns, o.end_ns, o.sequence, o.input_dims, o.input_types,
    o.concrete_inputs, o.process
FROM raw.op AS o
JOIN raw.name AS n USING (name_id)
LEFT JOIN raw.thread AS t USING (thread);
COMMENT ON VIEW main.op IS 'Framework operators (aten::mm, ...).';
COMMENT ON COLUMN main.op.op_id IS 'Row id.';
COMMENT ON COLUMN main.op.name IS 'Operator name.';
COMMENT ON COLUMN main.op.thread IS 'Host thread id as the trace writes it.';
COMMENT ON COLUMN main.op.start_ns IS 'Start, ns.';
COMMENT ON COLUMN main.op.end_ns IS 'End, ns.';
COMMENT ON COLUMN main.op.sequence IS 'Autograd sequence number.';
COMMENT ON COLUMN main.op.input_dims IS 'Shapes of the inputs, JSON.';
COMMENT ON COLUMN main.op.input_types IS 'Types of the inputs, JSON.';
COMMENT ON COLUMN main.op.concrete_inputs IS 'Scalar inputs, JSON.';
COMMENT ON COLUMN main.op.process IS 'Internal number of the process.';
