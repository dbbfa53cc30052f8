"""GPU work: copies and memsets by kind, graphs as one row, and rows that cannot be."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Export = Callable[..., Path]
HOUR_NS = 3_600_000_000_000


def _copy(row: Any, kind: int, **columns: Any) -> dict[str, Any]:
    usual = {name: row["kernel"][name] for name in list(row["kernel"])[:7]}
    return usual | {"bytes": 64, "copyKind": kind, "srcKind": 1, "dstKind": 2} | columns


@pytest.mark.parametrize(
    ("kind", "copy_kind", "name"),
    [
        (1, "h2d", "Memcpy HtoD (Pinned -> Device)"),
        (2, "d2h", "Memcpy DtoH (Pinned -> Device)"),
        (8, "d2d", "Memcpy DtoD (Pinned -> Device)"),
        (10, "p2p", "Memcpy PtoP (Pinned -> Device)"),
        (11, "uvm_h2d", "Memcpy UVM HtoD (Pinned -> Device)"),
        (12, "uvm_d2h", "Memcpy UVM DtoH (Pinned -> Device)"),
        (13, "uvm_d2d", "Memcpy UVM DtoD (Pinned -> Device)"),
        (0, None, "Memcpy Unknown (Pinned -> Device)"),
    ],
)
def test_copies(
    export: Export, load: Any, row: Any, kind: int, copy_kind: str | None, name: str
) -> None:
    store = load(export(CUPTI_ACTIVITY_KIND_MEMCPY=[_copy(row, kind)]))
    assert store.rows(
        "SELECT copy_kind, name, bytes, stream FROM raw.activity JOIN raw.name USING (name_id)"
        " WHERE kind = 'memcpy'"
    ) == [(copy_kind, name, 64, 7)]


@pytest.mark.parametrize(("target", "copy_kind"), [(0, "d2d"), (1, "p2p")])
def test_a_copy_between_devices_is_peer_to_peer(
    export: Export, load: Any, row: Any, target: int, copy_kind: str
) -> None:
    copy = _copy(row, 8, srcDeviceId=0, dstDeviceId=target)
    store = load(export(CUPTI_ACTIVITY_KIND_MEMCPY=[copy]))
    assert store.scalar("SELECT copy_kind FROM raw.activity WHERE kind = 'memcpy'") == copy_kind


def test_a_copy_within_the_host_is_no_gpu_work(export: Export, load: Any, row: Any) -> None:
    store = load(export(CUPTI_ACTIVITY_KIND_MEMCPY=[_copy(row, 9)]))
    assert store.rows("SELECT kind FROM raw.activity") == [("kernel",)]
    assert store.rows("SELECT reason, count FROM raw.damage") == [
        ("CUPTI_ACTIVITY_KIND_MEMCPY: host to host, no GPU work", 1)
    ]


def test_memsets(export: Export, load: Any, row: Any) -> None:
    rows = [_copy(row, 0) | {"memKind": 2}, _copy(row, 0)]
    store = load(export(CUPTI_ACTIVITY_KIND_MEMSET=rows))
    assert store.rows(
        "SELECT name, bytes, copy_kind FROM raw.activity JOIN raw.name USING (name_id)"
        " WHERE kind = 'memset' ORDER BY activity_id"
    ) == [("Memset (Device)", 64, None), ("Memset (Unknown)", 64, None)]


def test_graphs(export: Export, load: Any, row: Any) -> None:
    graph = _copy(row, 0, correlationId=30, graphId=4)
    launch = row["call"] | {"correlationId": 30, "nameId": 3}
    lost = launch | {"correlationId": 31}
    strings = [
        {"id": 1, "value": "k"},
        {"id": 2, "value": "cudaLaunchKernel_v7000"},
        {"id": 3, "value": "cudaGraphLaunch_v10000"},
    ]
    store = load(
        export(
            CUPTI_ACTIVITY_KIND_GRAPH_TRACE=[graph],
            CUPTI_ACTIVITY_KIND_RUNTIME=[row["call"], launch, lost],
            StringIds=strings,
        )
    )
    assert store.rows(
        "SELECT kind, name, correlation FROM raw.activity JOIN raw.name USING (name_id)"
        " ORDER BY activity_id"
    ) == [("kernel", "k", 11), ("graph", "CUDA graph 4", 30)]
    notes = [text for (text,) in store.rows("SELECT text FROM raw.note")]
    assert [note.split(":")[0] for note in notes] == [
        "1 CUDA graph launches are one row each",
        "1 CUDA graph launches left no row at all",
    ]


def test_nodes_of_graphs_are_marked(export: Export, load: Any, row: Any) -> None:
    kernels = [row["kernel"], row["kernel"] | {"graphNodeId": 2**33}]
    store = load(export(CUPTI_ACTIVITY_KIND_KERNEL=kernels))
    assert store.rows("SELECT graph_node FROM raw.activity ORDER BY activity_id") == [
        (None,),
        (2**33,),
    ]


def test_impossible_rows_are_counted_not_used(export: Export, load: Any, row: Any) -> None:
    kernel = row["kernel"]
    kernels = [
        kernel,
        kernel | {"end": 999},
        kernel | {"end": kernel["start"]},
        kernel | {"start": -1},
        kernel | {"end": kernel["start"] + HOUR_NS},
        kernel | {"end": kernel["start"] + HOUR_NS + 1},
        kernel | {"start": None},
        kernel | {"globalPid": None},
        kernel | {"end": 5},
        kernel | {"start": -(2**63) + 1, "end": 2**63 - 1},
    ]
    store = load(export(CUPTI_ACTIVITY_KIND_KERNEL=kernels))
    durations = store.rows("SELECT end_ns - start_ns FROM raw.activity ORDER BY activity_id")
    assert durations == [(1_000,), (0,), (HOUR_NS,)]
    table = "CUPTI_ACTIVITY_KIND_KERNEL: "
    assert store.rows("SELECT reason, count, first_offset FROM raw.damage ORDER BY reason") == [
        (f"{table}ends before it starts", 2, 2),
        (f"{table}longer than 3600 s", 1, 6),
        (f"{table}no process or device", 1, 8),
        (f"{table}no start or end", 1, 7),
        (f"{table}starts before the session", 2, 4),
    ]
    assert store.scalar("SELECT events_read FROM raw.input") == len(kernels) + 1


def test_work_of_unknown_stream_gets_a_number(export: Any, load: Any, row: Any) -> None:
    kernel = {name: value for name, value in row["kernel"].items() if name != "streamId"}
    store = load(export(CUPTI_ACTIVITY_KIND_KERNEL=[kernel]))
    assert store.rows("SELECT stream FROM raw.activity") == [(-1,)]


def test_a_row_without_stream_leaves_the_others_theirs(export: Any, load: Any, row: Any) -> None:
    kernels = [row["kernel"], row["kernel"] | {"streamId": None, "start": 3_000, "end": 3_500}]
    store = load(export(CUPTI_ACTIVITY_KIND_KERNEL=kernels))
    assert store.rows("SELECT stream FROM raw.activity ORDER BY start_ns") == [(7,), (-1,)]
