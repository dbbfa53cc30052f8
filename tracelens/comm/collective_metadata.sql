-- Communication on the GPU, grouped by everything that was recorded of it. Metadata is taken from the
-- kernel itself, else from the op that launched it, else from the innermost op around the launch that
-- carries any (a record_param_comms may enclose other ops). Traces that carry none often have an
-- annotation around the launch that names the operation: nccl:all_to_all, ncclAllReduce.
WITH comm AS (
    SELECT a.activity_id, c.class, a.bytes AS copy_bytes, l.op_id
    FROM raw.activity_class AS c
    JOIN raw.activity AS a USING (activity_id)
    LEFT JOIN raw.link AS l USING (activity_id)
    WHERE c.class LIKE 'collective:%' OR c.class LIKE 'p2p:%' OR c.class = 'memcpy:p2p'
    -- One row an activity, even where a damaged file says things twice.
    QUALIFY row_number() OVER (PARTITION BY a.activity_id ORDER BY l.op_id, c.class) = 1
),

own AS (
    SELECT * FROM raw.collective
    WHERE activity_id IS NOT NULL
    QUALIFY row_number() OVER (PARTITION BY activity_id ORDER BY op, dtype, in_elems) = 1
),

of_op AS (
    SELECT * FROM raw.collective
    WHERE op_id IS NOT NULL
    QUALIFY row_number() OVER (PARTITION BY op_id ORDER BY op, dtype, in_elems) = 1
),

located AS (
    SELECT
        c.activity_id, c.class, c.copy_bytes, n.name AS annotation,
        CASE WHEN o.op_id IS NULL THEN coalesce(e.op_id, c.op_id) ELSE c.op_id END AS op_id
    FROM comm AS c
    LEFT JOIN of_op AS o ON o.op_id = c.op_id
    LEFT JOIN _enclosing AS e ON e.activity_id = c.activity_id
    LEFT JOIN raw.name AS n ON n.name_id = e.annotation_id
),

-- Several kernels of one op share its message: what each of them moved was not recorded.
counted AS (
    SELECT *, count(*) OVER (PARTITION BY op_id) > 1 AS shared_op FROM located
)

SELECT
    c.class,
    coalesce(k.op, p.op) AS op,
    c.annotation,
    CASE WHEN c.shared_op THEN k.in_elems ELSE coalesce(k.in_elems, p.in_elems) END AS in_elems,
    CASE WHEN c.shared_op THEN k.out_elems ELSE coalesce(k.out_elems, p.out_elems) END AS out_elems,
    coalesce(k.dtype, p.dtype) AS dtype,
    CASE
        WHEN c.class = 'memcpy:p2p' THEN c.copy_bytes
        WHEN c.shared_op THEN k.in_bytes
        ELSE coalesce(k.in_bytes, p.in_bytes)
    END AS in_bytes,
    CASE WHEN c.shared_op THEN k.out_bytes ELSE coalesce(k.out_bytes, p.out_bytes) END AS out_bytes,
    coalesce(k.group_size, p.group_size) AS group_size,
    coalesce(k.group_name, p.group_name) AS group_name,
    coalesce(k.group_desc, p.group_desc) AS group_desc,
    coalesce(k.group_ranks, p.group_ranks) AS group_ranks,
    list(c.activity_id ORDER BY c.activity_id) AS activity_ids,
    list(
        CASE WHEN c.shared_op THEN k.seq ELSE coalesce(k.seq, p.seq) END ORDER BY c.activity_id
    ) AS seqs
FROM counted AS c
LEFT JOIN own AS k ON k.activity_id = c.activity_id
LEFT JOIN of_op AS p ON p.op_id = c.op_id
GROUP BY ALL
ORDER BY activity_ids[1]
