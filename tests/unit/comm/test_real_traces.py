"""Collectives of real traces, counted by hand in the files."""

import pytest

from tracelens.comm import describe_collectives
from tracelens.ingest import link_activities, load
from tracelens.store import Store

# The classes are set here by name: only what this stage adds is under test.
CLASSIFY = """
INSERT INTO raw.activity_class
SELECT activity_id, CASE
    WHEN name LIKE '%AllGather%' THEN 'collective:allgather'
    WHEN name LIKE '%AllReduce%' THEN 'collective:allreduce'
    WHEN name LIKE '%ReduceScatter%' THEN 'collective:reducescatter'
    WHEN name LIKE '%SendRecv%' THEN 'p2p:sendrecv'
    ELSE 'collective:generic' END, NULL, 'name'
FROM raw.activity JOIN raw.name USING (name_id) WHERE name LIKE 'nccl%Kernel%'
"""


@pytest.mark.parametrize(
    ("trace", "expected"),
    [
        (
            "param/v100_dlrm_8rank/rank2.json",
            [("all_reduce", None, None, 3), ("all_to_all", None, None, 5)],
        ),
        # One kernel was launched before the recording began: nothing names its operation.
        (
            "torchrec/v100_4rank_a2a/rank0.json",
            [("all_to_all", None, None, 12), ("send_recv", None, None, 1)],
        ),
        (
            "ao/ref_ep_moe_fwd.json.gz",
            [
                ("all_to_all", 64, 2, 10),
                ("all_to_all", 117_440_512, 2, 20),
                ("send_recv", None, None, 1),
            ],
        ),
    ],
)
def test_operations_and_sizes(shared, trace, expected):
    with Store() as store:
        load([shared / "traces" / "chrome" / trace], store)
        link_activities(store)
        store.execute(CLASSIFY)
        describe_collectives(store)
        found = store.rows(
            "SELECT collective, bytes, group_size, count(*) FROM main.collective "
            "GROUP BY ALL ORDER BY ALL NULLS LAST"
        )
        assert store.rows("SELECT DISTINCT dimension FROM main.collective") == [("unknown",)]
    assert found == expected
