"""The shape of one Chrome-trace event: only the keys that are used, numbers left as text."""

import re
from typing import Any

import msgspec

_ARG_KEYS = {
    "external_id": "External id",
    "external_id_old": "external id",  # torch 1.8
    "sequence": "Sequence number",
    "fwd_thread": "Fwd thread id",
    "input_dims": "Input Dims",
    "input_dims_old": "Input dims",  # torch 1.8
    "input_types": "Input type",
    "concrete_inputs": "Concrete Inputs",
    "graph_node": "graph node id",
    "collective": "Collective name",
    "in_elems": "In msg nelems",
    "out_elems": "Out msg nelems",
    "group_size": "Group size",
    "group_name": "Process Group Name",
    "group_desc": "Process Group Description",
    "group_ranks": "Process Group Ranks",
    "seq": "Seq",
    "wait_record": "wait_on_cuda_event_record_corr_id",
}

_INTEGER = re.compile(r"\s*-?[0-9]{1,20}\s*")
_ABSENT = msgspec.Raw(b"")


class Args(msgspec.Struct, rename=_ARG_KEYS, gc=False):
    """Arguments of an event; every value may have any type, because every type has been seen."""

    name: Any = None
    labels: Any = None
    correlation: Any = None
    device: Any = None
    stream: Any = None
    bytes: Any = None
    kind: Any = None
    grid: Any = None
    block: Any = None
    dtype: Any = None
    cuda_sync_kind: Any = None
    wait_on_stream: Any = None
    external_id: Any = None
    external_id_old: Any = None
    sequence: Any = None
    fwd_thread: Any = None
    input_dims: msgspec.Raw = _ABSENT
    input_dims_old: msgspec.Raw = _ABSENT
    input_types: msgspec.Raw = _ABSENT
    concrete_inputs: msgspec.Raw = _ABSENT
    graph_node: Any = None
    collective: Any = None
    in_elems: Any = None
    out_elems: Any = None
    group_size: Any = None
    group_name: Any = None
    group_desc: Any = None
    group_ranks: Any = None
    seq: Any = None
    wait_record: Any = None


class Event(msgspec.Struct, gc=False):
    """One event. ``ts`` and ``dur`` stay text until they become integer nanoseconds."""

    ph: Any = None
    cat: Any = None
    name: Any = None
    pid: Any = None
    tid: Any = None
    ts: msgspec.Raw = _ABSENT
    dur: msgspec.Raw = _ABSENT
    args: Args | None = None


class Header(msgspec.Struct, gc=False):
    """Top-level facts of a file that are read: an allow-list, for some files carry credentials."""

    distributedInfo: Any = None  # noqa: N815 - the key of the format
    deviceProperties: Any = None  # noqa: N815
    baseTimeNanoseconds: Any = None  # noqa: N815
    schemaVersion: Any = None  # noqa: N815
    displayTimeUnit: Any = None  # noqa: N815
    record_shapes: Any = None
    with_stack: Any = None
    cuda_runtime_version: Any = None
    hip_runtime_version: Any = None
    cupti_version: Any = None


class Document(Header, gc=False):
    """A whole trace object, or its tail from the event array on."""

    traceEvents: list[Event] | None = None  # noqa: N815


EVENT = msgspec.json.Decoder(Event)
EVENTS = msgspec.json.Decoder(list[Event])
DOCUMENT = msgspec.json.Decoder(Document)
HEADER_KEYS = frozenset(Header.__struct_fields__)


def as_int(value: Any) -> int | None:
    """Read an integer that may be a number, a decimal string, or nonsense (then ``None``)."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        if not _INTEGER.fullmatch(value):
            return None
        value = int(value)
    elif isinstance(value, float):
        if not value.is_integer():
            return None
        value = int(value)
    if not isinstance(value, int) or abs(value) >= 2**63:
        return None
    return value


def as_small_int(value: Any) -> int | None:
    """Read an integer of 32 bits; ``None`` for anything else."""
    number = as_int(value)
    return number if number is not None and abs(number) < 2**31 else None


def as_text(value: Any) -> str | None:
    """Read a text that may be any scalar; ``None`` stays ``None``."""
    if value is None:
        return None
    text = value if isinstance(value, str) else str(value)
    return text.encode("utf-8", "replace").decode("utf-8")


def number_text(raw: msgspec.Raw) -> str:
    """Return the decimal text of a number, with the quotes removed where a writer put them."""
    return bytes(raw).decode("utf-8", "replace").strip().strip('"')
