"""Name long stretches in which the host recorded no operator: by the user's range around them.

User ranges and Python frames explain nothing by themselves (everything runs inside ``forward``), so
they never change a leaf; they say where to look.
"""

from tracelens.store import Store

_LARGEST = 64
"""Stretches that are named on each GPU, the longest first; evidence never shows more."""

_NAME = """
WITH silent AS (
    SELECT s.rowid AS id, s.detail, g.process, (s.start_ns + s.end_ns) // 2 AS middle_ns,
        row_number() OVER (PARTITION BY s.gpu ORDER BY s.end_ns - s.start_ns DESC) AS place
    FROM raw.segment AS s
    JOIN raw.gpu AS g USING (gpu)
    WHERE s.leaf = 'host.unlabelled'
),

named AS (
    SELECT s.id, s.detail, n.name
    FROM silent AS s
    JOIN raw.range AS r
        ON r.process = s.process AND r.start_ns <= s.middle_ns AND r.end_ns > s.middle_ns
    JOIN raw.name AS n USING (name_id)
    LEFT JOIN raw.host_label AS l ON l.name_id = r.name_id AND l.target = 'range'
    WHERE s.place <= $largest AND coalesce(l.label, '') <> 'step'
    -- The innermost range is the one that began last.
    QUALIFY row_number() OVER (PARTITION BY s.id ORDER BY r.start_ns DESC, r.end_ns) = 1
)

UPDATE raw.segment
SET detail = concat_ws('; ', n.detail, 'inside ' || n.name)
FROM named AS n
WHERE raw.segment.rowid = n.id
"""


def name_silence(store: Store) -> None:
    """Fill ``raw.segment.detail`` of the longest ``host.unlabelled`` segments."""
    store.execute(_NAME, {"largest": _LARGEST})
