"""Reports: exported with the user's nsys, once, and never from a partial export."""

import sqlite3
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tracelens.errors import ExternalToolError, InputError
from tracelens.ingest.nsight import nsys, report_file
from tracelens.ingest.nsight.report_header import read_header

Program = Callable[..., Path]
OFFSET = (100).to_bytes(8, "little")


def _report(folder: Path, version: str = "2023@4@4@54-234433681190v0", end: bytes = b"") -> Path:
    path = folder / "my report.nsys-rep"
    body = b"NVIDIA Tegra Profiler Report " + version.encode() + b"." + b"\0" * 200
    path.write_bytes(body + (end or OFFSET + b"U3w[END]"))
    return path


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """Write a program that answers like nsys; ``body`` runs for an export, with ``$out`` set."""

    def write(body: str, version: str = "2023.4.4.54-234433681190v0") -> Path:
        path = tmp_path / "bin" / "nsys"
        path.parent.mkdir(exist_ok=True)
        path.write_text(
            "#!/bin/sh\n"
            f'[ "$1" = --version ] && echo "NVIDIA Nsight Systems version {version}" && exit\n'
            f'printf "%s\\n" "$@" >> "{tmp_path}/arguments"\n'
            f'echo run >> "{tmp_path}/runs"\n'
            'while [ $# -gt 1 ]; do [ "$1" = -o ] && out="$2"; shift; done\n'
            f"{body}\n"
        )
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    return write


def _runs(folder: Path) -> int:
    return len((folder / "runs").read_text().splitlines())


def _failure(load: Any, path: Path, program: Path, cache: Path) -> ExternalToolError:
    with pytest.raises(ExternalToolError) as caught:
        load(path, nsys=str(program), cache_dir=cache)
    left = list(cache.rglob("*")) if cache.exists() else []
    assert left == []  # neither a partial export nor a folder for one
    return caught.value


def test_a_report_is_exported_once_and_read(
    tmp_path: Path, program: Program, export: Any, load: Any
) -> None:
    cache = tmp_path / "cache"
    tool = program(f'cp "{export()}" "$out"; echo "Processing [====]" >&2', version="2022.4.2.1")
    report = _report(tmp_path, version="1")
    before = report.read_bytes(), report.stat().st_mtime_ns

    stores = [load(report, nsys=str(tool), cache_dir=cache) for _ in range(2)]

    for store in stores:
        assert store.scalar("SELECT count(*) FROM raw.activity") == 1
    assert _runs(tmp_path) == 1
    assert len(list(cache.iterdir())) == 1
    assert cache.stat().st_mode & 0o077 == 0
    assert (report.read_bytes(), report.stat().st_mtime_ns) == before


def test_what_is_asked_of_an_old_nsys(
    tmp_path: Path, program: Program, export: Any, load: Any
) -> None:
    tool = program(f'cp "{export()}" "$out"', version="2022.4.2.1")
    report = _report(tmp_path, version="1")
    load(report, nsys=str(tool), cache_dir=tmp_path / "cache")
    arguments = (tmp_path / "arguments").read_text().splitlines()
    assert arguments[:5] == ["export", "-t", "sqlite", "-q", "true"]
    assert arguments[5] == "-o"
    assert arguments[7:] == [str(report)]


def test_a_newer_nsys_writes_parquet_and_only_the_tables_that_are_read(
    tmp_path: Path, program: Program, shared: Path, load: Any
) -> None:
    folder = shared / "traces" / "nsight" / "a100_linear_projection_2023.4.parquetdir"
    tool = program(f'cp -r "{folder}" "$out"; chmod -R u+w "$out"')
    store = load(_report(tmp_path), nsys=str(tool), cache_dir=tmp_path / "cache")
    assert store.scalar("SELECT count(*) FROM raw.activity WHERE kind = 'kernel'") == 4_950
    arguments = (tmp_path / "arguments").read_text().splitlines()
    assert arguments[1:3] == ["-t", "parquetdir"]
    tables = arguments[arguments.index("--tables") + 1].split(",")
    assert "CUPTI_ACTIVITY_KIND" in tables
    assert not [table for table in tables if "ENV" in table or "ProcessStreams" in table]


