"""Which files a user means: a file, a folder or a glob, each recognised by its content."""

import glob
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from tracelens.errors import InputError, UsageError
from tracelens.ingest import chrome, nsight
from tracelens.ingest.chrome.source_bytes import head_of

IMPORTERS: tuple[ModuleType, ...] = (
    nsight.sqlite,
    nsight.parquet,
    nsight.report_file,
    chrome,
)
"""Every importer, asked in this order. A new format is one line here."""

_TRACE_NAMES = (".json", ".json.gz", ".sqlite", ".nsys-rep", ".qdrep", ".parquetdir")
_READS = "read are: PyTorch profiler JSON(.gz), Nsight Systems .nsys-rep, .sqlite and .parquetdir"


def find_inputs(paths: Sequence[str | Path]) -> list[Path]:
    """Expand what a user gave into files to read, without duplicates, in a stable order.

    A folder stands for the traces in it and below it; files of other kinds in a folder are passed
    over. A file that is named stays in the list whatever it is, so that reading it can say what is
    wrong.

    Raises:
        InputError: if a path does not exist or a folder holds no trace.
        UsageError: if nothing is given.
    """
    if not paths or not all(str(path) for path in paths):
        raise UsageError("no trace given", hint=_READS)
    found: dict[Path, Path] = {}
    for given in paths:
        for path in _expand(given):
            found.setdefault(path.resolve(), path)
    return list(found.values())


def passed_over(paths: Sequence[str | Path], found: Sequence[Path]) -> list[str]:
    """Say which files of the given folders look like traces by name but are not read, and why."""
    read = {path.resolve() for path in found}
    remarks = []
    for folder in (Path(path) for path in paths):
        if not folder.is_dir() or folder.resolve() in read:
            continue
        for path in sorted(folder.rglob("*")):
            inside = any(parent.resolve() in read for parent in path.parents)
            if path.name.endswith(_TRACE_NAMES) and path.resolve() not in read and not inside:
                try:
                    importer_of(path)
                except InputError as error:
                    remarks.append(f"passed over: {error.message}")
    return remarks


def _expand(given: str | Path) -> list[Path]:
    path = Path(given)
    try:
        if path.is_dir() and recognize(path) is None:
            inside = [item for item in sorted(path.rglob("*")) if _is_trace(item)]
            if not inside:
                raise InputError(f"{path}: no trace in this folder", hint=_READS)
            return inside
        if path.exists():
            return [path]
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    matches = sorted(glob.glob(str(given), recursive=True))  # noqa: PTH207 - absolute globs too
    matches = [match for match in matches if Path(match).exists()]
    if not matches:
        raise InputError(f"{given}: no such file", hint="check the path")
    return [path for match in matches for path in _expand(match)]


def _is_trace(path: Path) -> bool:
    if path.suffix == ".parquet" or (path.is_dir() and not any(path.glob("*.parquet"))):
        return False  # parts of an export, not traces of their own
    try:
        return recognize(path) is not None
    except OSError:
        return False


def recognize(path: Path) -> ModuleType | None:
    """Return the importer that reads ``path``, or ``None``."""
    if not path.is_dir() and not path.is_file():
        return None  # a pipe or a device: opening it might never return
    head = b"" if path.is_dir() else head_of(path)
    return next((item for item in IMPORTERS if item.recognizes(path, head)), None)


def importer_of(path: Path) -> tuple[ModuleType, bytes]:
    """Return the importer of a file and the head it was recognised by.

    Raises:
        InputError: if the file is unreadable, empty, or no trace.
    """
    try:
        if not path.is_dir() and not path.is_file():
            raise InputError(f"{path}: neither a file nor a folder")
        head = b"" if path.is_dir() else head_of(path)
        empty = path.is_file() and path.stat().st_size == 0
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    if empty:
        raise InputError(f"{path}: the file is empty", hint="was the profiler stopped too early?")
    for item in IMPORTERS:
        if item.recognizes(path, head):
            return item, head
    raise InputError(f"{path}: {_describe(path, head)}", hint=_READS)


_LOOKS_LIKE = (
    (b"<", "a page of HTML or XML, not a trace (an error page saved instead of the file?)"),
    (b"{", "JSON, but not a trace (no traceEvents, no events with a phase)"),
    (b"[", "JSON, but not a trace (no traceEvents, no events with a phase)"),
    (b"\x1f\x8b", "gzip inside gzip, or a damaged gzip file"),
    (b"PK", "a zip archive: unpack it first"),
    (b"SQLite format 3", "an SQLite database, but not an export of Nsight Systems"),
)


def _describe(path: Path, head: bytes) -> str:
    if path.is_dir():
        return "no trace in this folder"
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if b"ustar" in head[:600]:
        return "a tar archive: unpack it first"
    what = next((what for start, what in _LOOKS_LIKE if text.startswith(start)), None)
    return what or "not a trace of a known kind (byte 0)"
