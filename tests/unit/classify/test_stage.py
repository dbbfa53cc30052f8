"""The stage decides by the best evidence, says which it was, and leaves nothing without a class."""

from collections.abc import Iterator
from typing import Any

import pytest

from tracelens.classify import classify
from tracelens.store import Store


@pytest.fixture
def store() -> Iterator[Store]:
    with Store() as opened:
        yield opened


class Trace:
    """Appends rows one by one and remembers the ids."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def name(self, text: str) -> int:
        return self.store.name_ids([text])[0]

    def activity(self, name: str, kind: str = "kernel", **columns: Any) -> int:
        row = {"gpu": 0, "process": 0, "stream": 7, "start_ns": 0, "end_ns": 10, **columns}
        row |= {"kind": kind, "name_id": self.name(name)}
        return self.store.append("activity", {key: [value] for key, value in row.items()})

    def call(self, name: str, start_ns: int = 100) -> int:
        row = {"process": 0, "thread": 1, "kind": "runtime", "name_id": self.name(name)}
        row |= {"start_ns": start_ns, "end_ns": start_ns + 5}
        return self.store.append("host_call", {key: [value] for key, value in row.items()})

    def op(self, name: str, start_ns: int = 90, end_ns: int = 120) -> int:
        row = {"process": 0, "thread": 1, "name_id": self.name(name)}
        row |= {"start_ns": start_ns, "end_ns": end_ns}
        return self.store.append("op", {key: [value] for key, value in row.items()})

    def range(self, name: str, start_ns: int, end_ns: int, thread: int = 1) -> None:
        row = {"process": 0, "thread": thread, "kind": "annotation", "name_id": self.name(name)}
        row |= {"start_ns": start_ns, "end_ns": end_ns}
        self.store.append("range", {key: [value] for key, value in row.items()})

    def link(self, activity_id: int, call_id: int | None = None, op_id: int | None = None) -> None:
        row = {
            "activity_id": activity_id,
            "call_id": call_id,
            "op_id": op_id,
            "method": "correlation",
        }
        self.store.append("link", {key: [value] for key, value in row.items()})

    def collective(self, op: str, dtype: str | None = None, **where: int) -> None:
        self.store.append(
            "collective", {"op": [op], "dtype": [dtype]} | {k: [v] for k, v in where.items()}
        )

    def classes(self) -> list[tuple[str, str | None, str]]:
        self.store.flush_names()
        classify(self.store)
        return self.store.rows(
            "SELECT class, dtype, source FROM raw.activity_class ORDER BY activity_id"
        )

    def labels(self) -> set[tuple[str, str, str]]:
        self.store.flush_names()
        classify(self.store)
        return set(
            self.store.rows(
                "SELECT name, target, label FROM raw.host_label JOIN raw.name USING (name_id)"
            )
        )


def test_the_name_decides_where_nothing_else_is_known(store: Store) -> None:
    trace = Trace(store)
    trace.activity("nvjet_tst_192x8_64x8_4x1_v_bz_TNT")
    trace.activity("no_such_kernel")
    assert trace.classes() == [("gemm", "bf16", "name"), ("other", None, "none")]


def test_metadata_on_the_kernel_tells_what_sendrecv_is(store: Store) -> None:
    trace = Trace(store)
    kernel = trace.activity("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)")
    trace.collective("all_to_allv", "BFloat16", activity_id=kernel)
    assert trace.classes() == [("collective:alltoall", "bf16", "metadata")]


def test_metadata_on_the_launching_op_tells_what_generic_is(store: Store) -> None:
    trace = Trace(store)
    kernel = trace.activity("ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)")
    op = trace.op("record_param_comms")
    trace.link(kernel, trace.call("hipLaunchKernel"), op)
    trace.collective("_reduce_scatter_base", "Float", op_id=op)
    assert trace.classes() == [("collective:reducescatter", "fp32", "metadata")]


def test_a_compute_kernel_under_communication_stays_what_it_is(store: Store) -> None:
    trace = Trace(store)
    op = trace.op("record_param_comms")
    trace.collective("allreduce", "Float", op_id=op)
    scale = "void at::native::vectorized_elementwise_kernel<4, MulFunctor<c10::Half> >(int)"
    for name in (scale, "a_kernel_nobody_knows"):
        trace.link(trace.activity(name), trace.call("cudaLaunchKernel"), op)
    assert trace.classes() == [
        ("elementwise", "fp16", "name"),
        ("collective:allreduce", "fp32", "metadata"),
    ]


def test_coalesced_operations_that_differ_leave_the_name_to_decide(store: Store) -> None:
    trace = Trace(store)
    kernel = trace.activity("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)")
    trace.collective("broadcast", "Float", activity_id=kernel)
    trace.collective("allreduce", "Float", activity_id=kernel)
    assert trace.classes() == [("p2p:sendrecv", "fp32", "name")]


def test_an_annotation_around_the_launch_decides_without_metadata(store: Store) -> None:
    trace = Trace(store)
    name = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
    trace.range("nccl:all_to_all", 90, 150)
    trace.range("ncclSend", 91, 95)
    trace.range("nccl:recv 1<-0", 200, 250)
    trace.range("nccl:broadcast", 290, 400, thread=2)
    for start_ns in (100, 220, 300):
        trace.link(trace.activity(name), trace.call("cudaLaunchKernel", start_ns))
    assert trace.classes() == [
        ("collective:alltoall", None, "annotation"),
        ("p2p:sendrecv", None, "annotation"),
        ("p2p:sendrecv", None, "name"),
    ]


def test_the_op_decides_where_the_name_says_nothing(store: Store) -> None:
    trace = Trace(store)
    for op in (
        "aten::mm",
        "triton_red_fused_add_native_layer_norm_21",
        "my::op",
        "c10d::alltoall_base_",
    ):
        trace.link(trace.activity("triton__0d1d2d"), trace.call("cuLaunchKernel"), trace.op(op))
    trace.link(trace.activity("volta_sgemm_128x32_tn"), None, trace.op("aten::softmax"))
    trace.activity("triton__0d1d2d")
    assert trace.classes() == [
        ("gemm", None, "op"),
        ("norm", None, "op"),
        ("other", None, "none"),
        ("collective:alltoall", None, "annotation"),
        ("gemm", "fp32", "name"),
        ("other", None, "none"),
    ]


def test_copies_go_by_their_direction(store: Store) -> None:
    trace = Trace(store)
    for copy_kind in ("h2d", "d2h", "d2d", "p2p", "uvm_h2d", "uvm_d2h", "uvm_d2d"):
        trace.activity("whatever", "memcpy", copy_kind=copy_kind)
    trace.activity("Memcpy HtoD (Pageable -> Device)", "memcpy")
    trace.activity("whatever", "memcpy")
    trace.activity("whatever", "memset")
    trace.activity("cudaGraphLaunch", "graph")
    assert trace.classes() == [
        ("memcpy:h2d", None, "metadata"),
        ("memcpy:d2h", None, "metadata"),
        ("memcpy:d2d", None, "metadata"),
        ("memcpy:p2p", None, "metadata"),
        ("memcpy:h2d", None, "metadata"),
        ("memcpy:d2h", None, "metadata"),
        ("memcpy:d2d", None, "metadata"),
        ("memcpy:h2d", None, "name"),
        ("memcpy:d2d", None, "none"),
        ("memset", None, "metadata"),
        ("graph", None, "metadata"),
    ]


def test_running_it_again_replaces_the_rows(store: Store) -> None:
    trace = Trace(store)
    trace.activity("volta_sgemm_128x32_tn")
    trace.call("cudaLaunchKernel")
    assert trace.classes() == trace.classes() == [("gemm", "fp32", "name")]
    assert trace.labels() == {("cudaLaunchKernel", "call", "launch")}


def test_an_empty_trace_has_no_classes(store: Store) -> None:
    trace = Trace(store)
    assert trace.classes() == []
    assert (
        store.rows("SELECT table_name FROM duckdb_tables() WHERE table_name LIKE 'classify%'") == []
    )


def test_labels_are_kept_by_target(store: Store) -> None:
    trace = Trace(store)
    trace.call("cudaDeviceSynchronize_v3020")
    trace.call("cudaGetDeviceCount")
    trace.op("aten::item")
    trace.range("aten::item", 0, 1)
    trace.range("ProfilerStep#3", 0, 1)
    trace.store.append(
        "overhead",
        {
            "process": [0, 0],
            "thread": [1, 1],
            "name_id": [trace.name("CUPTI Buffer Flush"), trace.name("Lazy Function Loading")],
            "start_ns": [0, 5],
            "end_ns": [1, 6],
        },
    )
    assert trace.labels() == {
        ("cudaDeviceSynchronize_v3020", "call", "blocking"),
        ("aten::item", "op", "blocking"),
        ("ProfilerStep#3", "range", "step"),
        ("CUPTI Buffer Flush", "overhead", "profiler"),
        ("Lazy Function Loading", "overhead", "compile"),
    }
