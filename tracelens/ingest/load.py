"""Read the files of one run into the store and tell how it went."""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from tracelens.errors import AbstainedError, InputError, UsageError
from tracelens.ingest.implausible import drop_implausible
from tracelens.ingest.importer import ImportOptions, Source
from tracelens.ingest.inputs import importer_of
from tracelens.ingest.ranks import assign_ranks
from tracelens.store import Store

_HASH_BLOCK = 1 << 20


def load(
    paths: Sequence[Path],
    store: Store,
    options: ImportOptions | None = None,
    *,
    rank_pattern: str | None = None,
) -> None:
    """Read every file of a run.

    Raises:
        InputError: if a file cannot be read.
        AbstainedError: if the files parse but hold no GPU work.
        ExternalToolError: if a report needs nsys and nsys cannot be used.
        UsageError: if two files are the same rank.
    """
    found = [importer_of(path) for path in paths]
    _one_profiler(paths, found)
    seen: dict[str, Path] = {}
    for number, (path, (importer, head)) in enumerate(zip(paths, found, strict=True)):
        digest = _sha256(path)
        if digest in seen:
            raise UsageError(
                f"{path}: the same content as {seen[digest]}", hint="give each trace once"
            )
        seen[digest] = path
        store.append(
            "input",
            {
                "input": [number],
                "path": [os.fsencode(path).decode("utf-8", "backslashreplace")],
                "format": [importer.FORMAT],
                "sha256": [digest],
                "bytes": [_size_bytes(path)],
            },
        )
        try:
            importer.read(Source(path, number, head, options or ImportOptions()), store)
        except OSError as error:
            raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    # Copies alone are no work to attribute: where kernels ran unseen, all else would be fiction.
    if not store.scalar("SELECT count(*) FROM raw.activity WHERE kind IN ('kernel', 'graph')"):
        raise AbstainedError(_nothing(store, paths), hint=_WHAT_TO_RECORD)
    drop_implausible(store)
    assign_ranks(store, rank_pattern)


def _one_profiler(paths: Sequence[Path], found: Sequence[tuple[ModuleType, bytes]]) -> None:
    """Refuse a mixture: the same run as two profilers saw it would count every GPU twice."""
    first: dict[bool, Path] = {}
    for path, (importer, _) in zip(paths, found, strict=True):
        first.setdefault(importer.FORMAT.startswith("nsys"), path)
    if len(first) > 1:
        raise UsageError(
            f"traces of two profilers: {first[False]} and {first[True]}",
            hint="give those of one profiler; several files are the ranks of one run",
        )


_WHAT_TO_RECORD = (
    "record kernels: torch.profiler with ProfilerActivity.CUDA, or nsys profile --trace=cuda,nvtx"
)


def _nothing(store: Store, paths: Sequence[Path]) -> str:
    held = []
    for table, what in (
        ("activity", "copies and memsets"),
        ("host_call", "CUDA calls"),
        ("op", "operators"),
        ("range", "annotations"),
    ):
        count = store.scalar(f"SELECT count(*) FROM raw.{table}")
        if count:
            held.append(f"{count:,} {what}")
    damage = [
        f"{count:,} × {reason}"
        for reason, count in store.rows(
            "SELECT reason, sum(count)::BIGINT FROM raw.damage "
            "GROUP BY reason ORDER BY 2 DESC, reason LIMIT 3"
        )
    ]
    notes = [text for (text,) in store.rows("SELECT DISTINCT text FROM raw.note LIMIT 3")]
    where = paths[0] if len(paths) == 1 else f"{len(paths)} files"
    what = f"it holds {', '.join(held)}" if held else "it holds metadata only"
    return "; ".join([f"{where}: no kernels in this trace: {what}", *damage, *notes])


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if path.is_dir():
            digest.update(file.name.encode())
        if not file.is_file():
            continue
        with file.open("rb") as stream:
            while block := stream.read(_HASH_BLOCK):
                digest.update(block)
    return digest.hexdigest()


def _size_bytes(path: Path) -> int:
    if path.is_dir():
        return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    return path.stat().st_size
