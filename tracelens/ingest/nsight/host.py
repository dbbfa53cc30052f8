"""What the host did: calls into CUDA and the operating system, and the profiler's own overhead."""

import re

import numpy as np
import pyarrow as pa

from tracelens.ingest.nsight import schema
from tracelens.ingest.nsight.hardware import process_part
from tracelens.ingest.nsight.names import Names
from tracelens.ingest.nsight.reading import Reading
from tracelens.ingest.nsight.tables import Batch, Mask, distinct_rows

_INTERFACE_VERSION = re.compile(r"_v\d{4,5}$")


def plain_call(name: str) -> str:
    """Return the name of a runtime call as the API spells it: ``cudaMalloc_v3020``, cudaMalloc."""
    return _INTERFACE_VERSION.sub("", name) if name.startswith("cuda") else name


def read_calls(reading: Reading) -> None:
    """Append the calls into CUDA, then those into the operating system by the same processes."""
    names = Names(reading.tables, reading.store, plain_call)
    for batch in reading.batches(schema.RUNTIME, schema.CALL_COLUMNS):
        timed = reading.screen.timed(batch, schema.RUNTIME)
        driver = timed.ints("eventClass") == schema.DRIVER_CLASS
        kinds = pa.array(["runtime", "driver"]).take(pa.array(driver.astype(np.int8)))
        _append_calls(reading, timed, kinds, names)
    for batch in reading.batches(schema.OSRT, schema.CALL_COLUMNS):
        call = batch.ints("eventClass", schema.OS_CALL_CLASS) == schema.OS_CALL_CLASS
        timed = reading.screen.timed(batch.where(call & _known(reading, batch)), schema.OSRT)
        _append_calls(reading, timed, pa.repeat("os", len(timed)), names)


def read_overheads(reading: Reading) -> None:
    """Append what the profiler, and CUDA on its behalf, cost the host."""
    names = Names(reading.tables, reading.store)
    for table in (schema.PROFILER_OVERHEAD, schema.CUPTI_OVERHEAD):
        for batch in reading.batches(table, schema.OVERHEAD_COLUMNS):
            timed = reading.screen.timed(batch.where(_known(reading, batch)), table)
            if not len(timed):
                continue
            tids = timed.ints("globalTid")
            reading.store.append(
                "overhead",
                {
                    "process": reading.identity.processes(tids),
                    "thread": reading.identity.threads(tids),
                    "name_id": _overhead_names(timed, names),
                    "start_ns": timed.columns["start"],
                    "end_ns": timed.columns["end"],
                },
            )


def _append_calls(reading: Reading, batch: Batch, kinds: object, names: Names) -> None:
    if not len(batch):
        return
    tids = batch.ints("globalTid")
    reading.store.append(
        "host_call",
        {
            "process": reading.identity.processes(tids),
            "thread": reading.identity.threads(tids),
            "kind": kinds,
            "name_id": names.of_ids(batch.columns["nameId"]),
            "start_ns": batch.columns["start"],
            "end_ns": batch.columns["end"],
            "correlation": batch.columns["correlationId"],
        },
    )


def _known(reading: Reading, batch: Batch) -> Mask:
    # Helper processes (shells, compilers, data loaders) block in the OS all the time; what they do
    # explains no idle GPU of another process.
    known = np.array(sorted(reading.identity.known_pids), np.int64)
    mask: Mask = np.isin(process_part(batch.ints("globalTid")), known)
    return mask


def _overhead_names(batch: Batch, names: Names) -> object:
    if batch.present("nameId").all():
        return names.of_ids(batch.columns["nameId"])
    found, codes = distinct_rows(batch.ints("overheadType", -1))
    texts = [schema.OVERHEAD_KINDS.get(kind, "Overhead") for (kind,) in found]
    return names.of_texts(pa.array(texts).take(codes))
