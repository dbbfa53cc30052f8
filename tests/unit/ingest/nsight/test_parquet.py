"""Parquet exports: the same rows as SQLite, whatever the types of the columns."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tracelens.errors import InputError
from tracelens.ingest.nsight import parquet

Export = Callable[..., Path]
_UNSIGNED = {"globalPid", "globalTid", "streamId", "contextId", "nameId", "demangledName"}


@pytest.fixture
def folder(export: Export, tmp_path: Path) -> Callable[..., Path]:
    """Write an export as a folder of Parquet files with the types that nsys uses."""

    def write(**tables: Any) -> Path:
        target = tmp_path / "export of any name"
        target.mkdir()
        with sqlite3.connect(export(**tables)) as connection:
            listed = connection.execute("SELECT name FROM sqlite_master").fetchall()
            for (table,) in listed:
                cursor = connection.execute(f'SELECT * FROM "{table}"')
                names = [column[0] for column in cursor.description]
                values = dict(zip(names, zip(*cursor.fetchall(), strict=True), strict=True))
                columns = {
                    name: pa.array([v if v is None else v % 2**64 for v in column], pa.uint64())
                    if name in _UNSIGNED
                    else pa.array(column)
                    for name, column in values.items()
                }
                pq.write_table(pa.table(columns), target / f"{table}.parquet")
        connection.close()
        return target

    return write


def test_reads_kernel_and_call(folder: Any, load: Any) -> None:
    store = load(folder())
    assert store.rows(
        "SELECT gpu, process, stream, kind, start_ns, end_ns, correlation, grid_x FROM raw.activity"
    ) == [(0, 0, 7, "kernel", 1_000, 2_000, 11, 2)]
    assert store.rows("SELECT name FROM raw.name ORDER BY name_id") == [
        ("void gemm<float>(float*)",),
        ("cudaLaunchKernel",),
    ]


def test_ids_above_63_bits_are_the_same_bits_as_in_sqlite(
    folder: Any, export: Export, load: Any, row: Any
) -> None:
    pid = -(2**63) + (101 << 24)
    kernel = row["kernel"] | {"globalPid": pid}
    tables = {"CUPTI_ACTIVITY_KIND_KERNEL": [kernel], "CUPTI_ACTIVITY_KIND_RUNTIME": []}
    from_sqlite, from_parquet = load(export("same.sqlite", **tables)), load(folder(**tables))
    query = "SELECT process, pid FROM raw.process"
    assert from_parquet.rows(query) == from_sqlite.rows(query) == [(0, 101)]


def test_ranks_and_versions(folder: Any, load: Any) -> None:
    capture = [
        {"name": "PROCESS_0:ENVIRONMENT_VARIABLE", "value": 'RANK="3"'},
        {"name": "PROCESS_0:ENVIRONMENT_VARIABLE", "value": "TOKEN=RANK=4"},
        {"name": "PROCESS_0:ARGUMENT_0", "value": "RANK=5"},
    ]
    export = [{"name": "EXPORT_PRODUCT_VERSION", "value": "2024.5.1.113"}]
    store = load(folder(META_DATA_CAPTURE=capture, META_DATA_EXPORT=export))
    assert store.rows("SELECT claimed_rank FROM raw.process") == [(3,)]
    assert store.scalar("SELECT producer FROM raw.input") == "Nsight Systems 2024.5.1.113"


def test_invalid_utf8_is_replaced(folder: Any, load: Any) -> None:
    path = folder()
    raw = pa.array([b"gei\xe1", b"f"], pa.binary())
    text = pa.Array.from_buffers(pa.string(), len(raw), raw.buffers())
    table = pa.table({"id": pa.array([1, 2], pa.int32()), "value": text})
    pq.write_table(table, path / "StringIds.parquet")
    assert load(path).scalar("SELECT name FROM raw.name WHERE name_id = 0") == "gei\ufffd"


def test_columns_of_an_unexpected_type_read_as_missing(folder: Any, load: Any) -> None:
    path = folder()
    file = path / "CUPTI_ACTIVITY_KIND_KERNEL.parquet"
    table = pq.read_table(file)
    at = table.column_names.index("correlationId")
    pq.write_table(table.set_column(at, "correlationId", pa.array(["eleven"])), file)
    assert load(path).rows("SELECT correlation FROM raw.activity") == [(None,)]


def test_other_folders_are_not_ours(tmp_path: Path) -> None:
    assert not parquet.recognizes(tmp_path, b"")
    pq.write_table(pa.table({"id": [1]}), tmp_path / "StringIds.parquet")
    assert not parquet.recognizes(tmp_path, b"")
    assert not parquet.recognizes(tmp_path / "StringIds.parquet", b"PAR1")


def test_a_damaged_file_is_refused_by_name(folder: Any, load: Any) -> None:
    path = folder()
    file = path / "CUPTI_ACTIVITY_KIND_KERNEL.parquet"
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(InputError, match=r"KERNEL\.parquet: not readable as Parquet") as caught:
        load(path)
    assert "export the report again" in caught.value.hint


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"id": [1, 2], "value": pa.array([b"a", b"b"], pa.binary())}, "'value' holds binary"),
        ({"id": ["1", "2"], "value": ["a", "b"]}, "'id' holds string, not whole numbers"),
        ({"id": [1, 2]}, "no column 'value'"),
    ],
)
def test_names_that_cannot_be_read_are_refused(
    folder: Any, load: Any, table: dict[str, Any], says: str
) -> None:
    path = folder()
    pq.write_table(pa.table(table), path / "StringIds.parquet")
    with pytest.raises(InputError, match=says) as caught:
        load(path)
    assert caught.value.message.startswith(str(path / "StringIds.parquet"))
    assert "export the report again" in caught.value.hint


def test_a_string_without_text_is_no_name(folder: Any, load: Any) -> None:
    path = folder()
    pq.write_table(pa.table({"id": [1, 2], "value": [None, "f"]}), path / "StringIds.parquet")
    assert load(path).scalar("SELECT count(*) FROM raw.activity") == 1


def test_two_columns_of_one_name_are_refused(folder: Any, load: Any) -> None:
    path = folder()
    file = path / "CUPTI_ACTIVITY_KIND_KERNEL.parquet"
    table = pq.read_table(file)
    pq.write_table(table.append_column("start", table["start"]), file)
    with pytest.raises(InputError, match=r"KERNEL\.parquet: several columns are called 'start'"):
        load(path)
