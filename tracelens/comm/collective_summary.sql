-- Collectives that touch the analysed window, one row an instance: what they are and how long they took.
SELECT
    c.dimension, c.collective, c.bytes, c.group_size, c.dur_ns, c.exposed_ns
FROM main.collective AS c
JOIN raw.activity AS a USING (activity_id)
WHERE EXISTS (
    FROM raw.step AS s
    WHERE s.gpu = a.gpu AND s.included AND s.start_ns < a.end_ns AND s.end_ns > a.start_ns
)
ORDER BY c.activity_id
