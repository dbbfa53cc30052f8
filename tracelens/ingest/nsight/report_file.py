"""Reads reports (.nsys-rep, .qdrep) by exporting them with the user's own nsys, once a report."""

import hashlib
import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from tracelens.errors import ExternalToolError, InputError
from tracelens.ingest.importer import HEAD_BYTES, Source
from tracelens.ingest.nsight import parquet, sqlite
from tracelens.ingest.nsight.nsys import Nsys, export, find_nsys
from tracelens.ingest.nsight.report_header import REPORT_MAGIC, STREAM_MAGIC, read_header
from tracelens.store import Store

FORMAT = "nsys-rep"
_SAMPLE_BYTES = 1 << 20


def recognizes(path: Path, head: bytes) -> bool:  # noqa: ARG001
    """Tell whether a file is a report, or the raw stream that a report is made from."""
    return head.startswith((REPORT_MAGIC, STREAM_MAGIC))


def read(source: Source, store: Store) -> None:
    """Export a report, or take an export made earlier, and append its rows.

    Raises:
        InputError: if the report is incomplete or still a raw stream.
        ExternalToolError: if nsys is missing, older than the report, or fails.
    """
    if source.head.startswith(STREAM_MAGIC):
        raise InputError(
            f"{source.path}: a raw stream that was not turned into a report",
            hint="run QdstrmImporter (it comes with Nsight Systems) on it, then read its .nsys-rep",
        )
    header = read_header(source.path, source.head)
    if not header.whole:
        raise InputError(
            f"{source.path}: the report ends early, at byte {header.size_bytes}",
            hint="copy it again; if nsys was stopped while writing it, capture again",
        )
    nsys = find_nsys(source.options.nsys, header.version)
    exported = _exported(source, nsys)
    importer, head = _importer(exported)
    try:
        importer.read(replace(source, path=exported, head=head), store)
    except InputError as error:
        _drop(exported)
        raise _useless(source.path, error.message) from error


def _exported(source: Source, nsys: Nsys) -> Path:
    """Return the export of a report, from the cache when this very report was exported before."""
    folder = source.options.cache_dir or _user_cache()
    target = folder / f"{_key(source.path, nsys)}.{nsys.kind}"
    if os.path.lexists(target):
        if _fault(target) is None:
            return target
        _drop(target)
    try:
        # An export holds what the report does, command lines included: for its owner alone.
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        private = Path(tempfile.mkdtemp(prefix="export-", dir=folder))
    except OSError as error:
        raise ExternalToolError(
            f"{folder}: exports cannot be kept here: {error.strerror}",
            hint="choose a cache folder that can be written",
        ) from error
    try:
        partial = private / f"export.{nsys.kind}"
        export(nsys, source.path, partial)
        fault = _fault(partial)
        if fault is not None:
            raise _useless(source.path, fault)
        _publish(partial, target)
    finally:
        shutil.rmtree(private, ignore_errors=True)
    return target


def _importer(exported: Path) -> tuple[ModuleType, bytes]:
    return (parquet, b"") if exported.is_dir() else (sqlite, _head(exported))


def _fault(exported: Path) -> str | None:
    """Say why an export cannot be read; ``None`` when nothing speaks against it."""
    if exported.is_symlink() or not (exported.is_dir() or exported.is_file()):
        return "it is neither a file nor a folder"
    try:
        importer, head = _importer(exported)
        if not importer.recognizes(exported, head):
            return "it holds no table of a trace"
        importer.verify(exported, head)
    except InputError as error:
        return error.message
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    return None


def _useless(report: Path, fault: str) -> ExternalToolError:
    return ExternalToolError(
        f"{report}: nsys export reported success, but what it wrote is of no use: {fault}",
        hint="the report may be empty or damaged; open it in nsys-ui to see, then run this again",
    )


def _drop(exported: Path) -> None:
    try:
        if exported.is_dir() and not exported.is_symlink():
            shutil.rmtree(exported)
        else:
            exported.unlink(missing_ok=True)
    except OSError as error:
        raise ExternalToolError(
            f"{exported}: an export that is of no use cannot be removed: {error.strerror}",
            hint="remove it, or choose another cache folder",
        ) from error


def _publish(partial: Path, target: Path) -> None:
    try:
        partial.rename(target)
    except OSError:
        # Another process exported the same report meanwhile; its export is as good.
        if not target.exists():
            raise


def _key(path: Path, nsys: Nsys) -> str:
    state = path.stat()
    facts = [str(state.st_size), str(state.st_mtime_ns), repr(nsys.version), *nsys.flags]
    digest = hashlib.sha256("\0".join(facts).encode())
    with path.open("rb") as file:
        digest.update(file.read(_SAMPLE_BYTES))
        file.seek(max(0, state.st_size - _SAMPLE_BYTES))
        digest.update(file.read(_SAMPLE_BYTES))
    return digest.hexdigest()[:32]


def _user_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tracelens" / "nsys"


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(HEAD_BYTES)
