-- Private tables. Stages write here and meet here; everything outside reads the views (main.*).
-- Times are int64 nanoseconds on the clock of the file they came from; raw.input.base_ns is what has
-- to be added to compare files.

CREATE SCHEMA raw;

CREATE TABLE raw.meta (key TEXT PRIMARY KEY, value TEXT);

-- One row a file that was read.
CREATE TABLE raw.input (
    input INTEGER PRIMARY KEY, path TEXT, format TEXT, sha256 TEXT, bytes BIGINT, producer TEXT,
    events_read BIGINT, truncated BOOLEAN, base_ns BIGINT, started_at TEXT,
    resolution_ns INTEGER,          -- 1, or 1000 where every timestamp is a whole microsecond
    viewer_zero_ns BIGINT           -- the instant that the profiler's own viewer calls 0
);

-- Damage and omissions, counted: nothing is dropped silently.
CREATE TABLE raw.damage (input INTEGER, reason TEXT, count BIGINT, first_offset BIGINT);
CREATE TABLE raw.note (input INTEGER, severity TEXT, text TEXT);   -- severity: info, warning

CREATE TABLE raw.name (name_id INTEGER PRIMARY KEY, name TEXT);

-- A process whose correlation ids are one number space.
CREATE TABLE raw.process (
    process INTEGER PRIMARY KEY, input INTEGER, pid BIGINT, claimed_rank INTEGER,
    rank_source TEXT, world_size INTEGER
);
CREATE TABLE raw.thread (thread INTEGER PRIMARY KEY, process INTEGER, tid TEXT, name TEXT);

-- One row a physical GPU that did work: the unit that time is accounted for.
CREATE TABLE raw.gpu (
    gpu INTEGER PRIMARY KEY, input INTEGER, process INTEGER, device INTEGER, device_name TEXT,
    num_sms INTEGER, rank INTEGER, rank_source TEXT
);

-- Everything that ran on a GPU.
CREATE TABLE raw.activity (
    activity_id BIGINT, gpu INTEGER, process INTEGER, stream BIGINT,
    kind TEXT,                      -- kernel, memcpy, memset, graph (a graph launch seen as one row)
    name_id INTEGER, start_ns BIGINT, end_ns BIGINT, correlation BIGINT,
    graph_node BIGINT,              -- NULL or 0: not a node of a CUDA graph
    bytes BIGINT,
    copy_kind TEXT,                 -- h2d, d2h, d2d, p2p; uvm_h2d, uvm_d2h, uvm_d2d; NULL unless memcpy
    grid_x INTEGER, grid_y INTEGER, grid_z INTEGER,
    block_x INTEGER, block_y INTEGER, block_z INTEGER,
    external_id BIGINT              -- as written; only a hint (often a copy of the correlation)
);

-- Host calls into the CUDA runtime, the driver or the operating system.
CREATE TABLE raw.host_call (
    call_id BIGINT, process INTEGER, thread INTEGER,
    kind TEXT,                      -- runtime, driver, os
    name_id INTEGER, start_ns BIGINT, end_ns BIGINT, correlation BIGINT
);

-- Framework operators (aten::mm ...), from cpu_op events or NVTX op ranges.
CREATE TABLE raw.op (
    op_id BIGINT, process INTEGER, thread INTEGER, name_id INTEGER, start_ns BIGINT, end_ns BIGINT,
    external_id BIGINT, sequence BIGINT, fwd_thread BIGINT,
    input_dims TEXT,                -- JSON, e.g. [[1024,512],[512,256]]
    input_types TEXT,               -- JSON, e.g. ["c10::BFloat16","c10::BFloat16"]
    concrete_inputs TEXT            -- JSON list of strings
);

-- Annotations: user ranges, step marks, NVTX.
CREATE TABLE raw.range (
    range_id BIGINT, process INTEGER, thread INTEGER,
    kind TEXT,                      -- annotation, nvtx, python
    name_id INTEGER, start_ns BIGINT, end_ns BIGINT
);

-- The profiler's own overhead on the host.
CREATE TABLE raw.overhead (
    process INTEGER, thread INTEGER, name_id INTEGER, start_ns BIGINT, end_ns BIGINT
);

-- Waits between streams as the profiler recorded them; evidence, never GPU work.
CREATE TABLE raw.stream_wait (
    gpu INTEGER, process INTEGER, stream BIGINT, wait_on_stream BIGINT,
    record_correlation BIGINT, start_ns BIGINT, end_ns BIGINT, correlation BIGINT
);

-- Collective metadata, on the kernel itself (activity_id) or on the op that launched it (op_id).
CREATE TABLE raw.collective (
    activity_id BIGINT, op_id BIGINT, op TEXT, in_elems BIGINT, out_elems BIGINT, dtype TEXT,
    in_bytes BIGINT, out_bytes BIGINT,
    group_size INTEGER, group_name TEXT, group_desc TEXT, group_ranks TEXT, seq BIGINT
);

-- linking: which host call launched an activity, and which op encloses that call.
CREATE TABLE raw.link (
    activity_id BIGINT, call_id BIGINT, op_id BIGINT,
    method TEXT                     -- correlation, correlation_order, correlation_time, external_id, none
);

