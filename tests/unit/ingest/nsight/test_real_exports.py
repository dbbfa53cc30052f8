"""Exports of eight releases of Nsight Systems, 2020 to 2026, with exact figures."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from tracelens.store import Store

A100 = "NVIDIA A100-SXM4-40GB"
# activities by kind (count, ns), host calls by kind, operators, ranges, GPUs (device, name, SMs)
EXPECTED: dict[str, tuple[Any, ...]] = {
    "a100_gemm_sweep_2023.4": (
        {"kernel": (8126, 141114765253), "memcpy": (29, 6647882398), "memset": (450, 2249213)},
        {"driver": 1958, "os": 21880, "runtime": 15977},
        *(0, 0, [(0, A100, 108)]),
    ),
    "a100_linear_projection_2023.4": (
        {"kernel": (4950, 185997118417), "memcpy": (99, 13414474042), "memset": (1800, 9196696)},
        {"driver": 761, "runtime": 11993},
        *(0, 0, [(0, A100, 108)]),
    ),
    "a100_cutlass_bmm_2023.4": (
        {"kernel": (62, 123723083)},
        {"driver": 441, "os": 11274, "runtime": 97},
        *(0, 0, [(0, A100, 108)]),
    ),
    "a100_4gpu_mpi_2024.5": (
        {"kernel": (1312, 294404540), "memcpy": (279, 9390923)},
        {"driver": 1, "os": 1828, "runtime": 3047},
        *(0, 0, [(0, "NVIDIA A100-SXM4-80GB", 108)]),
    ),
    "h100_2gpu_nccl_2026.2": (
        {"kernel": (4010, 535200650), "memcpy": (1020, 5692087), "memset": (269, 213408)},
        {"driver": 1074, "runtime": 6392},
        *(18488, 630, [(0, None, None), (1, None, None)]),
    ),
    "h100_2gpu_window_2026.2": (
        {"kernel": (3442, 44829522), "memcpy": (904, 1880842214), "memset": (22, 29216)},
        {"runtime": 5796},
        *(16542, 240, [(0, None, None), (1, None, None)]),
    ),
    "t4_power_iteration_2025.3": (
        {"kernel": (3689, 1131742684), "memcpy": (89, 322040)},
        {"driver": 1696, "os": 1427, "runtime": 5721},
        *(0, 786, [(0, "Tesla T4", 40)]),
    ),
    "rtx6000_2020": (
        {"kernel": (12, 6128761), "memcpy": (188, 386959917), "memset": (16, 13599)},
        {"os": 12489, "runtime": 260},
        *(0, 0, [(0, "Quadro RTX 6000", 72)]),
    ),
    "gtx1060_concurrent_2021": (
        {"kernel": (12, 895646803), "memcpy": (30, 159704093), "memset": (17, 37696)},
        {"driver": 5, "runtime": 179},
        *(0, 76, [(0, "GeForce GTX 1060 with Max-Q Design", 10)]),
    ),
    "gtx1060_con_kernel_2021": (
        {"kernel": (9, 271711594), "memcpy": (11, 8066276), "memset": (1, 2560)},
        {"driver": 3, "runtime": 68},
        *(0, 0, [(0, "GeForce GTX 1060 with Max-Q Design", 10)]),
    ),
    "rtx3060_graph_mode_2025.5": (
        {"graph": (2, 3104), "kernel": (3, 3840), "memcpy": (1, 864)},
        {"driver": 7, "os": 651, "runtime": 26},
        *(0, 0, [(0, "NVIDIA GeForce RTX 3060", 28)]),
    ),
    "rtx4060_no_kernels_2025.5": (
        {"memset": (1, 1472)},
        {"driver": 1, "os": 695, "runtime": 22},
        *(0, 0, [(0, "NVIDIA GeForce RTX 4060", 24)]),
    ),
    "a100_2gpu_no_kernels_2026.2": ({}, {}, 0, 0, []),
}
_COMPARED = {
    "activity": "n.name, * EXCLUDE (activity_id, name_id)",
    "host_call": "n.name, * EXCLUDE (call_id, name_id)",
    "overhead": "n.name, * EXCLUDE (name_id)",
}


def _nsight(shared: Path, name: str) -> Path:
    return shared / "traces" / "nsight" / name


def _by_kind(store: Store, table: str, value: str) -> dict[str, Any]:
    rows = store.rows(f"SELECT kind, {value} FROM raw.{table} GROUP BY kind")
    return {kind: found[0] if len(found) == 1 else tuple(found) for kind, *found in rows}


@pytest.mark.parametrize("name", EXPECTED)
def test_figures_are_exact(shared: Path, load: Any, name: str) -> None:
    path = _nsight(shared, f"{name}.sqlite")
    activities, calls, ops, ranges, gpus = EXPECTED[name]

    store = load(path)

    found = _by_kind(store, "activity", "count(*), sum(end_ns - start_ns)::BIGINT")
    assert found == activities
    assert _by_kind(store, "host_call", "count(*)") == calls
    assert store.scalar("SELECT count(*) FROM raw.op") == ops
    assert store.scalar("SELECT count(*) FROM raw.range") == ranges
    assert store.rows("SELECT device, device_name, num_sms FROM raw.gpu ORDER BY gpu") == gpus
    assert store.rows("SELECT * FROM raw.damage") == []
    assert store.scalar("SELECT resolution_ns FROM raw.input") == 1


def test_the_input_is_left_as_it_was(shared: Path, load: Any) -> None:
    path = _nsight(shared, "gtx1060_concurrent_2021.sqlite")
    before = hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns

    load(path)

    assert (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns) == before
    assert not list(path.parent.glob(f"{path.name}?*"))


def test_parquet_and_sqlite_of_one_report_are_equal(shared: Path, load: Any) -> None:
    from_sqlite = load(_nsight(shared, "a100_linear_projection_2023.4.sqlite"))
    from_parquet = load(_nsight(shared, "a100_linear_projection_2023.4.parquetdir"))

    for table, columns in _COMPARED.items():
        query = f"SELECT {columns} FROM raw.{table} JOIN raw.name AS n USING (name_id) ORDER BY ALL"
        assert from_sqlite.rows(query) == from_parquet.rows(query)
    for table in ("process", "thread", "gpu", "stream_wait", "damage", "note"):
        query = f"SELECT * FROM raw.{table} ORDER BY ALL"
        assert from_sqlite.rows(query) == from_parquet.rows(query)
    query = "SELECT * EXCLUDE (path, format) FROM raw.input"
    assert from_sqlite.rows(query) == from_parquet.rows(query)


def test_two_processes_on_two_gpus_stay_apart(shared: Path, load: Any) -> None:
    store = load(_nsight(shared, "h100_2gpu_nccl_2026.2.sqlite"))

    kernels = store.rows(
        "SELECT gpu, process, count(*) FROM raw.activity WHERE kind = 'kernel'"
        " GROUP BY ALL ORDER BY gpu"
    )
    assert kernels == [(0, 0, 1993), (1, 1, 2017)]
    unlaunched = store.scalar(
        "SELECT count(*) FROM raw.activity AS a WHERE kind = 'kernel' AND NOT EXISTS (SELECT 1"
        " FROM raw.host_call AS c WHERE c.process = a.process AND c.correlation = a.correlation)"
    )
    assert unlaunched == 24
    # Joined by correlation alone, as correlation ids repeat in every process, there would be more.
    pairs = (
        "SELECT count(*) FROM raw.activity AS a JOIN raw.host_call AS c USING (correlation{})"
        " WHERE a.kind = 'kernel'"
    )
    assert store.scalar(pairs.format("")) > store.scalar(pairs.format(", process")) == 3986


def test_waits_of_streams_are_on_the_gpu_of_their_context(shared: Path, load: Any) -> None:
    # Rows of synchronisation say device 0 for both processes of this export.
    store = load(_nsight(shared, "h100_2gpu_nccl_2026.2.sqlite"))

    rows = store.rows(
        "SELECT gpu, process, count(*) FROM raw.stream_wait GROUP BY ALL ORDER BY gpu"
    )

    assert rows == [(0, 0, 98), (1, 1, 102)]


def test_a_wait_names_the_stream_that_recorded_the_event(shared: Path, load: Any) -> None:
    store = load(_nsight(shared, "gtx1060_con_kernel_2021.sqlite"))

    rows = store.rows(
        "SELECT wait_on_stream, record_correlation, correlation FROM raw.stream_wait"
        " ORDER BY correlation LIMIT 3"
    )

    assert rows == [(14, 137, 144), (15, 126, 145), (16, 140, 146)]


def test_nccl_calls_stay_ranges_and_operators_lose_their_numbers(shared: Path, load: Any) -> None:
    store = load(_nsight(shared, "h100_2gpu_nccl_2026.2.sqlite"))

    ranges = store.rows(
        "SELECT name, count(*) FROM raw.range JOIN raw.name USING (name_id)"
        " WHERE name LIKE 'nccl%' GROUP BY name ORDER BY name"
    )
    assert ranges == [
        ("nccl:all_to_all", 66),
        ("ncclCommCount", 66),
        ("ncclGroupEnd", 66),
        ("ncclGroupStart", 66),
        ("ncclRecv", 132),
        ("ncclSend", 132),
    ]
    assert store.scalar("SELECT count(DISTINCT name_id) FROM raw.op") == 52
    assert store.rows(
        "SELECT sequence, external_id FROM raw.op JOIN raw.name USING (name_id)"
        " WHERE name = 'aten::native_layer_norm' ORDER BY op_id LIMIT 1"
    ) == [(45332, 990738)]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("a100_2gpu_no_kernels_2026.2", "no kernels: 0 CUDA API calls"),
        ("rtx4060_no_kernels_2025.5", "no kernels: 23 CUDA API calls"),
    ],
)
def test_an_export_without_kernels_says_why(shared: Path, load: Any, name: str, words: str) -> None:
    store = load(_nsight(shared, f"{name}.sqlite"))

    first = store.scalar("SELECT text FROM raw.note LIMIT 1")

    assert words in first
    assert "the driver is newer than nsys" in first


def test_graphs_traced_as_a_whole_are_told(shared: Path, load: Any) -> None:
    store = load(_nsight(shared, "rtx3060_graph_mode_2025.5.sqlite"))

    notes = [text for (text,) in store.rows("SELECT text FROM raw.note")]

    assert notes == [
        "the profiler reports: CUDA driver 13.2 is newer than this nsys, which supports 13.1:"
        " events may be missing",
        "2 CUDA graph launches are one row each: capture with --cuda-graph-trace=node to see their"
        " kernels",
    ]
    # The launch that was captured into the graph has no GPU row and is no activity.
    assert store.scalar("SELECT count(*) FROM raw.activity WHERE correlation = 138") == 0
