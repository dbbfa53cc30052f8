"""A group without a description is data-parallel only if it does nothing else."""

import pytest

from tracelens.comm import describe_collectives
from tracelens.store import Store

MEGABYTE = 1 << 20
ENGINE = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"


class Job:
    """Collectives of one group, each launched at its own time; backward runs from 1000 to 2000."""

    def __init__(self):
        self.store = Store()
        self.store.append("gpu", {"gpu": [0], "input": [0], "process": [0], "rank": [0]})
        [engine] = self.store.name_ids([ENGINE])
        self.store.append(
            "host_label", {"name_id": [engine], "target": ["op"], "label": ["backward"]}
        )
        self.store.append(
            "op",
            {
                "process": [0],
                "thread": [2],
                "name_id": [engine],
                "start_ns": [1000],
                "end_ns": [2000],
            },
        )

    def collective(self, op, at_ns, size_bytes, *, thread=2, kernel_class="collective:allreduce"):
        call = self.store.append(
            "host_call",
            {
                "process": [0],
                "thread": [thread],
                "kind": ["runtime"],
                "name_id": self.store.name_ids(["cudaLaunchKernelExC"]),
                "start_ns": [at_ns],
                "end_ns": [at_ns + 1],
            },
        )
        activity = self.store.append(
            "activity",
            {
                "gpu": [0],
                "process": [0],
                "stream": [20],
                "kind": ["kernel"],
                "name_id": self.store.name_ids(["ncclDevKernel"]),
                "start_ns": [at_ns + 10],
                "end_ns": [at_ns + 20],
            },
        )
        self.store.append("link", {"activity_id": [activity], "call_id": [call]})
        self.store.append("activity_class", {"activity_id": [activity], "class": [kernel_class]})
        self.store.append(
            "collective",
            {
                "activity_id": [activity],
                "op": [op],
                "in_elems": [size_bytes],
                "out_elems": [size_bytes],
                "dtype": ["Byte"],
                "group_ranks": ["[0, 1]"],
                "group_desc": ["undefined"],
            },
        )
        return activity

    def dimensions(self):
        self.store.flush_names()
        describe_collectives(self.store)
        return dict(self.store.rows("SELECT activity_id, dimension FROM raw.activity_dimension"))


def test_buckets_of_backward_and_buffer_broadcasts_are_data_parallel():
    job = Job()
    bucket = job.collective("allreduce", 1500, 25 * MEGABYTE)
    buffers = job.collective("broadcast", 100, 400, thread=1, kernel_class="collective:broadcast")
    norm = job.collective("allreduce", 2500, 4, thread=1)
    assert job.dimensions() == {bucket: "dp", buffers: "dp", norm: "unknown"}


@pytest.mark.parametrize(
    "other",
    [
        {"op": "allreduce", "at_ns": 500, "size_bytes": MEGABYTE, "thread": 1},
        {"op": "allreduce", "at_ns": 2001, "size_bytes": MEGABYTE},
        {
            "op": "_allgather_base",
            "at_ns": 1600,
            "size_bytes": MEGABYTE,
            "kernel_class": "collective:allgather",
        },
    ],
    ids=["in forward", "after backward", "gathers too"],
)
def test_a_group_that_does_something_else_stays_unknown(other):
    job = Job()
    bucket = job.collective("allreduce", 1500, 25 * MEGABYTE)
    second = job.collective(**other)
    assert job.dimensions() == {bucket: "unknown", second: "unknown"}


def test_small_messages_alone_prove_nothing():
    job = Job()
    small = job.collective("allreduce", 1500, 64 * 1024 - 1)
    assert job.dimensions() == {small: "unknown"}