-- classify
CREATE TABLE raw.activity_class (
    activity_id BIGINT, class TEXT, dtype TEXT,
    source TEXT                     -- metadata, annotation, name, op, none
);
-- What the name of a FLOP-bearing kernel tells of its launch; sizes NULL where it tells nothing.
CREATE TABLE raw.kernel_tiling (
    name_id INTEGER, kernel_key TEXT,   -- one spelling for every profiler
    tile_m INTEGER, tile_n INTEGER, tile_k INTEGER,
    schedule TEXT,                  -- tiles, persistent, adaptive, split_k, stream_k
    grid_unit TEXT,                 -- blocks, work_items
    is_backward BOOLEAN             -- attention: it belongs to the backward pass
);
CREATE TABLE raw.host_label (name_id INTEGER, target TEXT, label TEXT);   -- target: call, op, range, rerun, phase, module, overhead, copy

-- flops
CREATE TABLE raw.activity_flop (
    activity_id BIGINT, executed_flop DOUBLE, model_flop DOUBLE,
    -- Bounds: equal to the figures where these are known, NULL where not even bounds are.
    executed_low_flop DOUBLE, executed_high_flop DOUBLE, model_low_flop DOUBLE, model_high_flop DOUBLE,
    dtype TEXT,
    shaped BOOLEAN,                 -- FALSE: a FLOP-bearing kernel whose shapes are unknown
    rule TEXT,
    op_id BIGINT                    -- operator whose shapes give the FLOPs
);
CREATE TABLE raw.recomputed (activity_id BIGINT, rule TEXT);
-- Where in training and in the model an activity belongs; no row: nothing says it.
CREATE TABLE raw.activity_place (
    activity_id BIGINT,
    phase TEXT,                     -- forward, backward, optimizer
    phase_source TEXT,              -- class, operator, range, sequence
    module_id INTEGER,              -- path of the module, in raw.name
    module_source TEXT              -- frame, range, compiled, sequence
);

-- The ladder of every FLOP-bearing kernel with known FLOPs that owns time in the window. Losses in ns
-- sum to owned_ns - ideal_ns with NULL as 0; NULL: there was no evidence, kernel_ns holds its time.
CREATE TABLE raw.ladder (
    activity_id BIGINT,
    part TEXT,                      -- gemm, conv, attention, recompute
    kernel_key BIGINT,              -- the same kernel, launch and shapes on the same GPU
    owned_ns BIGINT, ideal_ns BIGINT,
    precision_ns BIGINT, memory_ns BIGINT, sm_reserved_ns BIGINT, quantisation_ns BIGINT,
    clock_ns BIGINT, ceiling_ns BIGINT, kernel_ns BIGINT, contention_ns BIGINT,
    sharing_ns BIGINT, faster_than_peak_ns BIGINT,     -- never positive
    precision_factor DOUBLE, memory_factor DOUBLE, sm_reserved_factor DOUBLE,
    quantisation_factor DOUBLE, clock_factor DOUBLE, ceiling_factor DOUBLE, kernel_factor DOUBLE,
    contention_factor DOUBLE,
    is_faster_than_peak BOOLEAN,
    flop DOUBLE, bytes DOUBLE,      -- done in the window; least traffic
    m BIGINT, n BIGINT, k BIGINT, batch BIGINT, shape TEXT,
    beside_frac DOUBLE,             -- share of its time beside communication or a copy
    alone_ns BIGINT, alone_count BIGINT, alone_is_fitted BOOLEAN
);

-- attribution
CREATE TABLE raw.step (
    gpu INTEGER, step BIGINT, start_ns BIGINT, end_ns BIGINT,
    included BOOLEAN, reason TEXT
);
CREATE TABLE raw.window_info (source TEXT, confidence TEXT, note TEXT);
CREATE TABLE raw.activity_step (activity_id BIGINT, step BIGINT);
CREATE TABLE raw.segment (
    gpu INTEGER, step BIGINT, start_ns BIGINT, end_ns BIGINT, leaf TEXT,
    activity_id BIGINT,             -- owner of busy time; for idle time the activity that ended it
    call_id BIGINT,                 -- idle: the launch that came late, where one is recorded
    detail TEXT,                    -- idle: enabled_by=sync; inside <range> for unlabelled host time
    blamed_gpu INTEGER              -- waiting: the GPU that came last
);
CREATE TABLE raw.hidden (gpu INTEGER, class_leaf TEXT, by_leaf TEXT, dur_ns BIGINT);
-- Every set of leaves that ran at the same time; all rows of a step sum to its window.
CREATE TABLE raw.concurrency (
    gpu INTEGER, step BIGINT, active TEXT[], owner_leaf TEXT, dur_ns BIGINT
);
CREATE TABLE raw.calibration (gpu INTEGER, name TEXT, value_ns BIGINT, samples BIGINT);

-- Sections of the final answer, JSON; written by the stage that owns the figure.
CREATE TABLE raw.result (section TEXT PRIMARY KEY, body TEXT);
