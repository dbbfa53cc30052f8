-- Which host call launched each activity. The correlation id is a key within a process, but not
-- always a unique one: ROCm repeats it, wrapped counters repeat it, and all nodes of a graph share
-- the one of their launch. Where a process uses it several times and for as many activities, they
-- pair in order; otherwise time decides: the last call that began before the activity did; failing
-- that, the first call.
CREATE OR REPLACE TEMP TABLE _call AS
SELECT
    process, correlation, call_id, thread, start_ns,
    count(*) OVER (PARTITION BY process, correlation) AS candidates,
    row_number() OVER (PARTITION BY process, correlation ORDER BY start_ns, call_id) AS place,
    -- A driver call inside a runtime call is one launch, not two.
    bool_or(inner_start_ns < end_ns) OVER (PARTITION BY process, correlation) AS nested
FROM (
    SELECT
        *, lead(start_ns) OVER (
            PARTITION BY process, correlation ORDER BY start_ns, call_id
        ) AS inner_start_ns
    FROM raw.host_call
    WHERE correlation > 0
);

CREATE OR REPLACE TEMP TABLE _activity AS
SELECT
    activity_id, process, correlation, start_ns,
    count(*) OVER (PARTITION BY process, correlation) AS uses,
    row_number() OVER (PARTITION BY process, correlation ORDER BY start_ns, activity_id) AS place
FROM raw.activity
WHERE correlation > 0;

CREATE OR REPLACE TEMP TABLE _launched AS
SELECT a.activity_id, c.call_id, c.process, c.thread, c.start_ns, 'correlation' AS method
FROM _activity AS a
JOIN _call AS c USING (process, correlation)
WHERE c.candidates = 1
UNION ALL
SELECT a.activity_id, c.call_id, c.process, c.thread, c.start_ns, 'correlation_order' AS method
FROM _activity AS a
JOIN _call AS c USING (process, correlation, place)
WHERE c.candidates > 1 AND c.candidates = a.uses AND NOT c.nested
UNION ALL
SELECT a.activity_id, c.call_id, c.process, c.thread, c.start_ns, 'correlation_time' AS method
FROM _activity AS a
ASOF JOIN (SELECT * FROM _call WHERE candidates > 1) AS c
    ON a.process = c.process AND a.correlation = c.correlation AND a.start_ns >= c.start_ns
WHERE c.candidates <> a.uses OR c.nested;

INSERT INTO _launched
SELECT a.activity_id, c.call_id, c.process, c.thread, c.start_ns, 'correlation_time'
FROM _activity AS a
JOIN (
    SELECT process, correlation, arg_min(call_id, start_ns) AS call_id,
        arg_min(thread, start_ns) AS thread, min(start_ns) AS start_ns
    FROM _call
    WHERE candidates > 1
    GROUP BY ALL
) AS c USING (process, correlation)
WHERE a.activity_id NOT IN (SELECT activity_id FROM _launched);
