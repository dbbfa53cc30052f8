"""Which streams waited for which, as far as the profiler recorded it?

These rows look like GPU intervals but are none; they are kept as evidence for idle time.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tracelens.ingest.nsight import schema
from tracelens.ingest.nsight.identity import NOWHERE
from tracelens.ingest.nsight.reading import Reading
from tracelens.ingest.nsight.tables import Batch, Ints

_NONE = -1


@dataclass(frozen=True)
class _Records:
    """Calls of cudaEventRecord, sorted by (process, event, correlation)."""

    pid: Ints
    handle: Ints
    stream: Ints
    correlation: Ints
    by_record: bool  # the handle names one record; otherwise a reusable event


def read_waits(reading: Reading) -> None:
    """Append the waits of streams for events of other streams."""
    records = _records(reading)
    for batch in reading.batches(schema.SYNCHRONIZATION, schema.WAIT_COLUMNS):
        waits = batch.where(batch.ints("syncType") == schema.STREAM_WAIT)
        waits = reading.screen.timed(waits, schema.SYNCHRONIZATION)
        if len(waits):
            _append(reading, waits, records)


def _append(reading: Reading, batch: Batch, records: _Records) -> None:
    pids = batch.ints("globalPid")
    gpus = reading.identity.gpus_of_contexts(pids, batch.ints("contextId"))
    stream, correlation = _recorded_by(batch, records)
    reading.store.append(
        "stream_wait",
        {
            "gpu": _nullable(gpus, NOWHERE),
            "process": reading.identity.processes(pids),
            "stream": _nullable(batch.ints("streamId", schema.NO_HANDLE), schema.NO_HANDLE),
            "wait_on_stream": _nullable(stream, _NONE),
            "record_correlation": _nullable(correlation, _NONE),
            "start_ns": batch.columns["start"],
            "end_ns": batch.columns["end"],
            "correlation": batch.columns["correlationId"],
        },
    )


def _records(reading: Reading) -> _Records:
    by_record = "eventSyncId" in reading.tables.columns(schema.CUDA_EVENT) & reading.tables.columns(
        schema.SYNCHRONIZATION
    )
    handle = "eventSyncId" if by_record else "eventId"
    names = ("globalPid", handle, "correlationId", "streamId")
    parts = [
        np.stack([batch.ints(name, _NONE) for name in names])
        for batch in reading.batches(schema.CUDA_EVENT, schema.RECORD_COLUMNS)
    ]
    rows = np.concatenate([np.empty((len(names), 0), np.int64), *parts], axis=1)
    rows = rows[:, np.lexsort((rows[2], rows[1], rows[0]))]
    return _Records(rows[0], rows[1], stream=rows[3], correlation=rows[2], by_record=by_record)


def _recorded_by(batch: Batch, records: _Records) -> tuple[Ints, Ints]:
    """Return stream and correlation of the record that each wait is for; ``_NONE`` if unknown.

    An event is a handle that programs reuse: the record meant is the last one before the wait in
    the order of calls, which correlation ids of one process follow.
    """
    handle = batch.ints("eventSyncId" if records.by_record else "eventId", schema.NO_HANDLE)
    at = _last_before(records, batch.ints("globalPid"), handle, batch.ints("correlationId"))
    known = (at >= 0) & (handle != schema.NO_HANDLE)
    at = np.where(known, at, 0)
    if not len(records.pid):
        nothing = np.full(len(batch), _NONE, np.int64)
        return nothing, nothing
    return (
        np.where(known, records.stream[at], _NONE),
        np.where(known, records.correlation[at], _NONE),
    )


def _last_before(records: _Records, pids: Ints, handles: Ints, correlations: Ints) -> Ints:
    keys = list(zip(records.pid.tolist(), records.handle.tolist(), strict=True))
    first: dict[tuple[int, int], int] = {}
    last: dict[tuple[int, int], int] = {}
    for at, key in enumerate(keys):
        first.setdefault(key, at)
        last[key] = at + 1
    found = np.full(len(pids), _NONE, np.int64)
    waits = zip(pids.tolist(), handles.tolist(), correlations.tolist(), strict=True)
    for number, (pid, handle, correlation) in enumerate(waits):
        begin, end = first.get((pid, handle), 0), last.get((pid, handle), 0)
        place = begin + int(np.searchsorted(records.correlation[begin:end], correlation))
        found[number] = place - 1 if place > begin else _NONE
    return found


def _nullable(values: Ints, missing: int) -> object:
    return pa.array(values, pa.int64(), mask=values == missing)
