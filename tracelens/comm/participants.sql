-- Kernels that exchange data with other ranks, on each GPU in the order in which they ran. Copies between
-- devices are no exchange: one side does all of it. -1 stands for what is not known.
SELECT
    d.activity_id, a.gpu, g.rank, g.input AS clock, coalesce(a.stream, -1) AS stream,
    a.start_ns, a.end_ns, coalesce(s.step, -1) AS step, d.collective, coalesce(d.bytes, -1) AS bytes,
    coalesce(d.process_group, -1) AS process_group, coalesce(d.seq, -1) AS seq,
    coalesce(m.direction, '') AS direction, coalesce(m.place, -1) AS place,
    coalesce(m.peer_place, -1) AS peer_place
FROM raw.activity_dimension AS d
JOIN raw.activity AS a USING (activity_id)
JOIN raw.gpu AS g USING (gpu)
LEFT JOIN raw.activity_step AS s USING (activity_id)
LEFT JOIN raw.peer_message AS m USING (activity_id)
WHERE a.kind = 'kernel'
ORDER BY a.gpu, a.start_ns, d.activity_id
