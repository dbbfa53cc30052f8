-- Private tables of communication: what each exchange is, and what the ranks did in it together.

CREATE TABLE raw.activity_dimension (
    activity_id BIGINT, dimension TEXT, collective TEXT, bytes BIGINT, group_size INTEGER, source TEXT,
    process_group INTEGER, seq BIGINT   -- seq: number within the group, where it was recorded
);

-- Process groups as they were recorded; the same group on several ranks is one row.
CREATE TABLE raw.process_group (
    process_group INTEGER PRIMARY KEY, group_ranks TEXT, group_desc TEXT, group_name TEXT,
    group_size INTEGER
);

-- Messages between two members of a process group; members are numbered from 0 in its order.
CREATE TABLE raw.peer_message (
    activity_id BIGINT,
    direction TEXT,                 -- send, recv
    place INTEGER, peer_place INTEGER
);

-- What has to be added to the times of a GPU, after raw.input.base_ns, to compare GPUs.
CREATE TABLE raw.clock (
    gpu INTEGER,
    part INTEGER,                   -- GPUs of one part can be compared, others cannot
    offset_ns BIGINT, drift_ppb BIGINT, reference_ns BIGINT,  -- drift counts from the reference, on its own clock
    epsilon_ns BIGINT,              -- what is left between ends of the same exchange; NULL: not known
    method TEXT                     -- one_clock, collectives, messages, none
);

-- The same collective, or message, on all its ranks.
CREATE TABLE raw.exchange (
    exchange BIGINT,
    channel INTEGER,                -- exchanges of the same ranks, in order
    members INTEGER, expected INTEGER,  -- how many were recorded; how many there are, NULL: unknown
    last_gpu INTEGER,               -- who came last; NULL where clocks do not tell
    lateness_ns BIGINT,             -- how long after the one before it
    transfer_ns BIGINT,             -- from the last arrival to the end, on the GPU that came last
    reason TEXT                     -- why waiting is not told from transfer
);
CREATE TABLE raw.exchange_member (
    exchange BIGINT, activity_id BIGINT,
    wait_ns BIGINT                  -- from its start to the last arrival; NULL where not known
);
