"""Which collective is it, how large is its message, and how much of it crosses each link?

Sizes and bus factors are those of nccl-tests (its document PERFORMANCE): the size of an all-gather
is its output, that of a reduce-scatter its input; bus bandwidth is size / time x factor.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

from tracelens.units import INT64_MAX

# By letters only: torch writes "_allgather_base" or "all_to_allv", NVTX "ncclAllReduce".
_OPS = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "reducescatter": "reduce_scatter",
    "alltoall": "all_to_all",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "barrier": "barrier",
    "sendrecv": "send_recv",
    "send": "send_recv",
    "recv": "send_recv",
    "batchisendirecv": "send_recv",
    "gather": "generic",
    "scatter": "generic",
}
_OPS_LONGEST_FIRST = sorted(_OPS, key=len, reverse=True)
_VARIANT = re.compile(r"(v|base|single|intotensor|tensor|oop|coalesced|uneven|sparse|anysource)*")
_CLASS_OPS = {
    "collective:allreduce": "all_reduce",
    "collective:allgather": "all_gather",
    "collective:reducescatter": "reduce_scatter",
    "collective:alltoall": "all_to_all",
    "collective:broadcast": "broadcast",
    "collective:reduce": "reduce",
    "collective:barrier": "barrier",
    "p2p:sendrecv": "send_recv",
    "memcpy:p2p": "send_recv",
}
_DTYPE_BYTES = {
    1: "byte char bool int8 uint8 quint8 qint8 fp8 float8 float8e4m3 float8e5m2 float8_e4m3fn"
    " float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu float4_e2m1fn_x2",
    2: "half bfloat16 float16 bf16 fp16 short int16 uint16",
    4: "float float32 fp32 tf32 int int32 uint32 qint32 complexhalf",
    8: "double float64 fp64 long int64 uint64 complexfloat complex64",
    16: "complexdouble complex128",
}
_BYTES_OF_DTYPE = {name: size for size, names in _DTYPE_BYTES.items() for name in names.split()}


@dataclass(frozen=True)
class Message:
    """What the metadata of a collective says about its data; anything may be missing."""

    in_elems: int | None = None
    out_elems: int | None = None
    dtype: str | None = None
    in_bytes: int | None = None
    out_bytes: int | None = None
    group_size: int | None = None


def collective_op(recorded: Iterable[str | None], kernel_class: str) -> str:
    """Return the collective: the first record that names one decides, then the class of the kernel.

    The class comes last because one send/receive kernel also carries every all-to-all.
    """
    for text in recorded:
        letters = re.sub(r"[^a-z]", "", (text or "").lower()).removeprefix("nccl")
        for name in _OPS_LONGEST_FIRST:
            if letters.startswith(name) and _VARIANT.fullmatch(letters[len(name) :]):
                return _OPS[name]
    return _CLASS_OPS.get(kernel_class, "generic")


def dtype_bytes(dtype: str | None) -> int | None:
    """Return the size of one element, or ``None`` for a type that is not known."""
    name = (dtype or "").strip().lower()
    return _BYTES_OF_DTYPE.get(
        name.removeprefix("c10::").removeprefix("torch.").removeprefix("nccl")
    )


def message_bytes(op: str, message: Message) -> int | None:
    """Return the size of a message by the convention of nccl-tests, or ``None``."""
    if op in {"barrier", "generic"}:
        return None
    sent = _side(message.in_bytes, message.in_elems, message.dtype)
    received = _side(message.out_bytes, message.out_elems, message.dtype)
    ranks = message.group_size
    if op == "all_gather":
        # Every rank contributes as much as this one: the output is that times the group.
        size = received or (sent * ranks if sent is not None and ranks else received)
    elif op == "reduce_scatter":
        size = sent or (received * ranks if received is not None and ranks else sent)
    elif op == "send_recv":
        size = sent or received
    else:
        size = sent
    return size if size is not None and size <= INT64_MAX else None


def ranks_in(group_size: int | None, group_ranks: str | None) -> int | None:
    """Return the number of ranks of a group, from its size or its (complete) list of ranks."""
    if group_size is not None:
        return group_size if group_size > 0 else None
    try:
        ranks = json.loads(group_ranks or "")
    except (ValueError, RecursionError):  # newer profilers shorten a long list with "..."
        return None
    return len(ranks) if isinstance(ranks, list) and ranks else None


def bus_factor(op: str, ranks: int | None) -> float | None:
    """Return what turns message size over time into bandwidth per link.

    Returns:
        ``None`` where it depends on a group size that is not known, or the operation moves no
        defined amount of data.
    """
    if op in {"barrier", "generic"}:
        return None
    if op in {"broadcast", "reduce", "send_recv"}:
        return 1.0
    if ranks is None:
        return None
    share = (ranks - 1) / ranks
    return 2 * share if op == "all_reduce" else share


def _side(size: int | None, elems: int | None, dtype: str | None) -> int | None:
    if size is not None:
        return size if size >= 0 else None
    element = dtype_bytes(dtype)
    if elems is None or elems < 0 or element is None:
        return None
    return elems * element
