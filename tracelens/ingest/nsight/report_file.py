"""Reads reports (.nsys-rep, .qdrep) by exporting them with the user's own nsys, once a report."""

import hashlib
import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

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
    importer = parquet if exported.is_dir() else sqlite
    head = b"" if exported.is_dir() else _head(exported)
    importer.read(replace(source, path=exported, head=head), store)


def _exported(source: Source, nsys: Nsys) -> Path:
    """Return the export of a report, from the cache when this very report was exported before."""
    folder = source.options.cache_dir or _user_cache()
    target = folder / f"{_key(source.path, nsys)}.{nsys.kind}"
    if target.exists():
        return target
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
        _publish(partial, target)
    finally:
        shutil.rmtree(private, ignore_errors=True)
    return target


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
