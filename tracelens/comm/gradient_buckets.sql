-- Collectives of process groups that say nothing of themselves, by what the group does in the program.
-- Data parallelism reduces gradients in buckets: its group only ever all-reduces, every message worth
-- its name from inside the backward pass, or broadcasts buffers before forward. Tensor parallelism all-reduces in the
-- forward pass too, sharded data parallelism gathers and scatters; both stay unknown here.
WITH message AS (
    SELECT
        d.activity_id, d.dimension, d.collective, h.thread, h.start_ns,
        -- Without metadata a stream stands for its communicator: NCCL gives each one of its own.
        a.gpu,
        coalesce(
            k.group_ranks, p.group_ranks, k.group_name, p.group_name, 'stream ' || a.stream
        ) AS process_group,
        coalesce(
            d.bytes, 2 * list_product(try_cast(json_extract(o.input_dims, '$[0]') AS BIGINT[]))
        ) AS bytes
    FROM raw.activity_dimension AS d
    JOIN raw.activity AS a USING (activity_id)
    LEFT JOIN raw.link AS l USING (activity_id)
    LEFT JOIN raw.host_call AS h USING (call_id)
    LEFT JOIN raw.op AS o ON o.op_id = l.op_id
    LEFT JOIN (SELECT * FROM raw.collective QUALIFY row_number() OVER (PARTITION BY activity_id) = 1) AS k
        ON k.activity_id = d.activity_id
    LEFT JOIN (SELECT * FROM raw.collective QUALIFY row_number() OVER (PARTITION BY op_id) = 1) AS p
        ON p.op_id = l.op_id
),

backward AS (
    SELECT
        o.thread, o.start_ns,
        max(o.end_ns) OVER (PARTITION BY o.thread ORDER BY o.start_ns) AS reach_ns
    FROM raw.op AS o
    JOIN raw.host_label AS n ON n.name_id = o.name_id AND n.target = 'op' AND n.label = 'backward'
),

placed AS (
    SELECT
        m.*, coalesce(b.reach_ns > m.start_ns, FALSE) AS in_backward,
        collective = 'all_reduce' AND bytes >= $bucket_bytes AS is_bucket
    FROM message AS m
    ASOF LEFT JOIN backward AS b ON m.thread = b.thread AND m.start_ns >= b.start_ns
),

verdict AS (
    SELECT gpu, process_group
    FROM placed
    GROUP BY ALL
    HAVING bool_and(dimension = 'unknown' AND collective IN ('all_reduce', 'broadcast'))
        AND count(*) FILTER (is_bucket AND in_backward) > 0
        AND count(*) FILTER (is_bucket AND thread IS NOT NULL AND NOT in_backward) = 0
)

UPDATE raw.activity_dimension
SET dimension = 'dp', source = 'mix'
FROM placed AS m
JOIN verdict AS v USING (gpu, process_group)
WHERE raw.activity_dimension.activity_id = m.activity_id
    AND (m.bytes >= $bucket_bytes OR m.bytes IS NULL OR m.collective = 'broadcast')
