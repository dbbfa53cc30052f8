-- What every GPU activity is, by the best evidence there is of it: collective metadata, an annotation,
-- its name, the op that launched it. raw.classify_* hold what each distinct text tells.
INSERT INTO raw.activity_class (activity_id, class, dtype, source)
WITH metadata_row AS (
    SELECT activity_id, op, dtype
    FROM raw.collective
    WHERE activity_id IS NOT NULL
    UNION ALL
    SELECT l.activity_id, c.op, c.dtype
    FROM raw.collective AS c
    JOIN raw.link AS l USING (op_id)
    WHERE c.activity_id IS NULL
),

-- Several operations coalesced into one kernel tell its class only where they agree.
metadata AS (
    SELECT
        m.activity_id,
        CASE WHEN count(DISTINCT o.class) = 1 THEN any_value(o.class) END AS class,
        CASE WHEN count(DISTINCT t.class) = 1 THEN any_value(t.class) END AS dtype
    FROM metadata_row AS m
    LEFT JOIN raw.classify_text AS o ON o.kind = 'collective' AND o.text = m.op
    LEFT JOIN raw.classify_text AS t ON t.kind = 'dtype' AND t.text = m.dtype
    GROUP BY m.activity_id
),

-- SendRecv is also all-to-all, Generic is anything: the name leaves these open.
kernel AS (
    SELECT
        a.activity_id, n.class, n.dtype, l.call_id, l.op_id,
        n.class IS NULL OR n.class IN ('p2p:sendrecv', 'collective:generic') AS is_open,
        n.class IS NULL OR n.class LIKE 'collective:%' OR n.class = 'p2p:sendrecv' AS may_communicate
    FROM raw.activity AS a
    LEFT JOIN raw.classify_name AS n USING (name_id)
    LEFT JOIN raw.link AS l USING (activity_id)
    WHERE a.kind = 'kernel'
),

announced AS (
    SELECT r.thread, r.start_ns, r.end_ns, t.announced
    FROM raw.range AS r
    JOIN raw.classify_op AS t ON t.target = 'range' AND t.name_id = r.name_id
),

annotation AS (
    SELECT k.activity_id, r.announced
    FROM kernel AS k
    JOIN raw.host_call AS h USING (call_id)
    ASOF JOIN announced AS r ON r.thread = h.thread AND r.start_ns <= h.start_ns
    WHERE k.is_open AND r.end_ns >= h.start_ns
),

op AS (
    SELECT o.op_id, t.class, t.announced
    FROM raw.op AS o
    JOIN raw.classify_op AS t ON t.target = 'op' AND t.name_id = o.name_id
),

evidence AS (
    SELECT
        k.*, m.class AS metadata_class, m.dtype AS metadata_dtype, o.class AS op_class,
        CASE WHEN k.is_open THEN coalesce(r.announced, o.announced) END AS annotation_class
    FROM kernel AS k
    LEFT JOIN metadata AS m ON k.may_communicate AND m.activity_id = k.activity_id
    LEFT JOIN annotation AS r ON r.activity_id = k.activity_id
    LEFT JOIN op AS o ON o.op_id = k.op_id
)

SELECT
    activity_id,
    coalesce(metadata_class, annotation_class, class, op_class, 'other'),
    -- The name of a communication kernel tells how it was compiled, not what it moves.
    CASE WHEN metadata_class IS NULL THEN coalesce(dtype, metadata_dtype)
    ELSE coalesce(metadata_dtype, dtype) END,
    CASE
        WHEN metadata_class IS NOT NULL THEN 'metadata'
        WHEN annotation_class IS NOT NULL THEN 'annotation'
        WHEN class IS NOT NULL THEN 'name'
        WHEN op_class IS NOT NULL THEN 'op'
        ELSE 'none'
    END
FROM evidence

UNION ALL

-- Migrations of unified memory are copies like others. A copy of unknown direction stays on the device.
SELECT
    a.activity_id,
    CASE
        WHEN a.kind <> 'memcpy' THEN a.kind
        WHEN a.copy_kind IS NOT NULL THEN 'memcpy:' || replace(a.copy_kind, 'uvm_', '')
        WHEN n.class LIKE 'memcpy:%' THEN n.class
        ELSE 'memcpy:d2d'
    END,
    NULL,
    CASE
        WHEN a.kind <> 'memcpy' OR a.copy_kind IS NOT NULL THEN 'metadata'
        WHEN n.class LIKE 'memcpy:%' THEN 'name'
        ELSE 'none'
    END
FROM raw.activity AS a
LEFT JOIN raw.classify_name AS n USING (name_id)
WHERE a.kind <> 'kernel'
