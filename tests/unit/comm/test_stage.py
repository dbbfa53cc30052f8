"""Rows and sections that the stage writes, from hand-made tables."""

import pytest

from tracelens.comm import describe_collectives, summarize_collectives
from tracelens.store import Store


@pytest.fixture
def store():
    with Store() as opened:
        opened.append("input", {"input": [0], "path": ["t"]})
        opened.append("process", {"process": [0], "input": [0]})
        opened.append("thread", {"thread": [1], "process": [0]})
        opened.append("gpu", {"gpu": [0], "input": [0], "process": [0], "rank": [0]})
        yield opened


def add_kernels(store, classes, *, starts=None, ends=None, kinds=None, sizes=None):
    count = len(classes)
    (name_id,) = store.name_ids(["k"])
    if not store.rows("SELECT 1 FROM raw.name"):
        store.flush_names()
    starts = starts or [1000 * i for i in range(count)]
    columns = {
        "gpu": [0] * count,
        "process": [0] * count,
        "stream": [7] * count,
        "kind": kinds or ["kernel"] * count,
        "name_id": [name_id] * count,
        "start_ns": starts,
        "end_ns": ends or [start + 500 for start in starts],
        "bytes": sizes or [None] * count,
    }
    first = store.append("activity", columns)
    ids = list(range(first, first + count))
    store.append("activity_class", {"activity_id": ids, "class": classes})
    return ids


def described(store):
    return store.rows(
        "SELECT activity_id, dimension, collective, bytes, group_size, source "
        "FROM raw.activity_dimension ORDER BY activity_id"
    )


def test_only_communication_gets_a_row(store):
    classes = ["gemm", "collective:allreduce", "memcpy:h2d", "memcpy:p2p", "p2p:sendrecv"]
    add_kernels(store, classes, sizes=[None, None, 5, 64, None])
    describe_collectives(store)
    assert described(store) == [
        (1, "unknown", "all_reduce", None, None, "none"),
        (3, "unknown", "send_recv", 64, None, "none"),
        (4, "unknown", "send_recv", None, None, "none"),
    ]


def test_nothing_to_describe_is_no_error(store):
    add_kernels(store, ["gemm"])
    describe_collectives(store)
    assert described(store) == []
    summarize_collectives(store)
    assert store.result("collectives") == []


def test_metadata_on_the_kernel(store):
    ids = add_kernels(store, ["collective:allgather", "p2p:sendrecv"])
    store.append(
        "collective",
        {
            "activity_id": ids,
            "op": ["_allgather_base", "all_to_allv"],
            "in_elems": [10, 6],
            "out_elems": [80, 4],
            "dtype": ["BFloat16", "Float8_e4m3fn"],
            "group_size": [8, None],
            "group_desc": ["mesh_dp_shard", "undefined"],
            "group_ranks": ["[0]", "[0, 1, 2]"],
        },
    )
    describe_collectives(store)
    assert described(store) == [
        (0, "fsdp", "all_gather", 160, 8, "description"),
        (1, "unknown", "all_to_all", 6, 3, "none"),
    ]


def test_metadata_on_the_launching_op_and_on_one_around_it(store):
    ids = add_kernels(store, ["collective:allreduce", "collective:allreduce", "collective:generic"])
    ops = store.append(
        "op",
        {
            "thread": [1, 1, 1, 1],
            "start_ns": [0, 100, 110, 120],
            "end_ns": [50, 200, 115, 140],
        },
    )
    outer, inner = ops + 1, ops + 3
    store.append(
        "host_call", {"thread": [1, 1, 1], "start_ns": [10, 130, 300], "end_ns": [20, 135, 301]}
    )
    store.append("link", {"activity_id": ids, "call_id": [0, 1, 2], "op_id": [ops, inner, None]})
    # The op at 110..115 carries metadata too but had ended before the launch at 130.
    store.append(
        "collective",
        {
            "op_id": [ops, outer, ops + 2],
            "op": ["allreduce", "_reduce_scatter_base", "broadcast"],
            "in_elems": [4, 16, 1],
            "out_elems": [4, 2, 1],
            "dtype": ["Float", "Half", "Byte"],
            "group_size": [2, 8, 2],
            "group_desc": ["mesh_tp", "mesh_dp_replicate", "mesh_pp"],
        },
    )
    describe_collectives(store)
    assert described(store) == [
        (0, "tp", "all_reduce", 16, 2, "description"),
        (1, "dp", "reduce_scatter", 32, 8, "description"),
        (2, "unknown", "generic", None, None, "none"),
    ]


def test_kernels_that_share_an_op_have_its_group_but_no_size(store):
    ids = add_kernels(store, ["p2p:sendrecv", "p2p:sendrecv"])
    op = store.append("op", {"thread": [1], "start_ns": [0], "end_ns": [50]})
    store.append("link", {"activity_id": ids, "call_id": [None, None], "op_id": [op, op]})
    store.append(
        "collective",
        {
            "op_id": [op],
            "op": ["all_to_all"],
            "in_elems": [4],
            "dtype": ["Float"],
            "group_size": [2],
            "group_desc": ["mesh_ep"],
        },
    )
    describe_collectives(store)
    assert described(store) == [
        (0, "ep", "all_to_all", None, 2, "description"),
        (1, "ep", "all_to_all", None, 2, "description"),
    ]


