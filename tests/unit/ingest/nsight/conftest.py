"""Small Nsight Systems exports, and a store filled from an export."""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tracelens.ingest.importer import ImportOptions, Source
from tracelens.ingest.nsight import parquet, report_file, sqlite
from tracelens.store import Store

PID = 0x0001_0000_0000_0000 | 100 << 24
"""globalPid of process 100."""

Rows = Sequence[Mapping[str, Any]]

KERNEL = {
    "start": 1_000,
    "end": 2_000,
    "deviceId": 0,
    "contextId": 1,
    "streamId": 7,
    "correlationId": 11,
    "globalPid": PID,
    "demangledName": 1,
    "gridX": 2,
    "gridY": 1,
    "gridZ": 1,
    "blockX": 128,
    "blockY": 1,
    "blockZ": 1,
}
CALL = {
    "start": 500,
    "end": 600,
    "eventClass": 0,
    "globalTid": PID | 100,
    "correlationId": 11,
    "nameId": 2,
}
STRINGS = [
    {"id": 1, "value": "void gemm<float>(float*)"},
    {"id": 2, "value": "cudaLaunchKernel_v7000"},
]
_TEXT = {"value", "name", "text", "uuid"}


def write_export(path: Path, tables: Mapping[str, Rows]) -> Path:
    """Write tables as nsys does: no indexes, types declared, absent when empty."""
    with sqlite3.connect(path) as connection:
        for table, rows in ({"StringIds": STRINGS} | dict(tables)).items():
            if not rows:
                continue
            names = list(dict.fromkeys(name for row in rows for name in row))
            columns = ", ".join(
                f'"{name}" {"TEXT" if name in _TEXT else "INTEGER"}' for name in names
            )
            connection.execute(f'CREATE TABLE "{table}" ({columns})')
            marks = ", ".join("?" * len(names))
            connection.executemany(
                f'INSERT INTO "{table}" VALUES ({marks})',
                [[row.get(name) for name in names] for row in rows],
            )
    connection.close()
    return path


@pytest.fixture
def row() -> dict[str, dict[str, Any]]:
    """One usable row of each main table."""
    return {"kernel": dict(KERNEL), "call": dict(CALL)}


@pytest.fixture
def export(tmp_path: Path) -> Callable[..., Path]:
    """Write an export with a kernel and its launch, and the tables that are given."""

    def write(_name: str = "export.sqlite", **tables: Rows) -> Path:
        main = {"CUPTI_ACTIVITY_KIND_KERNEL": [KERNEL], "CUPTI_ACTIVITY_KIND_RUNTIME": [CALL]}
        return write_export(tmp_path / _name, main | tables)

    return write


@pytest.fixture
def load() -> Any:
    """Read a file into a new store with the importer that recognises it."""
    stores: list[Store] = []

    def read(path: Path, **options: Any) -> Store:
        head = b"" if path.is_dir() else path.read_bytes()[:65_536]
        (module,) = [item for item in (sqlite, parquet, report_file) if item.recognizes(path, head)]
        store = Store()
        stores.append(store)
        store.append("input", {"input": [0], "path": [str(path)], "format": [module.FORMAT]})
        module.read(Source(path, 0, head, ImportOptions(**options)), store)
        return store

    yield read
    for store in stores:
        store.close()
