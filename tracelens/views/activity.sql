CREATE VIEW main.activity AS
SELECT
    a.activity_id, g.rank, a.gpu, a.stream, a.kind, n.name, c.class, c.source AS class_source, c.dtype,
    a.start_ns, a.end_ns, a.end_ns - a.start_ns AS dur_ns, a.correlation, a.bytes,
    l.call_id, l.op_id, s.step, d.dimension,
    f.executed_flop, f.model_flop, f.executed_low_flop, f.executed_high_flop, r.rule AS recompute_rule,
    p.phase, p.phase_source, m.name AS module, p.module_source
FROM raw.activity AS a
JOIN raw.gpu AS g USING (gpu)
JOIN raw.name AS n USING (name_id)
LEFT JOIN raw.activity_class AS c USING (activity_id)
LEFT JOIN raw.link AS l USING (activity_id)
LEFT JOIN raw.activity_step AS s USING (activity_id)
LEFT JOIN raw.activity_dimension AS d USING (activity_id)
LEFT JOIN raw.activity_flop AS f USING (activity_id)
LEFT JOIN raw.recomputed AS r USING (activity_id)
LEFT JOIN raw.activity_place AS p USING (activity_id)
LEFT JOIN raw.name AS m ON m.name_id = p.module_id;
COMMENT ON VIEW main.activity IS 'Everything that ran on a GPU: kernels, copies, memsets, opaque graphs.';
COMMENT ON COLUMN main.activity.activity_id IS 'Row id; other views refer to it.';
COMMENT ON COLUMN main.activity.rank IS 'Rank it ran on.';
COMMENT ON COLUMN main.activity.gpu IS 'Internal number of the GPU.';
COMMENT ON COLUMN main.activity.stream IS 'Stream.';
COMMENT ON COLUMN main.activity.kind IS 'kernel, memcpy, memset or graph.';
COMMENT ON COLUMN main.activity.name IS 'Name as the profiler wrote it.';
COMMENT ON COLUMN main.activity.class IS 'What it is: gemm, attention, norm, collective:allreduce, memcpy:h2d, ...';
COMMENT ON COLUMN main.activity.class_source IS 'What decided the class: metadata, annotation, name, op, none.';
COMMENT ON COLUMN main.activity.dtype IS 'Data type that the name or the metadata gives.';
COMMENT ON COLUMN main.activity.start_ns IS 'Start, ns on the clock of its file.';
COMMENT ON COLUMN main.activity.end_ns IS 'End, ns on the clock of its file.';
COMMENT ON COLUMN main.activity.dur_ns IS 'Duration in ns.';
COMMENT ON COLUMN main.activity.correlation IS 'Correlation id within its process.';
COMMENT ON COLUMN main.activity.bytes IS 'Bytes moved, for copies and memsets.';
COMMENT ON COLUMN main.activity.call_id IS 'Launching host call; NULL when it was not recorded.';
COMMENT ON COLUMN main.activity.op_id IS 'Innermost framework operator around the launch.';
COMMENT ON COLUMN main.activity.step IS 'Step that launched it.';
COMMENT ON COLUMN main.activity.dimension IS 'Parallel dimension of a collective: dp, tp, ..., unknown.';
COMMENT ON COLUMN main.activity.executed_flop IS 'Floating-point operations executed, from shapes; NULL when unknown.';
COMMENT ON COLUMN main.activity.model_flop IS 'Part of executed_flop that the model itself needs.';
COMMENT ON COLUMN main.activity.executed_low_flop IS 'Least that executed_flop can be; equal to it where it is known, NULL where there is no bound.';
COMMENT ON COLUMN main.activity.executed_high_flop IS 'Most that executed_flop can be; equal to it where it is known, NULL where there is no bound.';
COMMENT ON COLUMN main.activity.recompute_rule IS 'Rule that found it to be activation recompute; NULL otherwise.';
COMMENT ON COLUMN main.activity.phase IS 'Pass of training: forward, backward (recompute included), optimizer; NULL for none of them.';
COMMENT ON COLUMN main.activity.phase_source IS 'What says the phase: class, operator, range, sequence.';
COMMENT ON COLUMN main.activity.module IS 'Path of the part of the model that launched it, outermost first, separated by slashes.';
COMMENT ON COLUMN main.activity.module_source IS 'What says the module: frame (nn.Module), range, compiled.';
