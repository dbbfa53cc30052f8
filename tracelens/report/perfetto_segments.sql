-- What one GPU's time between $2 and $3 is charged to; neighbours of the same charge are one row.
WITH piece AS (
    SELECT *, coalesce(
        (leaf, activity_id, detail) IS DISTINCT FROM lag((leaf, activity_id, detail)) OVER following_time, TRUE
    ) AS begins
    FROM raw.segment WHERE gpu = $1 AND start_ns >= $2 AND end_ns <= $3
    WINDOW following_time AS (ORDER BY start_ns)
), stretch AS (
    SELECT *, count(*) FILTER (begins) OVER (ORDER BY start_ns) AS number FROM piece
), charge AS (
    SELECT min(start_ns) AS start_ns, max(end_ns) AS end_ns, first(leaf) AS leaf,
        first(activity_id) AS activity_id, first(detail) AS detail
    FROM stretch GROUP BY number
)
SELECT c.start_ns, c.end_ns, c.leaf, n.name, a.stream, a.correlation, c.detail
FROM charge AS c
LEFT JOIN raw.activity AS a USING (activity_id)
LEFT JOIN raw.name AS n USING (name_id)
ORDER BY c.start_ns
