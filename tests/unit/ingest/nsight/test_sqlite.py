"""SQLite exports: found by content, read by named columns, never written to."""

import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tracelens.errors import InputError
from tracelens.ingest.importer import Source
from tracelens.ingest.nsight import schema, sqlite
from tracelens.store import Store

Export = Callable[..., Path]


def _head(path: Path) -> bytes:
    return path.read_bytes()[:65_536]


def _names(store: Store) -> list[str]:
    return [
        name
        for (name,) in store.rows(
            "SELECT name FROM raw.activity JOIN raw.name USING (name_id) ORDER BY activity_id"
        )
    ]


def test_recognised_by_content_whatever_the_name(export: Export) -> None:
    path = export("no-suffix")
    assert sqlite.recognizes(path, _head(path))


def test_another_sqlite_database_is_not_ours(tmp_path: Path) -> None:
    path = tmp_path / "app.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE StringIds (id INTEGER, value TEXT)")
    connection.close()
    assert not sqlite.recognizes(path, _head(path))
    text = tmp_path / "text.sqlite"
    text.write_text("SQLite")
    assert not sqlite.recognizes(text, _head(text))


def test_reads_kernel_and_call(export: Export, load: Any) -> None:
    store = load(export())

    assert store.rows(
        "SELECT gpu, process, stream, kind, start_ns, end_ns, correlation, grid_x, block_x,"
        " graph_node, bytes, copy_kind, external_id FROM raw.activity"
    ) == [(0, 0, 7, "kernel", 1_000, 2_000, 11, 2, 128, None, None, None, None)]
    assert store.rows(
        "SELECT process, thread, kind, name, start_ns, end_ns, correlation"
        " FROM raw.host_call JOIN raw.name USING (name_id)"
    ) == [(0, 0, "runtime", "cudaLaunchKernel", 500, 600, 11)]
    assert store.rows("SELECT pid, claimed_rank FROM raw.process") == [(100, None)]
    assert store.rows("SELECT tid, name FROM raw.thread") == [("100", None)]
    assert store.rows("SELECT producer, base_ns, started_at, events_read FROM raw.input") == [
        ("Nsight Systems (version not recorded)", None, None, 2)
    ]


def test_columns_of_others_and_missing_columns_do_no_harm(
    export: Export, load: Any, row: Any
) -> None:
    kernel = row["kernel"] | {"name": "written by another tool", "tensorSizeMinusOneElements": "[]"}
    del kernel["contextId"], kernel["gridX"]

    store = load(export(CUPTI_ACTIVITY_KIND_KERNEL=[kernel]))

    assert _names(store) == ["void gemm<float>(float*)"]
    assert store.rows("SELECT grid_x, grid_y FROM raw.activity") == [(None, 1)]


@pytest.mark.parametrize("column", ["shortName", "mangledName"])
def test_another_name_serves_where_the_demangled_one_is_missing(
    export: Export, load: Any, row: Any, column: str
) -> None:
    kernel = row["kernel"] | {column: 1}
    del kernel["demangledName"]
    assert _names(load(export(CUPTI_ACTIVITY_KIND_KERNEL=[kernel]))) == ["void gemm<float>(float*)"]


def test_an_unknown_string_id_is_told_as_such(export: Export, load: Any, row: Any) -> None:
    kernels = [row["kernel"] | {"demangledName": 99}, row["kernel"] | {"demangledName": None}]
    store = load(export(CUPTI_ACTIVITY_KIND_KERNEL=kernels))
    assert _names(store) == ["[no name recorded]"] * 2


def test_invalid_utf8_is_replaced(export: Export, load: Any) -> None:
    path = export()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE StringIds SET value = CAST(x'676569e1' AS TEXT) WHERE id = 1")
    connection.close()
    assert _names(load(path)) == ["gei\N{REPLACEMENT CHARACTER}"]


def test_values_of_another_type_do_not_stop_the_reader(export: Export, load: Any, row: Any) -> None:
    kernels = [row["kernel"], row["kernel"] | {"start": "soon"}, row["kernel"] | {"end": 1.5}]
    strings = [{"id": 1, "value": b"\x00\x01"}, {"id": 2, "value": "f"}]
    store = load(export(CUPTI_ACTIVITY_KIND_KERNEL=kernels, StringIds=strings))
    assert _names(store) == ["[no name recorded]"]
    assert store.rows("SELECT reason, count, first_offset FROM raw.damage") == [
        ("CUPTI_ACTIVITY_KIND_KERNEL: no start or end", 2, 2)
    ]


def test_negative_and_large_integers_survive(export: Export, load: Any, row: Any) -> None:
    # With NSYS_HW_ID set, ids use the top bit of 64.
    pid = -(2**63) + 0x0064_0000_00 + (1 << 24)
    kernel = row["kernel"] | {"globalPid": pid, "correlationId": 2**63 - 1, "streamId": 2**32}
    store = load(export(CUPTI_ACTIVITY_KIND_KERNEL=[kernel], CUPTI_ACTIVITY_KIND_RUNTIME=[]))
    assert store.rows("SELECT correlation, stream FROM raw.activity") == [(2**63 - 1, 2**32)]
    assert store.rows("SELECT pid FROM raw.process") == [(101,)]


