-- Who sends and who receives, where the annotation of the process group around the launch says it:
-- "nccl:send 1->2", "nccl:recv 2<-1", positions in the group.
INSERT INTO raw.peer_message
WITH annotated AS (
    SELECT
        e.activity_id,
        regexp_extract(
            n.name, '^nccl:(send|recv) (\d+)(?:->|<-)(\d+)$', ['direction', 'place', 'peer']
        ) AS said
    FROM _enclosing AS e
    JOIN raw.name AS n ON n.name_id = e.annotation_id
    JOIN raw.activity_class AS c ON c.activity_id = e.activity_id AND c.class = 'p2p:sendrecv'
)

SELECT DISTINCT ON (activity_id)
    activity_id, said.direction, try_cast(said.place AS INTEGER), try_cast(said.peer AS INTEGER)
FROM annotated
WHERE try_cast(said.place AS INTEGER) <> try_cast(said.peer AS INTEGER)
