"""Which files, GPUs and ranks does the answer speak about?"""

import hashlib
from pathlib import PurePath
from typing import Any

from tracelens.store import Store

_TRACE_SUFFIXES = {".gz", ".json", ".pt", ".trace", ".sqlite", ".nsys-rep", ".qdrep", ".parquetdir"}
_ID_DIGITS = 12


def inputs(store: Store) -> list[dict[str, Any]]:
    """Return the files read, in reading order; ``rank`` is null for a file with several."""
    rank_of: dict[str, list[int]] = {}
    for path, rank in store.rows("SELECT path, rank FROM rank ORDER BY path, rank"):
        rank_of.setdefault(path, []).append(rank)
    rows = store.records("SELECT path, format, sha256, bytes, producer FROM input ORDER BY input")
    for row in rows:
        ranks = rank_of.get(row["path"], [])
        row["rank"] = ranks[0] if len(ranks) == 1 else None
    names = ("path", "format", "sha256", "bytes", "rank", "producer")
    return [{name: row[name] for name in names} for row in rows]


def run(store: Store) -> dict[str, Any]:
    """Return who ran: a stable id, a name, when, the ranks seen and the devices.

    Formats tell the start with different precision: all are cut to seconds, UTC.
    """
    ranks = [rank for (rank,) in store.rows("SELECT DISTINCT rank FROM rank ORDER BY rank")]
    devices = store.rows(
        "SELECT DISTINCT device_name FROM rank WHERE device_name IS NOT NULL ORDER BY device_name"
    )
    alignment = store.result("clock_alignment") or {}
    return {
        "id": _run_id(store),
        "name": _run_name(store),
        "started_at": store.scalar("SELECT min(left(started_at, 19)) || 'Z' FROM input"),
        "world_size": _world_size(store),
        "ranks": ranks,
        "devices": [name for (name,) in devices],
        "clock_alignment": {
            "method": alignment.get("method"),
            "epsilon_ns": alignment.get("epsilon_ns"),
        },
    }


def _world_size(store: Store) -> int | None:
    """Return the GPUs of the job: what the FLOPs stage took it to be, else what the trace says."""
    taken: int | None = (store.result("workload") or {}).get("world_size")
    recorded: int | None = store.scalar("SELECT max(world_size) FROM raw.process")
    return taken or recorded


def _run_id(store: Store) -> str:
    """Hash the contents, not the paths: the same files are the same run wherever they lie."""
    hashes = store.rows("SELECT coalesce(sha256, '') FROM input ORDER BY sha256")
    digest = hashlib.sha256("\n".join(text for (text,) in hashes).encode())
    return digest.hexdigest()[:_ID_DIGITS]


def _run_name(store: Store) -> str | None:
    given: str | None = store.scalar("SELECT value FROM raw.meta WHERE key = 'run_name'")
    paths = [PurePath(path) for (path,) in store.rows("SELECT path FROM input ORDER BY input")]
    if given or not paths:
        return given
    if len(paths) > 1:
        return paths[0].parent.name or paths[0].name
    name = paths[0]
    while name.suffix in _TRACE_SUFFIXES and name.stem:
        name = name.with_suffix("")
    return name.name
