"""Do generations of the profilers write what they are known to write?"""

import gzip
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tracelens.cli.app import app
from tracelens.cli.simulate import KinetoDialect, NsysVersion
from tracelens.simulate import KINETO_DIALECTS, NSYS_VERSIONS, Dialect, Run, simulate, write


@pytest.fixture(scope="module")
def run() -> Run:
    return simulate("host_os")


def kineto(run: Run, folder: Path, dialect: Any) -> dict[str, Any]:
    path, _ = write(run, folder, "kineto", Dialect(kineto=dialect))
    return json.loads(gzip.decompress(path.read_bytes()), parse_float=str)  # type: ignore[no-any-return]


def columns(connection: sqlite3.Connection) -> dict[str, set[str]]:
    names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    return {
        table: {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
        for (table,) in names
    }


def nsight(run: Run, folder: Path, version: Any) -> sqlite3.Connection:
    path, _ = write(run, folder, "nsys", Dialect(nsys=version))
    return sqlite3.connect(path)


def test_old_kineto(run: Run, tmp_path: Path) -> None:
    document = kineto(run, tmp_path, "us")
    assert set(document) == {
        *("schemaVersion", "deviceProperties", "record_shapes", "traceEvents", "traceName")
    }
    events = document["traceEvents"]
    assert all(isinstance(event["ts"], int) for event in events)
    assert min(event["ts"] for event in events) > 1_700_000_000_000_000
    assert "cuda_sync" not in {event.get("cat") for event in events}
    for event in events:
        if event.get("cat") in {"kernel", "cuda_runtime", "cuda_driver"}:
            assert event["args"]["External id"] == event["args"]["correlation"]


def test_epoch_kineto(run: Run, tmp_path: Path) -> None:
    document = kineto(run, tmp_path, "epoch")
    assert "baseTimeNanoseconds" not in document
    kernel = next(event for event in document["traceEvents"] if event.get("cat") == "kernel")
    assert len(kernel["ts"].replace(".", "")) == 19


def test_tables_of_2022(run: Run, tmp_path: Path) -> None:
    connection = nsight(run, tmp_path, "2022.4")
    found = columns(connection)
    assert {"EXPORT_META_DATA", "TARGET_INFO_CUDA_NULL_STREAM", "OSRT_API"} <= set(found)
    assert not {"META_DATA_EXPORT", "META_DATA_CAPTURE", "TARGET_INFO_CUDA_DEVICE"} & set(found)
    assert not {"graphId", "greenContextId"} & found["CUPTI_ACTIVITY_KIND_KERNEL"]
    (texts,) = connection.execute("SELECT count(*) FROM NVTX_EVENTS WHERE text IS NULL").fetchone()
    assert texts == 0


def test_tables_of_2023(run: Run, tmp_path: Path) -> None:
    connection = nsight(run, tmp_path, "2023.4")
    found = columns(connection)
    assert {"META_DATA_EXPORT", "META_DATA_CAPTURE"} <= set(found)
    assert "TARGET_INFO_CUDA_DEVICE" not in found
    assert "greenContextId" in found["CUPTI_ACTIVITY_KIND_KERNEL"]
    assert "graphId" not in found["CUPTI_ACTIVITY_KIND_KERNEL"]
    settings = dict(connection.execute("SELECT name, value FROM META_DATA_EXPORT"))
    assert settings["EXPORT_PRODUCT_VERSION"] == "2023.4.4.54"
    assert settings["EXPORT_SCHEMA_VERSION"] == "3.7.2"


def test_tables_of_2026(run: Run, tmp_path: Path) -> None:
    connection = nsight(run, tmp_path, "2026.2")
    found = columns(connection)
    assert "tensorSizeMinusOneElements" in found["CUPTI_ACTIVITY_KIND_KERNEL"]
    assert "systemClockNs" in found["TARGET_INFO_SESSION_START_TIME"]
    names = connection.execute(
        "SELECT count(*), count(text), count(value) FROM NVTX_EVENTS"
        " LEFT JOIN StringIds ON id = textId"
    ).fetchone()
    assert names[0] == names[2] > 0
    assert names[1] == 0


@pytest.mark.parametrize(
    ("version", "real"),
    [
        ("2023.4", "a100_gemm_sweep_2023.4.sqlite"),
        ("2026.2", "h100_2gpu_nccl_2026.2.sqlite"),
    ],
)
def test_columns_are_those_of_real_exports(
    shared: Path, run: Run, tmp_path: Path, version: str, real: str
) -> None:
    """Every column that is written exists in a real export of the same age."""
    path = shared / "traces" / "nsight" / real
    theirs = columns(sqlite3.connect(f"file:{path}?mode=ro", uri=True))
    ours = columns(nsight(run, tmp_path, version))
    for table in set(ours) & set(theirs):
        if table.startswith("CUPTI") or table in {"NVTX_EVENTS", "OSRT_API", "PROFILER_OVERHEAD"}:
            assert ours[table] == theirs[table], table


def test_overhead_in_both_families(tmp_path: Path) -> None:
    run = simulate("S37")
    events = kineto(run, tmp_path, "ns")["traceEvents"]
    (first, *_) = [event for event in events if event.get("cat") == "overhead"]
    assert (first["name"], first["pid"], first["tid"]) == ("Buffer Flush", -1, 0)
    assert first["dur"] == "5000.000"
    connection = nsight(run, tmp_path, "2025.5")
    rows = connection.execute(
        'SELECT "end" - start, overheadType FROM PROFILER_OVERHEAD'
    ).fetchall()
    assert set(rows) == {(5_000_000, 3)}


def test_ranks_that_are_missing_leave_no_file(tmp_path: Path) -> None:
    paths = [path.name for path in write(simulate("S39"), tmp_path, "both")]
    assert paths == [
        *("rank0.json.gz", "rank2.json.gz", "S39.rank0.sqlite", "S39.rank2.sqlite"),
        "S39.truth.json",
    ]


def test_the_command_knows_every_generation(tmp_path: Path) -> None:
    assert tuple(KinetoDialect) == KINETO_DIALECTS
    assert tuple(NsysVersion) == NSYS_VERSIONS
    arguments = ["simulate", "S34", "--out", str(tmp_path), "--dialect", "us"]
    result = CliRunner().invoke(app, [*arguments, "--nsys-version", "2022.4"])
    assert result.exit_code == 0
    assert "EXPORT_META_DATA" in columns(sqlite3.connect(tmp_path / "S34.sqlite"))
