-- What ran on one GPU between $2 and $3, hidden or not, whole.
SELECT a.start_ns, a.end_ns, n.name, a.kind, a.stream, a.correlation, c.class, d.dimension,
    f.executed_flop, r.rule AS recompute_rule
FROM raw.activity AS a
JOIN raw.name AS n USING (name_id)
LEFT JOIN raw.activity_class AS c USING (activity_id)
LEFT JOIN raw.activity_dimension AS d USING (activity_id)
LEFT JOIN raw.activity_flop AS f USING (activity_id)
LEFT JOIN raw.recomputed AS r USING (activity_id)
WHERE a.gpu = $1 AND a.start_ns < $3 AND a.end_ns > $2 AND a.end_ns > a.start_ns
ORDER BY a.start_ns, a.stream, a.activity_id