def test_batches_join_without_loss(
    export: Export, load: Any, row: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "BATCH_ROWS", 2)
    kernels = [row["kernel"] | {"start": at, "end": at + 10} for at in range(100, 105)]
    texts = [
        {"start": at, "end": at + 1, "eventType": 59, "text": f"t{at}", "globalTid": 1 << 24}
        for at in range(5)
    ]
    store = load(export(CUPTI_ACTIVITY_KIND_KERNEL=kernels, NVTX_EVENTS=texts))
    assert store.rows("SELECT start_ns, end_ns FROM raw.activity ORDER BY activity_id") == [
        (at, at + 10) for at in range(100, 105)
    ]
    assert store.rows(
        "SELECT name, start_ns FROM raw.range JOIN raw.name USING (name_id) ORDER BY range_id"
    ) == [(f"t{at}", at) for at in range(5)]


@pytest.mark.parametrize("odd", ["text", 1.5, b"\xff"])
def test_an_odd_value_far_down_costs_no_row_before_or_after_it(
    export: Export, load: Any, row: Any, monkeypatch: pytest.MonkeyPatch, odd: Any
) -> None:
    monkeypatch.setattr(sqlite, "BATCH_ROWS", 2)
    kernels = [row["kernel"] | {"start": at, "end": at + 10} for at in range(7)]
    kernels[4]["end"] = odd
    store = load(export(CUPTI_ACTIVITY_KIND_KERNEL=kernels))
    assert store.rows("SELECT start_ns, end_ns FROM raw.activity ORDER BY activity_id") == [
        (at, at + 10) for at in range(7) if at != 4
    ]
    assert store.rows("SELECT reason, count, first_offset FROM raw.damage") == [
        ("CUPTI_ACTIVITY_KIND_KERNEL: no start or end", 1, 5)
    ]


def test_text_that_begins_far_down_and_is_no_utf_8(
    export: Export, load: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "BATCH_ROWS", 2)
    path = export(
        NVTX_EVENTS=[
            {"start": at, "end": at + 1, "eventType": 59, "text": None, "globalTid": 1 << 24}
            | ({"textId": 1} if at < 5 else {"textId": None})
            for at in range(7)
        ]
    )
    with sqlite3.connect(path) as connection:
        connection.execute(
            "UPDATE NVTX_EVENTS SET text = CAST(x'676569e1' AS TEXT) WHERE start = 5"
        )
        connection.execute("UPDATE NVTX_EVENTS SET text = '' WHERE start = 6")
    connection.close()
    names = load(path).rows(
        "SELECT name FROM raw.range JOIN raw.name USING (name_id) ORDER BY range_id"
    )
    assert [name for (name,) in names] == [
        *["void gemm<float>(float*)"] * 5,
        "gei\N{REPLACEMENT CHARACTER}",
        "",
    ]


def test_deleted_rows_leave_gaps_that_do_not_matter(export: Export, load: Any, row: Any) -> None:
    path = export(CUPTI_ACTIVITY_KIND_KERNEL=[row["kernel"] | {"end": 2_000 + n} for n in range(5)])
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE rowid IN (1, 3)")
        connection.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = 1 WHERE rowid = 4")
    connection.close()
    store = load(path)
    assert store.rows("SELECT end_ns FROM raw.activity ORDER BY activity_id") == [
        (2_001,),
        (2_004,),
    ]
    assert store.rows("SELECT reason, count, first_offset FROM raw.damage") == [
        ("CUPTI_ACTIVITY_KIND_KERNEL: ends before it starts", 1, 4)
    ]


def test_a_view_in_place_of_a_table_is_not_run(export: Export, load: Any) -> None:
    path = export()
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE VIEW NVTX_EVENTS AS SELECT * FROM no_such_table")
    connection.close()
    assert len(_names(load(path))) == 1


def test_rows_in_a_write_ahead_log_count_and_nothing_is_written(
    export: Export, load: Any, tmp_path: Path
) -> None:
    live = export("live.sqlite")
    writer = sqlite3.connect(live, isolation_level=None)
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute(
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT * FROM CUPTI_ACTIVITY_KIND_KERNEL"
    )
    folder = tmp_path / "copied while open"
    folder.mkdir()
    for name in ("live.sqlite", "live.sqlite-wal"):
        shutil.copy(tmp_path / name, folder / name)
    writer.close()
    before = {file.name: file.read_bytes() for file in folder.iterdir()}

    store = load(folder / "live.sqlite")

    assert len(_names(store)) == 2
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before


