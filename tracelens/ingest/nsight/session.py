"""On which clock does an export run, what wrote it, and which ranks does it name?"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from tracelens.ingest.nsight import schema
from tracelens.ingest.nsight.tables import Tables, small
from tracelens.units import NS_PER_S

_PRODUCT, _SCHEMA = "EXPORT_PRODUCT_VERSION", "EXPORT_SCHEMA_VERSION"
_NORMALIZED, _SHIFT = "EXPORT_PARAM_TIME_NORMALIZE", "EXPORT_PARAM_TIME_SHIFT"
_GRAPH_MODE = "CUDA_GRAPH_TRACE_OPTIONS:MODE"
_RANK_VARIABLES = ("RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID")
_LATEST_NS = 2**62  # the year 2116: sums of two such times still fit 64 bits
_SIZE_VARIABLES = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE")


@dataclass(frozen=True)
class Session:
    """Facts that hold for all rows of an export.

    Attributes:
        producer: program and versions, as far as recorded.
        base_ns: what to add to a time of the export to get UTC; ``None`` when not recorded.
        started_at: UTC of the session's start, ISO 8601.
        zero_ns: the session's start on the clock of the rows.
        end_ns: the session's end on the clock of the rows.
        graph_mode: how CUDA graphs were traced: ``Graph``, ``Node``, or ``None`` when not recorded.
    """

    producer: str
    base_ns: int | None
    started_at: str | None
    zero_ns: int
    end_ns: int | None
    graph_mode: str | None


@dataclass(frozen=True)
class LaunchedRank:
    """What the environment of the launched program says of its rank; nothing else of it is read."""

    rank: int | None
    rank_source: str | None
    world_size: int | None


def read_session(tables: Tables) -> Session:
    """Read the facts that hold for the whole export."""
    settings = _export_settings(tables)
    utc_ns = _first(tables, schema.SESSION_START, "utcEpochNs")
    duration_ns = _first(tables, schema.ANALYSIS, "duration")
    # A normalised export has UTC in its rows already, and the start time is left as it was.
    normalized = settings.get(_NORMALIZED, "").lower() == "true"
    zero_ns = _integer(settings.get(_SHIFT)) + (utc_ns or 0 if normalized else 0)
    return Session(
        producer=_producer(settings),
        base_ns=0 if normalized else utc_ns,
        started_at=None if utc_ns is None else _iso(utc_ns),
        zero_ns=zero_ns,
        end_ns=None if duration_ns is None else zero_ns + duration_ns,
        graph_mode=_graph_mode(tables),
    )


def launched_rank(tables: Tables) -> LaunchedRank:
    """Read the rank that the launcher gave to the program that nsys started.

    The variables belong to the launched program, so they name a rank only when the report holds one
    process that used a GPU; the caller knows that.
    """
    found: dict[str, set[int]] = {}
    for setting in tables.launch_variables((*_RANK_VARIABLES, *_SIZE_VARIABLES)):
        name, _, value = setting.partition("=")
        if re.fullmatch(r'"?\d{1,7}"?', value):
            found.setdefault(name, set()).add(int(value.strip('"')))
    source = next((name for name in _RANK_VARIABLES if name in found), None)
    rank = None if source is None else _only(found[source])
    sizes = [_only(found[size]) for size in _SIZE_VARIABLES if size in found]
    return LaunchedRank(
        rank=rank,
        rank_source=None if rank is None else f"environment variable {source}",
        world_size=sizes[0] if sizes else None,
    )


def mpi_ranks(tables: Tables) -> dict[int, int]:
    """Return the MPI rank of each process (by globalPid) that the export names one for."""
    ranks: dict[int, int] = {}
    for batch in tables.batches(schema.MPI_RANKS, ("globalTid", "rank")):
        for tid, rank in zip(batch.ints("globalTid"), batch.ints("rank", -1), strict=True):
            if small(int(rank)) is not None:
                ranks[int(tid) & ~0xFFFFFF] = int(rank)
    return ranks


def _only(values: set[int]) -> int | None:
    return next(iter(values)) if len(values) == 1 else None


def _export_settings(tables: Tables) -> dict[str, str]:
    keys = (_PRODUCT, _SCHEMA, _NORMALIZED, _SHIFT)
    return {
        name: value
        for table in schema.EXPORT_SETTINGS
        for name, value in tables.settings(table, keys)
    }


def _graph_mode(tables: Tables) -> str | None:
    keys = (_GRAPH_MODE, f"PROCESS_0:{_GRAPH_MODE}")  # the prefix went away in schema 3.24.14
    modes = {value for _, value in tables.settings(schema.CAPTURE_SETTINGS, keys)}
    known = modes & {"Graph", "Node"}
    return known.pop() if len(known) == 1 else None


def _producer(settings: Mapping[str, str]) -> str:
    # Only digits and dots are copied: the file is not trusted to be honest about its own version.
    product = re.fullmatch(r"[\d.]{1,30}", settings.get(_PRODUCT, ""))
    version = re.fullmatch(r"[\d.]{1,30}", settings.get(_SCHEMA, ""))
    text = "Nsight Systems"
    text += f" {product[0]}" if product else " (version not recorded)"
    return text + (f", schema {version[0]}" if version else "")


def _first(tables: Tables, table: str, column: str) -> int | None:
    for batch in tables.batches(table, (column,)):
        value = int(batch.ints(column, -1)[0])
        return value if 0 <= value < _LATEST_NS else None
    return None


def _integer(text: str | None) -> int:
    return int(text) if text is not None and re.fullmatch(r"-?\d{1,18}", text) else 0


def _iso(utc_ns: int) -> str | None:
    seconds, nanoseconds = divmod(utc_ns, NS_PER_S)
    try:
        moment = datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return None
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{nanoseconds:09d}Z"
