CREATE VIEW main.ladder AS
SELECT
    l.activity_id, g.rank, s.step, n.name, l.part, l.m, l.n, l.k, l.batch, l.shape, l.kernel_key,
    f.dtype, l.flop, l.bytes, l.owned_ns, l.ideal_ns, l.precision_ns, l.memory_ns, l.sm_reserved_ns,
    l.quantisation_ns, l.clock_ns, l.ceiling_ns, l.kernel_ns, l.contention_ns, l.sharing_ns,
    l.faster_than_peak_ns, l.precision_factor, l.memory_factor, l.sm_reserved_factor,
    l.quantisation_factor, l.clock_factor, l.ceiling_factor, l.kernel_factor, l.contention_factor,
    l.is_faster_than_peak, l.beside_frac, l.alone_ns, l.alone_count, l.alone_is_fitted
FROM raw.ladder AS l
JOIN raw.activity AS a USING (activity_id)
JOIN raw.gpu AS g USING (gpu)
JOIN raw.name AS n USING (name_id)
JOIN raw.activity_flop AS f USING (activity_id)
LEFT JOIN raw.activity_step AS s USING (activity_id);
COMMENT ON VIEW main.ladder IS 'What each FLOP-bearing kernel with known FLOPs loses below the peak: losses with NULL as 0 sum to owned_ns - ideal_ns exactly.';
COMMENT ON COLUMN main.ladder.activity_id IS 'The kernel.';
COMMENT ON COLUMN main.ladder.rank IS 'Rank.';
COMMENT ON COLUMN main.ladder.step IS 'Step that launched it.';
COMMENT ON COLUMN main.ladder.name IS 'Kernel name.';
COMMENT ON COLUMN main.ladder.part IS 'gemm, conv, attention or recompute.';
COMMENT ON COLUMN main.ladder.m IS 'Rows of the product; NULL where it is no plain product.';
COMMENT ON COLUMN main.ladder.n IS 'Columns of the product.';
COMMENT ON COLUMN main.ladder.k IS 'Inner dimension.';
COMMENT ON COLUMN main.ladder.batch IS 'Products of one call.';
COMMENT ON COLUMN main.ladder.shape IS 'Shapes and types of the operands.';
COMMENT ON COLUMN main.ladder.kernel_key IS 'The same number: the same kernel, launch and shapes on the same GPU.';
COMMENT ON COLUMN main.ladder.dtype IS 'Number format.';
COMMENT ON COLUMN main.ladder.flop IS 'Floating-point operations executed in the window.';
COMMENT ON COLUMN main.ladder.bytes IS 'Least traffic: operands read once, result written once.';
COMMENT ON COLUMN main.ladder.owned_ns IS 'Time it owns in the window.';
COMMENT ON COLUMN main.ladder.ideal_ns IS 'Time that its FLOP take at the peak.';
COMMENT ON COLUMN main.ladder.precision_ns IS 'Time lost because the number format of the kernel is slower than the reference; negative where it is faster; NULL without evidence.';
COMMENT ON COLUMN main.ladder.memory_ns IS 'Time lost because its operands cannot be moved faster; NULL without evidence.';
COMMENT ON COLUMN main.ladder.sm_reserved_ns IS 'Time lost because its grid leaves multiprocessors idle; NULL without evidence.';
COMMENT ON COLUMN main.ladder.quantisation_ns IS 'Time lost because tiles and waves are partly empty; NULL without evidence.';
COMMENT ON COLUMN main.ladder.clock_ns IS 'Time lost because the SM clock was below that of the peak; NULL without evidence.';
COMMENT ON COLUMN main.ladder.ceiling_ns IS 'Time lost because no matmul of this device sustains the peak (declared, not measured); NULL without evidence.';
COMMENT ON COLUMN main.ladder.kernel_ns IS 'Time lost because the kernel stays below every bound that is known; holds the time of steps without evidence.';
COMMENT ON COLUMN main.ladder.contention_ns IS 'Time lost because communication or a copy ran beside it; NULL without evidence.';
COMMENT ON COLUMN main.ladder.sharing_ns IS 'Negative: it did more than its equal share of time beside other FLOP-bearing kernels.';
COMMENT ON COLUMN main.ladder.faster_than_peak_ns IS 'Negative: it beat its own peak, so shapes, format, device or clock are not what is said.';
COMMENT ON COLUMN main.ladder.precision_factor IS 'What the step precision multiplies the rate by, whatever the order; NULL without evidence.';
COMMENT ON COLUMN main.ladder.memory_factor IS 'What the step memory multiplies the rate by, whatever the order; NULL without evidence.';
COMMENT ON COLUMN main.ladder.sm_reserved_factor IS 'What the step sm_reserved multiplies the rate by, whatever the order; NULL without evidence.';
COMMENT ON COLUMN main.ladder.quantisation_factor IS 'What the step quantisation multiplies the rate by, whatever the order; NULL without evidence.';
COMMENT ON COLUMN main.ladder.clock_factor IS 'What the step clock multiplies the rate by, whatever the order; NULL without evidence.';
COMMENT ON COLUMN main.ladder.ceiling_factor IS 'What the step ceiling multiplies the rate by, whatever the order; NULL without evidence.';
COMMENT ON COLUMN main.ladder.kernel_factor IS 'What the step kernel multiplies the rate by, whatever the order; NULL without evidence.';
COMMENT ON COLUMN main.ladder.contention_factor IS 'What the step contention multiplies the rate by, whatever the order; NULL without evidence.';
COMMENT ON COLUMN main.ladder.is_faster_than_peak IS 'Whether it took less than 98 % of the time of its own peak.';
COMMENT ON COLUMN main.ladder.beside_frac IS 'Share of its time in which communication or a copy ran too.';
COMMENT ON COLUMN main.ladder.alone_ns IS 'Time of the same kernel alone; NULL where not known.';
COMMENT ON COLUMN main.ladder.alone_count IS 'Instances of the same kernel that ran alone.';
COMMENT ON COLUMN main.ladder.alone_is_fitted IS 'Whether alone_ns is a fit over instances that differ in the time beside others.';
