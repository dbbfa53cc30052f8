-- Host time that starves more than four fifths of the ranks at once. The middle of a segment stands
-- for it: clocks of ranks differ by less than what is worth telling.
WITH labelled AS (
    SELECT rowid AS id, gpu, leaf, start_ns, end_ns, (start_ns + end_ns) // 2 AS middle_ns
    FROM raw.segment
    WHERE leaf LIKE 'host.%' AND leaf <> 'host.dispatch'
),

chosen AS (
    SELECT * FROM labelled
    QUALIFY row_number() OVER (
        PARTITION BY gpu, leaf ORDER BY end_ns - start_ns DESC, start_ns
    ) <= $largest
),

asked AS (
    SELECT c.id, c.leaf, c.middle_ns, g.gpu FROM chosen AS c CROSS JOIN raw.gpu AS g
),

shared AS (
    SELECT a.id
    FROM asked AS a
    ASOF JOIN labelled AS l
        ON l.gpu = a.gpu AND l.leaf = a.leaf AND l.start_ns <= a.middle_ns
    WHERE l.end_ns > a.middle_ns
    GROUP BY a.id
    HAVING count(*) > 1 AND count(*) > $share * (SELECT count(*) FROM raw.gpu)
)

UPDATE raw.segment
SET detail = concat_ws('; ', raw.segment.detail, $cause)
FROM shared
WHERE raw.segment.rowid = shared.id
