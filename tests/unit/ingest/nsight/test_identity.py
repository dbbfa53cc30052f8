"""Processes, GPUs and ranks: nothing is merged that may be two, nothing private is kept."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Export = Callable[..., Path]
FIRST = 0x0001_0000_0000_0000 | 100 << 24
SECOND = 0x0001_0000_0000_0000 | 200 << 24
GPU_INFO = [
    {"id": 0, "name": "NVIDIA H100", "smCount": 132, "cuDevice": 0},
    {"id": 1, "name": "NVIDIA H100", "smCount": 132, "cuDevice": 0},
]


def _kernels(row: Any, *users: tuple[int, int]) -> list[dict[str, Any]]:
    return [row["kernel"] | {"globalPid": pid, "deviceId": ordinal} for pid, ordinal in users]


def _gpus(store: Any) -> list[tuple[Any, ...]]:
    return store.rows("SELECT gpu, process, device, device_name, num_sms FROM raw.gpu ORDER BY gpu")


def _notes(store: Any) -> list[str]:
    return [text for (text,) in store.rows("SELECT text FROM raw.note")]


def _environment(*values: str) -> list[dict[str, str]]:
    return [{"name": "PROCESS_0:ENVIRONMENT_VARIABLE", "value": value} for value in values]


def test_equal_device_numbers_of_two_processes_are_two_gpus(
    export: Export, load: Any, row: Any
) -> None:
    kernels = _kernels(row, (SECOND, 0), (FIRST, 0))
    store = load(export(CUPTI_ACTIVITY_KIND_KERNEL=kernels, TARGET_INFO_GPU=GPU_INFO))
    assert _gpus(store) == [(0, 0, 0, "NVIDIA H100", 132), (1, 1, 0, "NVIDIA H100", 132)]
    assert store.rows("SELECT process, pid FROM raw.process ORDER BY process") == [
        (0, 100),
        (1, 200),
    ]
    (note,) = _notes(store)
    assert "2 processes use the same device numbers" in note


def test_the_map_of_devices_tells_gpus_apart_and_together(
    export: Export, load: Any, row: Any
) -> None:
    devices = [
        {"gpuId": 1, "cudaId": 0, "pid": 100},
        {"gpuId": 0, "cudaId": 0, "pid": 200},
        {"gpuId": 0, "cudaId": 1, "pid": 100},
    ]
    kernels = _kernels(row, (FIRST, 0), (SECOND, 0), (FIRST, 1))
    store = load(
        export(
            CUPTI_ACTIVITY_KIND_KERNEL=kernels,
            TARGET_INFO_GPU=GPU_INFO,
            TARGET_INFO_CUDA_DEVICE=devices,
        )
    )
    assert [gpu[2] for gpu in _gpus(store)] == [1, 0]
    assert store.rows("SELECT gpu, process FROM raw.activity ORDER BY activity_id") == [
        (0, 0),
        (1, 1),
        (1, 0),
    ]
    assert _notes(store) == []


def test_instances_of_one_gpu_are_apart_and_have_their_own_size(
    export: Export, load: Any, row: Any
) -> None:
    devices = [
        {"gpuId": 0, "cudaId": 0, "pid": 100, "uuid": "MIG-a", "numMultiprocessors": 42},
        {"gpuId": 0, "cudaId": 0, "pid": 200, "uuid": "MIG-b", "numMultiprocessors": 60},
    ]
    store = load(
        export(
            CUPTI_ACTIVITY_KIND_KERNEL=_kernels(row, (FIRST, 0), (SECOND, 0)),
            TARGET_INFO_GPU=GPU_INFO,
            TARGET_INFO_CUDA_DEVICE=devices,
        )
    )
    assert [gpu[3:] for gpu in _gpus(store)] == [("NVIDIA H100", 42), ("NVIDIA H100", 60)]


@pytest.mark.parametrize(("green", "num_sms"), [(0, 66), (1, 132)])
def test_the_context_tells_the_size_unless_it_is_a_green_one(
    export: Export, load: Any, row: Any, green: int, num_sms: int
) -> None:
    contexts = [
        {"processId": 100, "contextId": 1, "isGreenContext": green, "numMultiprocessors": 66}
    ]
    store = load(export(TARGET_INFO_GPU=GPU_INFO, TARGET_INFO_CUDA_CONTEXT_INFO=contexts))
    assert _gpus(store)[0][4] == num_sms


def test_adapters_without_multiprocessors_are_not_the_gpu(export: Export, load: Any) -> None:
    adapters = [
        {"id": 0, "name": "Intel(R) HD Graphics 630", "smCount": 0, "cuDevice": 0},
        {"id": 1, "name": "GeForce GTX 1060", "smCount": 10, "cuDevice": 0},
    ]
    assert _gpus(load(export(TARGET_INFO_GPU=adapters))) == [(0, 0, 0, "GeForce GTX 1060", 10)]


def test_a_mixed_node_without_a_map_leaves_the_model_open(export: Export, load: Any) -> None:
    gpus = [GPU_INFO[0], {"id": 1, "name": "NVIDIA T400", "smCount": 6, "cuDevice": 1}]
    store = load(export(TARGET_INFO_GPU=gpus))
    assert _gpus(store) == [(0, 0, 0, None, None)]
    (note,) = _notes(store)
    assert "name it with --gpu" in note


def test_the_oldest_exports_describe_gpus_by_device_number(export: Export, load: Any) -> None:
    old = [
        {"deviceId": 1, "name": "Tesla K80", "numMultiprocessors": 13},
        {"deviceId": 0, "name": "Tesla V100", "numMultiprocessors": 80},
    ]
    adapters = [{"deviceId": 5, "name": "ASPEED"}, {"deviceId": 6, "name": "Tesla V100"}]
    store = load(export(TARGET_INFO_CUDA_GPU=old, TARGET_INFO_GPU=adapters))
    assert _gpus(store) == [(0, 0, 0, "Tesla V100", 80)]


def test_rank_and_nothing_else_of_the_environment(export: Export, load: Any) -> None:
    secret = "hunter2"
    capture = [
        *_environment('RANK="3"', 'WORLD_SIZE="8"', f"TOKEN={secret}", f"RANK_KEY={secret}"),
        {"name": "PROCESS_0:ARGUMENT_0", "value": f"--key={secret}"},
    ]
    system = [{"name": "DeviceEnvironment", "value": f"RANK=9\nTOKEN={secret}"}]
    processes = [{"globalPid": FIRST, "pid": 100, "name": secret}]
    store = load(
        export(META_DATA_CAPTURE=capture, TARGET_INFO_SYSTEM_ENV=system, PROCESSES=processes)
    )
    assert store.rows("SELECT claimed_rank, rank_source, world_size FROM raw.process") == [
        (3, "environment variable RANK", 8)
    ]
    tables = store.rows("SELECT table_name FROM duckdb_tables() WHERE schema_name = 'raw'")
    everything = [store.rows(f"SELECT * FROM raw.{table}") for (table,) in tables]
    assert secret not in repr(everything)


@pytest.mark.parametrize(
    ("values", "rank"),
    [
        (["SLURM_PROCID=5", "OMPI_COMM_WORLD_RANK=4", "RANK=3"], 3),
        (["SLURM_PROCID=5", "OMPI_COMM_WORLD_RANK=4"], 4),
        (["SLURM_PROCID=5", "LOCAL_RANK=1"], 5),
        (["LOCAL_RANK=1"], None),
        (["RANK=1", "RANK=2"], None),
        (["RANK=three"], None),
        (["RANK=99999999"], None),
        (["RANK=-1"], None),
    ],
)
def test_which_variable_names_the_rank(
    export: Export, load: Any, values: list[str], rank: int | None
) -> None:
    store = load(export(META_DATA_CAPTURE=_environment(*values)))
    assert store.scalar("SELECT claimed_rank FROM raw.process") == rank


def test_the_launchers_rank_is_not_that_of_several_processes(
    export: Export, load: Any, row: Any
) -> None:
    kernels = _kernels(row, (FIRST, 0), (SECOND, 1))
    path = export(CUPTI_ACTIVITY_KIND_KERNEL=kernels, META_DATA_CAPTURE=_environment("RANK=3"))
    assert load(path).rows("SELECT DISTINCT claimed_rank FROM raw.process") == [(None,)]


def test_mpi_names_the_rank_of_each_process(export: Export, load: Any, row: Any) -> None:
    kernels = _kernels(row, (FIRST, 0), (SECOND, 1))
    ranks = [{"globalTid": SECOND | 200, "rank": 6}, {"globalTid": FIRST | 100, "rank": 7}]
    store = load(export(CUPTI_ACTIVITY_KIND_KERNEL=kernels, MPI_RANKS=ranks))
    assert store.rows("SELECT pid, claimed_rank, rank_source FROM raw.process ORDER BY pid") == [
        (100, 7, "MPI_RANKS of the export"),
        (200, 6, "MPI_RANKS of the export"),
    ]


def test_numbers_go_on_where_another_file_ended(export: Export, load: Any, row: Any) -> None:
    from tracelens.ingest.importer import Source
    from tracelens.ingest.nsight import sqlite

    path = export()
    store = load(path)
    store.append("input", {"input": [1], "path": ["again"]})
    sqlite.read(Source(path, 1, path.read_bytes()[:65_536]), store)
    assert store.rows("SELECT gpu, input, process FROM raw.gpu ORDER BY gpu") == [
        (0, 0, 0),
        (1, 1, 1),
    ]
    assert store.rows("SELECT DISTINCT gpu, process FROM raw.activity ORDER BY gpu") == [
        (0, 0),
        (1, 1),
    ]
    assert store.rows("SELECT thread, process FROM raw.thread ORDER BY thread") == [(0, 0), (1, 1)]
