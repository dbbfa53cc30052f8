"""What ran on the GPUs: kernels, copies, memsets, and CUDA graphs that were traced as one row."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tracelens.ingest.nsight import schema
from tracelens.ingest.nsight.names import Names
from tracelens.ingest.nsight.reading import Reading
from tracelens.ingest.nsight.screening import LONGEST_ACTIVITY_NS
from tracelens.ingest.nsight.tables import Batch, distinct_rows, small_column

NO_STREAM = -1
_AXES = ("x", "y", "z")
Columns = dict[str, Any]


def read_activities(reading: Reading) -> None:
    """Append all GPU work of an export."""
    names = Names(reading.tables, reading.store)
    there = reading.tables.columns(schema.KERNEL)
    name = next((name for name in schema.KERNEL_NAMES if name in there), schema.KERNEL_NAMES[0])
    kernel_columns = (*schema.KERNEL_COLUMNS, name)
    _read(reading, schema.KERNEL, kernel_columns, lambda batch: _kernels(batch, name, names))
    _read(reading, schema.MEMCPY, schema.MEMCPY_COLUMNS, lambda batch: _copies(batch, names))
    _read(reading, schema.MEMSET, schema.MEMSET_COLUMNS, lambda batch: _memsets(batch, names))
    _read(reading, schema.GRAPH_TRACE, schema.GRAPH_COLUMNS, lambda batch: _graphs(batch, names))


def _read(
    reading: Reading, table: str, columns: tuple[str, ...], own: Callable[[Batch], Columns]
) -> None:
    for found in reading.batches(table, columns):
        batch = reading.screen.timed(found, table, longest_ns=LONGEST_ACTIVITY_NS)
        devices = batch.ints("deviceId", -1)
        lost = ~batch.present("globalPid") | (devices < 0) | (devices >= 2**31)
        batch = reading.screen.drop(batch, lost, f"{table}: no process or device")
        if table == schema.MEMCPY:
            on_host = batch.ints("copyKind") == schema.HOST_TO_HOST
            batch = reading.screen.drop(batch, on_host, f"{table}: host to host, no GPU work")
        if len(batch):
            reading.store.append("activity", _common(reading, batch) | own(batch))


def _common(reading: Reading, batch: Batch) -> Columns:
    return {
        "gpu": reading.identity.gpus(batch),
        "process": reading.identity.processes(batch.ints("globalPid")),
        # All work of unknown stream is taken for one stream: later stages compare streams.
        "stream": batch.ints("streamId", NO_STREAM),
        "start_ns": batch.columns["start"],
        "end_ns": batch.columns["end"],
        "correlation": batch.columns["correlationId"],
    }


def _kernels(batch: Batch, name: str, names: Names) -> Columns:
    columns = batch.columns
    sizes = {
        f"{what}_{axis}": small_column(columns[f"{what}{axis.upper()}"])
        for what in ("grid", "block")
        for axis in _AXES
    }
    return {
        "kind": pa.repeat("kernel", len(batch)),
        "name_id": names.of_ids(columns[name]),
        "graph_node": columns["graphNodeId"],
        **sizes,
    }


def _copies(batch: Batch, names: Names) -> Columns:
    found, codes = distinct_rows(
        batch.ints("copyKind"), batch.ints("srcKind", -1), batch.ints("dstKind", -1)
    )
    kinds = pa.array([_copy_kind(kind) for kind, _, _ in found], pa.string()).take(codes)
    # A copy between two devices of one process is written as device to device by old drivers.
    apart = batch.present("srcDeviceId") & batch.present("dstDeviceId")
    apart &= batch.ints("srcDeviceId") != batch.ints("dstDeviceId")
    peer = pc.and_(pa.array(apart), pc.fill_null(pc.equal(kinds, "d2d"), False))
    return {
        "kind": pa.repeat("memcpy", len(batch)),
        "name_id": names.of_texts(pa.array([_copy_name(*key) for key in found]).take(codes)),
        "copy_kind": pc.if_else(peer, "p2p", kinds),
        "graph_node": batch.columns["graphNodeId"],
        "bytes": batch.columns["bytes"],
    }


def _copy_kind(kind: int) -> str | None:
    return schema.COPY_KINDS[kind][0] if kind in schema.COPY_KINDS else None


def _copy_name(kind: int, source: int, target: int) -> str:
    what = schema.COPY_KINDS[kind][1] if kind in schema.COPY_KINDS else "Unknown"
    places = [schema.MEMORY_KINDS.get(place, "Unknown") for place in (source, target)]
    return f"Memcpy {what} ({places[0]} -> {places[1]})"


def _memsets(batch: Batch, names: Names) -> Columns:
    found, codes = distinct_rows(batch.ints("memKind", -1))
    texts = [f"Memset ({schema.MEMORY_KINDS.get(kind, 'Unknown')})" for (kind,) in found]
    return {
        "kind": pa.repeat("memset", len(batch)),
        "name_id": names.of_texts(pa.array(texts).take(codes)),
        "graph_node": batch.columns["graphNodeId"],
        "bytes": batch.columns["bytes"],
    }


def _graphs(batch: Batch, names: Names) -> Columns:
    found, codes = distinct_rows(batch.ints("graphId", -1))
    texts = ["CUDA graph" if graph < 0 else f"CUDA graph {graph}" for (graph,) in found]
    return {
        "kind": pa.repeat("graph", len(batch)),
        "name_id": names.of_texts(pa.array(texts).take(codes)),
    }