def test_a_file_that_ends_early_is_refused_with_the_place(export: Export, load: Any) -> None:
    path = export()
    whole = path.read_bytes()
    path.write_bytes(whole[:-4096])
    with pytest.raises(InputError, match=f"ends at byte {len(whole) - 4096} of {len(whole)}"):
        load(path)


def test_a_damaged_database_is_refused(export: Export, load: Any) -> None:
    path = export()
    content = bytearray(path.read_bytes())
    content[4096:] = os.urandom(8) * (len(content[4096:]) // 8)
    path.write_bytes(content)
    with pytest.raises(InputError, match="malformed") as caught:
        load(path)
    assert "export the report again" in caught.value.hint


def test_a_compressed_database_is_refused(export: Export, tmp_path: Path) -> None:
    whole = export()
    packed = tmp_path / "export.sqlite.gz"
    packed.write_bytes(b"\x1f\x8b not what SQLite expects")
    head = _head(whole)  # a caller that looks into gzip sees the database
    assert sqlite.recognizes(packed, head)
    with Store() as store, pytest.raises(InputError):
        sqlite.read(Source(packed, 0, head), store)


@pytest.mark.parametrize("value", [-(2**63) + 1, -1, 0, 2**31, 2**32 - 1, 2**62, 2**63 - 1, "text"])
def test_no_value_in_any_column_breaks_the_reader(tmp_path: Path, load: Any, value: Any) -> None:
    path = tmp_path / "hostile.sqlite"
    tables = {
        **dict.fromkeys(schema.GPU_TABLES, (*schema.KERNEL_COLUMNS, *schema.MEMCPY_COLUMNS)),
        **dict.fromkeys((schema.RUNTIME, schema.OSRT), schema.CALL_COLUMNS),
        **dict.fromkeys((schema.PROFILER_OVERHEAD, schema.CUPTI_OVERHEAD), schema.OVERHEAD_COLUMNS),
        "NVTX_EVENTS": schema.NVTX_COLUMNS,
        schema.SYNCHRONIZATION: schema.WAIT_COLUMNS,
        schema.CUDA_EVENT: schema.RECORD_COLUMNS,
        schema.STRINGS: ("id", "value"),
        schema.THREAD_NAMES: ("globalTid", "nameId"),
        schema.DIAGNOSTICS: ("severity", "globalPid", "text"),
        schema.MPI_RANKS: ("globalTid", "rank"),
        schema.GPU_INFO: ("id", "name", "smCount"),
        schema.CUDA_DEVICE: ("pid", "cudaId", "gpuId", "uuid", "numMultiprocessors"),
        schema.CONTEXT_INFO: ("processId", "contextId", "isGreenContext", "numMultiprocessors"),
    }
    with sqlite3.connect(path) as connection:
        for table, names in tables.items():
            columns = list(dict.fromkeys(names))
            connection.execute(f'CREATE TABLE "{table}" ({", ".join(map(_quoted, columns))})')
            timed = [1 if name == "start" else 9 if name == "end" else value for name in columns]
            kept = [0 if columns[at] == "deviceId" else given for at, given in enumerate(timed)]
            for row in (timed, kept, [value] * len(columns)):
                marks = ", ".join("?" * len(row))
                connection.execute(f'INSERT INTO "{table}" VALUES ({marks})', row)
    connection.close()

    store = load(path)

    kernels = store.scalar("SELECT count(*) FROM raw.activity WHERE kind = 'kernel'")
    assert kernels == {0: 3, "text": 0}.get(value, 1)


def _quoted(name: str) -> str:
    return f'"{name}"'


@pytest.mark.parametrize("names", [["rowid"], ["ROWID", "_rowid_"]])
def test_a_column_that_hides_the_row_number_hides_no_row(
    export: Export, load: Any, row: Any, names: list[str]
) -> None:
    kernel = row["kernel"] | dict.fromkeys(names)
    assert _names(load(export(CUPTI_ACTIVITY_KIND_KERNEL=[kernel]))) == ["void gemm<float>(float*)"]


def test_without_any_row_number_the_export_is_refused(export: Export, load: Any, row: Any) -> None:
    kernel = row["kernel"] | dict.fromkeys(["rowid", "_rowid_", "oid"])
    with pytest.raises(InputError, match="hide the row number"):
        load(export(CUPTI_ACTIVITY_KIND_KERNEL=[kernel]))


def test_a_folder_that_is_called_like_a_journal_is_none(export: Export, load: Any) -> None:
    path = export()
    journal = path.with_name(path.name + "-wal")
    journal.mkdir()
    (journal / "x").touch()
    assert load(path).scalar("SELECT count(*) FROM raw.activity") == 1


def test_a_name_that_is_no_text_is_opened(export: Export) -> None:
    path = export()
    odd = path.rename(path.with_name(os.fsdecode(b"b\xff?#%.sqlite")))
    assert sqlite.recognizes(odd, _head(odd))