def test_a_changed_report_or_another_nsys_is_exported_again(
    tmp_path: Path, program: Program, export: Any, load: Any
) -> None:
    copy = f'cp "{export()}" "$out"'
    cache = tmp_path / "cache"
    report = _report(tmp_path, version="1")
    load(report, nsys=str(program(copy, version="2022.4.2")), cache_dir=cache)
    report.write_bytes(report.read_bytes().replace(b"\0\0\0\0", b"\0\1\0\0", 1))
    load(report, nsys=str(program(copy, version="2022.4.2")), cache_dir=cache)
    load(report, nsys=str(program(copy, version="2022.5.1")), cache_dir=cache)
    assert _runs(tmp_path) == 3


def test_nsys_is_found_in_path_and_the_cache_is_the_users(
    tmp_path: Path,
    program: Program,
    export: Any,
    load: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tool = program(f'cp "{export()}" "$out"', version="2022.4.2")
    monkeypatch.setenv("PATH", f"{tool.parent}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    load(_report(tmp_path, version="1"))
    assert len(list((tmp_path / "xdg" / "tracelens" / "nsys").iterdir())) == 1


def test_without_nsys_the_user_learns_what_to_install(
    tmp_path: Path, load: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ExternalToolError, match="nsys is not in PATH") as caught:
        load(_report(tmp_path))
    assert "install Nsight Systems 2023.4.4 or newer" in caught.value.hint
    assert "nsys export --type sqlite" in caught.value.hint
    with pytest.raises(ExternalToolError, match="/nowhere/nsys: not found"):
        load(_report(tmp_path), nsys="/nowhere/nsys")


def test_a_report_newer_than_nsys_is_refused_before_nsys_runs(
    tmp_path: Path, program: Program, load: Any
) -> None:
    report = _report(tmp_path, version="2026@1@2@63-261237296639v0")
    error = _failure(load, report, program("exit 0"), tmp_path / "cache")
    assert "written by Nsight Systems 2026.1.2, this nsys is 2023.4.4" in error.message
    assert "install Nsight Systems 2026.1.2 or newer" in error.hint
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("says", "hint"),
    [
        ("Section Table Reference magic number mismatch.", "copy it again"),
        ("Cannot read from stream.", "copy it again"),
        ("LZ4 decompression failed.", "damaged"),
        ("Invalid version prefix: SQLite format 3", "no report"),
        ("Version number is invalid: 2026@1@2@63", "newer than nsys"),
        ("Report was created in version (2026), newer than your current version", "newer nsys"),
        ("database is locked", "local disk"),
        ("unable to open database file", "can be written"),
        ("Something new", "nsys export --type sqlite"),
    ],
)
def test_failures_of_nsys_are_explained_and_leave_nothing(
    tmp_path: Path, program: Program, load: Any, says: str, hint: str
) -> None:
    body = f'mkdir "$out"; echo half > "$out/x"; echo "Exportation error: {says}" >&2; exit 1'
    error = _failure(load, _report(tmp_path), program(body), tmp_path / "cache")
    assert f"nsys export failed (status 1): Exportation error: {says}" in error.message
    assert hint in error.hint


def test_a_valid_but_partial_database_of_a_failed_export_is_not_read(
    tmp_path: Path, program: Program, export: Any, load: Any
) -> None:
    body = (
        f'cp "{export()}" "$out"; echo "Exportation error: LZ4 decompression failed." >&2; exit 1'
    )
    tool = program(body, version="2022.4.2")
    _failure(load, _report(tmp_path, version="1"), tool, tmp_path / "cache")


def test_success_without_output_is_a_failure(tmp_path: Path, program: Program, load: Any) -> None:
    error = _failure(load, _report(tmp_path), program("exit 0"), tmp_path / "cache")
    assert "wrote nothing" in error.message


def test_an_nsys_that_hangs_is_stopped_with_its_helpers(
    tmp_path: Path, program: Program, load: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nsys, "EXPORT_TIMEOUT_S", 0.3)
    begun = time.monotonic()
    tool = program('mkdir "$out"; sleep 60 & sleep 60')
    error = _failure(load, _report(tmp_path), tool, tmp_path / "cache")
    assert "did not finish within 0.3 s" in error.message
    assert time.monotonic() - begun < 10


@pytest.mark.parametrize("body", ["echo hello", "exit 3"])
def test_another_program_is_not_taken_for_nsys(tmp_path: Path, load: Any, body: str) -> None:
    tool = tmp_path / "tool"
    tool.write_text(f"#!/bin/sh\n{body}\n")
    tool.chmod(0o755)
    error = _failure(load, _report(tmp_path), tool, tmp_path / "cache")
    assert "does not answer like nsys" in error.message


def test_a_program_that_cannot_run_is_told(tmp_path: Path, load: Any) -> None:
    tool = tmp_path / "tool"
    tool.write_bytes(b"\x7fELF no program")
    tool.chmod(0o755)
    error = _failure(load, _report(tmp_path), tool, tmp_path / "cache")
    assert "cannot be run" in error.message


def test_a_cache_folder_that_cannot_be_made_is_told(
    tmp_path: Path, program: Program, load: Any
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(ExternalToolError, match="exports cannot be kept here"):
        load(_report(tmp_path), nsys=str(program("exit 0")), cache_dir=blocked / "cache")


@pytest.mark.parametrize("end", [b"U3w[EN", (2**40).to_bytes(8, "little") + b"U3w[END]"])
def test_a_report_that_ends_early_is_refused(tmp_path: Path, load: Any, end: bytes) -> None:
    report = _report(tmp_path, end=end)
    with pytest.raises(InputError, match=f"ends early, at byte {report.stat().st_size}"):
        load(report)


def test_a_raw_stream_needs_the_importer_of_nsight(tmp_path: Path, load: Any) -> None:
    path = tmp_path / "capture.qdstrm"
    path.write_bytes(b"U3w[END]NVIDIA Nsight Systems Stream 2023.4" + b"\0" * 50)
    with pytest.raises(InputError, match="raw stream") as caught:
        load(path)
    assert "QdstrmImporter" in caught.value.hint


@pytest.mark.parametrize(
    ("written", "version"),
    [("1", None), ("2026@1@2@63-261237296639v0", (2026, 1, 2)), ("2023@4@4@54-x", (2023, 4, 4))],
)
def test_the_header_names_its_writer(
    tmp_path: Path, written: str, version: tuple[int, ...] | None
) -> None:
    path = _report(tmp_path, version=written)
    header = read_header(path, path.read_bytes())
    assert (header.version, header.whole) == (version, True)
    assert report_file.recognizes(path, path.read_bytes())


def test_a_renamed_database_is_read_as_what_it_is(export: Any, load: Any) -> None:
    path = export("renamed.nsys-rep")
    assert load(path).scalar("SELECT format FROM raw.input") == "nsys-sqlite"
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT count(*) FROM StringIds").fetchone() == (2,)
    connection.close()


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ('mkdir "$out"', "it holds no table of a trace"),
        ('touch "$out"', "it holds no table of a trace"),
        ('ln -s /etc "$out"', "it is neither a file nor a folder"),
        ('mkfifo "$out"', "it is neither a file nor a folder"),
        (
            'mkdir "$out"; cd "$out"; touch StringIds.parquet CUPTI_ACTIVITY_KIND_KERNEL.parquet',
            "not readable as Parquet",
        ),
    ],
)
def test_an_export_of_no_use_is_a_failure_and_not_kept(
    tmp_path: Path, program: Program, load: Any, body: str, says: str
) -> None:
    error = _failure(load, _report(tmp_path), program(body), tmp_path / "cache")
    assert "reported success, but what it wrote is of no use" in error.message
    assert says in error.message


def test_a_useless_export_in_the_cache_is_replaced(
    tmp_path: Path, program: Program, export: Any, load: Any
) -> None:
    cache = tmp_path / "cache"
    tool = program(f'cp "{export()}" "$out"', version="2022.4.2")
    report = _report(tmp_path, version="1")
    load(report, nsys=str(tool), cache_dir=cache)
    (kept,) = cache.iterdir()
    kept.write_bytes(b"")
    store = load(report, nsys=str(tool), cache_dir=cache)
    assert store.scalar("SELECT count(*) FROM raw.activity") == 1
    assert _runs(tmp_path) == 2


def test_an_export_whose_damage_shows_in_its_rows_is_not_kept(
    tmp_path: Path, program: Program, export: Any, load: Any, row: Any
) -> None:
    kernel = row["kernel"] | dict.fromkeys(["rowid", "_rowid_", "oid"])
    broken = export(CUPTI_ACTIVITY_KIND_KERNEL=[kernel])
    tool = program(f'cp "{broken}" "$out"', version="2022.4.2")
    error = _failure(load, _report(tmp_path, version="1"), tool, tmp_path / "cache")
    assert "hide the row number" in error.message
