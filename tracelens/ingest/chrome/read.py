"""Read one Chrome trace into the raw tables.

A file holds one process; its GPU is the one named by the kernels, not by the device list, which
names every GPU of the node. Timestamps are microseconds whatever ``displayTimeUnit`` says.
"""

import datetime
import re
from pathlib import Path
from typing import Any

from tracelens.errors import InputError
from tracelens.ingest.chrome.event import Args, Event, as_int, as_text
from tracelens.ingest.chrome.rows import RowWriter
from tracelens.ingest.chrome.source_bytes import ByteStream
from tracelens.ingest.chrome.split import TraceReader
from tracelens.ingest.damage import Damage
from tracelens.ingest.importer import Source
from tracelens.store import Store
from tracelens.units import NS_PER_S

FORMAT = "kineto"
_EVENT_KEYS = re.compile(rb'"(?:traceEvents|ph|schemaVersion|deviceProperties)"\s*:')
_YEAR_2015_NS = 1_420_070_400 * NS_PER_S
_FOREIGN = {  # text in a process name -> what wrote the trace
    "/device:": "a JAX/XLA trace",
    "Ascend Hardware": "an Ascend trace",
}


def recognizes(_path: Path, head: bytes) -> bool:
    """Tell whether this is JSON with the keys of a Chrome trace; a name proves nothing."""
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    return text[:1] in (b"{", b"[") and _EVENT_KEYS.search(text) is not None


def read(source: Source, store: Store) -> None:
    """Read the file.

    Raises:
        InputError: if it holds no event list, or is a trace of a kind that is not read.
    """
    damage = Damage()
    process = store.next_row("process", "process")
    stream = ByteStream(source.path, damage)
    reader = TraceReader(stream, damage)
    writer = RowWriter(store, process, damage, with_stacks=source.options.with_stacks)
    events_read = 0
    foreign: str | None = None
    total_bytes = source.path.stat().st_size
    with store.transaction():
        for batch in reader.batches():
            events_read += len(batch)
            for event in batch:
                if event.ph == "M":
                    foreign = foreign or _foreign(event)
                else:
                    writer.add(event)
            source.options.progress(stream.read_bytes, total_bytes)
        if not reader.found_events:
            raise InputError(
                f"{source.path}: JSON, but without a list of trace events",
                hint="give a trace written by torch.profiler (export_chrome_trace)",
            )
        writer.finish()
        if foreign and not writer.devices:
            raise InputError(
                f"{source.path}: {foreign}, which is not read yet",
                hint="traces of PyTorch (Kineto) and of Nsight Systems are read",
            )
        _write_file_rows(source, store, process, reader, writer)
        if not writer.devices and writer.categories:
            listed = ", ".join(sorted(writer.categories))
            text = [f"no kernels among the event categories of the file: {listed}"]
            store.append("note", {"input": [source.input], "severity": ["info"], "text": text})
        damage.write(store, source.input)
        store.execute(
            "UPDATE raw.input SET events_read = ?, truncated = ? WHERE input = ?",
            [events_read, reader.truncated, source.input],
        )


def _foreign(event: Event) -> str | None:
    args = event.args or Args()
    text = as_text(args.name) or ""
    if event.name == "process_name":
        return next((what for sign, what in _FOREIGN.items() if sign in text), None)
    return None


def _write_file_rows(
    source: Source, store: Store, process: int, reader: TraceReader, writer: RowWriter
) -> None:
    header = reader.header
    base_ns = as_int(header.get("baseTimeNanoseconds")) or 0
    started_ns = base_ns + (writer.first_ns or 0)
    started_at = None
    if started_ns > _YEAR_2015_NS:
        moment = datetime.datetime.fromtimestamp(started_ns // NS_PER_S, tz=datetime.UTC)
        started_at = moment.isoformat()
    store.execute(
        "UPDATE raw.input SET producer = ?, base_ns = ?, started_at = ?, resolution_ns = ?, "
        "viewer_zero_ns = ? WHERE input = ?",
        [
            _producer(header),
            base_ns,
            started_at,
            1 if writer.fractional else 1000,
            writer.first_ns or 0,
            source.input,
        ],
    )
    info = header.get("distributedInfo")
    info = info if isinstance(info, dict) else {}
    store.append(
        "process",
        {
            "process": [process],
            "input": [source.input],
            "claimed_rank": [_small(info.get("rank"))],
            "rank_source": ["trace"],
            "world_size": [_small(info.get("world_size"))],
        },
    )
    _describe_groups(store, process, info.get("pg_config"))
    properties = _device_properties(header.get("deviceProperties"))
    for device, gpu in writer.devices.items():
        known = properties.get(device) or _common(properties)
        store.append(
            "gpu",
            {
                "gpu": [gpu],
                "input": [source.input],
                "process": [process],
                "device": [device],
                "device_name": [as_text(known.get("name")) or None],
                "num_sms": [_small(known.get("numSms"))],
            },
        )


def _device_properties(value: Any) -> dict[int, dict[str, Any]]:
    devices: dict[int, dict[str, Any]] = {}
    for entry in value if isinstance(value, list) else []:
        number = as_int(entry.get("id")) if isinstance(entry, dict) else None
        if number is not None:
            devices[number] = entry
    return devices


def _common(properties: dict[int, dict[str, Any]]) -> dict[str, Any]:
    """What all listed devices share, for a device that is not listed.

    Some writers list one device and number kernels by the node (ROCm); a node of one kind of GPU
    leaves no doubt.
    """
    listed = list(properties.values())
    same = {(as_text(item.get("name")), as_int(item.get("numSms"))) for item in listed}
    return listed[0] if len(same) == 1 else {}


def _describe_groups(store: Store, process: int, config: Any) -> None:
    """Fill descriptions of process groups that kernels leave out from the list in the header."""
    found = {}
    for entry in config if isinstance(config, list) else []:
        if isinstance(entry, dict) and isinstance(entry.get("pg_desc"), str):
            found[as_text(entry.get("pg_name"))] = as_text(entry["pg_desc"])
    for name, description in found.items():
        store.execute(
            "UPDATE raw.collective SET group_desc = $description "
            "WHERE group_desc IS NULL AND group_name = $name AND (activity_id IN "
            "(SELECT activity_id FROM raw.activity WHERE process = $process) OR op_id IN "
            "(SELECT op_id FROM raw.op WHERE process = $process))",
            {"description": description, "name": name, "process": process},
        )


def _small(value: Any) -> int | None:
    number = as_int(value)
    return number if number is not None and 0 <= number < 2**31 else None


def _producer(header: dict[str, Any]) -> str:
    versions = [
        f"{name} {text}"
        for key, name in (
            ("cuda_runtime_version", "CUDA"),
            ("cupti_version", "CUPTI"),
            ("hip_runtime_version", "HIP"),
        )
        if (text := as_text(header.get(key)))
    ]
    return ", ".join(["PyTorch profiler (Kineto)", *versions])
