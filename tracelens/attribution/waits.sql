-- Exposed communication whose exchange is known on all its ranks: waiting up to the last arrival, then
-- transfer. A segment that lies on both sides of it becomes two.
CREATE OR REPLACE TEMP TABLE _divided AS
SELECT
    s.rowid AS id, s.gpu, s.step, s.start_ns, s.end_ns, s.activity_id, s.detail,
    left(s.leaf, -length('.undivided')) AS stem,
    least(greatest(a.start_ns + m.wait_ns, s.start_ns), s.end_ns) AS arrival_ns,
    e.last_gpu
FROM raw.segment AS s
JOIN raw.exchange_member AS m USING (activity_id)
JOIN raw.exchange AS e USING (exchange)
JOIN raw.activity AS a USING (activity_id)
WHERE s.leaf LIKE 'comm.%.undivided' AND m.wait_ns IS NOT NULL;

DELETE FROM raw.segment WHERE rowid IN (SELECT id FROM _divided);

INSERT INTO raw.segment (gpu, step, start_ns, end_ns, leaf, activity_id, detail, blamed_gpu)
SELECT gpu, step, start_ns, arrival_ns, stem || '.wait', activity_id, detail, last_gpu
FROM _divided WHERE arrival_ns > start_ns
UNION ALL
SELECT gpu, step, arrival_ns, end_ns, stem || '.transfer', activity_id, detail, NULL
FROM _divided WHERE end_ns > arrival_ns;

DROP TABLE _divided