def test_metadata_of_the_kernel_is_completed_by_its_op(store):
    ids = add_kernels(store, ["collective:allreduce"])
    op = store.append("op", {"thread": [1], "start_ns": [0], "end_ns": [50]})
    store.append("link", {"activity_id": ids, "op_id": [op]})
    store.append(
        "collective",
        {
            "activity_id": [ids[0], None],
            "op_id": [None, op],
            "op": ["allreduce", "allreduce"],
            "in_elems": [3, 3],
            "dtype": ["Float", "Float"],
            "group_size": [2, 2],
            "group_desc": [None, "CONTEXT_PARALLEL_GROUP"],
        },
    )
    describe_collectives(store)
    assert described(store) == [(0, "cp", "all_reduce", 12, 2, "description")]


def test_an_annotation_around_the_launch_names_the_operation(store):
    ids = add_kernels(store, ["p2p:sendrecv", "p2p:sendrecv"])
    store.append("host_call", {"thread": [1, 1], "start_ns": [10, 90], "end_ns": [20, 95]})
    store.append("link", {"activity_id": ids, "call_id": [0, 1]})
    names = store.name_ids(["nccl:all_to_all", "## forward ##"])
    store.flush_names()
    store.append(
        "range",
        {"thread": [1, 1], "name_id": names, "start_ns": [5, 8], "end_ns": [30, 100]},
    )
    describe_collectives(store)
    assert described(store) == [
        (0, "unknown", "all_to_all", None, None, "none"),
        (1, "unknown", "send_recv", None, None, "none"),
    ]


def test_rows_written_twice_do_not_multiply(store):
    ids = add_kernels(store, ["collective:allreduce"])
    store.append("link", {"activity_id": ids * 2, "op_id": [None, None]})
    store.append(
        "collective",
        {
            "activity_id": ids * 2,
            "op": ["allreduce"] * 2,
            "in_elems": [3, 3],
            "dtype": ["Float"] * 2,
            "group_desc": ["mesh_tp"] * 2,
        },
    )
    describe_collectives(store)
    assert described(store) == [(0, "tp", "all_reduce", 12, None, "description")]


def test_all_gather_and_reduce_scatter_on_one_group_are_fsdp(store):
    ids = add_kernels(
        store, ["collective:allgather", "collective:reducescatter", "collective:allgather"]
    )
    store.append(
        "collective",
        {
            "activity_id": ids,
            "op": ["_allgather_base", "_reduce_scatter_base", "_allgather_base"],
            "group_desc": ["DATA_PARALLEL_GROUP"] * 3,
            "group_ranks": ["[0, 1]", "[0, 1]", "[0, 2]"],
        },
    )
    describe_collectives(store)
    assert [row[1] for row in described(store)] == ["fsdp", "fsdp", "dp"]


def test_summary_counts_bandwidth_and_exposed_time_inside_the_window(store):
    ids = add_kernels(
        store,
        ["collective:allreduce"] * 4 + ["collective:barrier"],
        starts=[1000, 2000, 3000, 9000, 4000],
        ends=[1100, 2200, 3400, 9900, 4010],
    )
    store.append(
        "collective",
        {
            "activity_id": ids[:4],
            "op": ["allreduce"] * 4,
            "in_elems": [100] * 4,
            "dtype": ["Float"] * 4,
            "group_size": [4] * 4,
            "group_desc": ["mesh_tp"] * 4,
        },
    )
    describe_collectives(store)
    store.append(
        "step",
        {
            "gpu": [0, 0],
            "step": [1, 2],
            "start_ns": [1000, 5000],
            "end_ns": [5000, 9999],
            "included": [True, False],
        },
    )
    store.append(
        "segment",
        {
            "gpu": [0, 0],
            "step": [1, 1],
            "start_ns": [1000, 3000],
            "end_ns": [1100, 3050],
            "leaf": ["comm.tp.undivided"] * 2,
            "activity_id": [ids[0], ids[2]],
        },
    )
    summarize_collectives(store)
    # 400 bytes in 100, 200, 400 ns: the median is 2 bytes a ns, times 2 * 3 / 4.
    assert store.result("collectives") == [
        {
            "dim": "tp",
            "op": "all_reduce",
            "bytes": 400,
            "count": 3,
            "busbw_p50_bytes_per_s": 3.0e9,
            "busbw_bound": "lower",
            "exposed_ns": 150,
            "wait_ns": None,
            "transfer_ns": None,
        },
        {
            "dim": "unknown",
            "op": "barrier",
            "bytes": None,
            "count": 1,
            "busbw_p50_bytes_per_s": None,
            "busbw_bound": None,
            "exposed_ns": 0,
            "wait_ns": None,
            "transfer_ns": None,
        },
    ]


def test_an_instance_without_duration_has_no_bandwidth(store):
    ids = add_kernels(store, ["collective:allreduce"], starts=[10], ends=[10])
    store.append(
        "collective",
        {"activity_id": ids, "in_elems": [1], "dtype": ["Byte"], "group_size": [2]},
    )
    store.append(
        "step", {"gpu": [0], "step": [0], "start_ns": [0], "end_ns": [20], "included": [True]}
    )
    describe_collectives(store)
    summarize_collectives(store)
    (section,) = store.result("collectives")
    assert (section["bytes"], section["count"], section["busbw_p50_bytes_per_s"]) == (1, 1, None)
