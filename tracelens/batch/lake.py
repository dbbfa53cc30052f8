"""What is known of every run so far: Parquet files, one set a run, replaced as a whole.

``runs/<id>.parquet`` holds one row; ``leaves/<id>.parquet`` one row a leaf. Any tool reads all of
them at once as ``runs/*.parquet``. The row in ``runs`` is written last: where it is missing or has
another key, the run is not done.
"""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from tracelens.batch.discovery import RunFiles
from tracelens.errors import UsageError

LAKE_VERSION = 1
Status = Literal["ok", "failed", "abstained"]

_EDGE_BYTES = 65_536
_RUN_SCHEMA = pa.schema(
    [
        ("run_id", pa.string()),
        ("name", pa.string()),
        ("paths", pa.list_(pa.string())),
        ("key", pa.string()),
        ("status", pa.string()),
        ("exit_code", pa.int32()),
        ("message", pa.string()),
        ("attributed_at", pa.string()),
        ("started_at", pa.string()),
        ("tracelens_version", pa.string()),
        ("world_size", pa.int64()),
        ("ranks", pa.int64()),
        ("device", pa.string()),
        ("mfu", pa.float64()),
        ("mfu_low", pa.float64()),
        ("hfu", pa.float64()),
        ("mfu_reason", pa.string()),
        ("total_ns", pa.int64()),
    ]
)
_LEAF_SCHEMA = pa.schema([("run_id", pa.string()), ("leaf", pa.string()), ("dur_ns", pa.int64())])


@dataclass(frozen=True)
class RunRow:
    """What the lake keeps of one run; figures are ``None`` where the run has none."""

    run_id: str
    name: str
    paths: tuple[str, ...]
    key: str
    status: Status
    exit_code: int
    message: str
    attributed_at: str
    started_at: str | None = None
    tracelens_version: str | None = None
    world_size: int | None = None
    ranks: int | None = None
    device: str | None = None
    mfu: float | None = None
    mfu_low: float | None = None
    hfu: float | None = None
    mfu_reason: str | None = None
    total_ns: int | None = None


class Lake:
    """A folder of Parquet files; made when it does not exist."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._runs = folder / "runs"
        self._leaves = folder / "leaves"
        try:
            for part in (self._runs, self._leaves):
                part.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(
                f"{folder}: cannot be used as a lake: {error.strerror}",
                hint="give a folder that can be written to",
            ) from error

    def get(self, run_id: str) -> RunRow | None:
        """Return what is known of a run; ``None`` when nothing (or nothing legible) is."""
        try:
            with pq.ParquetFile(self._runs / f"{run_id}.parquet") as file:
                (row,) = file.read().to_pylist()
            return RunRow(**{**row, "paths": tuple(row["paths"])})
        except (OSError, pa.ArrowException, TypeError, ValueError, KeyError):
            return None

    def put(self, row: RunRow, leaves: Mapping[str, int]) -> None:
        """Replace what is known of a run; readers see the old rows or the new ones, never half."""
        names = list(leaves)
        columns = {
            "run_id": [row.run_id] * len(names),
            "leaf": names,
            "dur_ns": [leaves[name] for name in names],
        }
        _replace(self._leaves / f"{row.run_id}.parquet", pa.table(columns, schema=_LEAF_SCHEMA))
        table = pa.Table.from_pylist([asdict(row)], schema=_RUN_SCHEMA)
        _replace(self._runs / f"{row.run_id}.parquet", table)


def run_id(run: RunFiles) -> str:
    """Return the id of a run: the same every night for the same files in the same place."""
    digest = hashlib.sha256()
    for path in run.files:
        digest.update(os.fsencode(path.resolve()) + b"\0")
    return digest.hexdigest()[:16]


def run_key(run: RunFiles, options: Mapping[str, Any], version: str) -> str | None:
    """Return a digest of what a result depends on: files, options, version.

    It is ``None`` where a file cannot be read. Of a file it takes size, time of change, and both
    ends: reading a night of traces whole only to see that nothing changed would take as long as
    the work.
    """
    digest = hashlib.sha256()
    settings = {"lake": LAKE_VERSION, "version": version, "options": dict(options)}
    digest.update(json.dumps(settings, sort_keys=True, default=str).encode())
    try:
        for path in run.files:
            digest.update(b"\0" + os.fsencode(path.name) + _fingerprint(path))
    except OSError:
        return None
    return digest.hexdigest()


def paths_as_text(files: Sequence[Path]) -> tuple[str, ...]:
    """Return paths as text; bytes of a name that are no text are shown as such."""
    return tuple(os.fsencode(path).decode("utf-8", errors="replace") for path in files)


def _fingerprint(path: Path) -> bytes:
    if path.is_dir():
        inside = sorted(entry for entry in path.rglob("*") if entry.is_file())
        return b"".join(
            os.fsencode(entry.relative_to(path)) + _fingerprint(entry) for entry in inside
        )
    stat = path.stat()
    with path.open("rb") as file:
        ends = file.read(_EDGE_BYTES)
        if stat.st_size > _EDGE_BYTES:
            file.seek(-_EDGE_BYTES, os.SEEK_END)
            ends += file.read(_EDGE_BYTES)
    return f"|{stat.st_size}|{stat.st_mtime_ns}|".encode() + hashlib.sha256(ends).digest()


def _replace(path: Path, table: pa.Table) -> None:
    # In the same folder, so that the rename cannot cross file systems; hidden from "*.parquet".
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        pq.write_table(table, part)
        part.replace(path)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror or error}") from error
    finally:
        part.unlink(missing_ok=True)
