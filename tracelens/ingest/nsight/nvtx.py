"""Which annotations did the program set, and which of them are framework operators?

PyTorch's ``emit_nvtx`` writes an operator as ``aten::mm, seq = 12, op_id = 5, sizes = [[4, 3]]``
(``torch/csrc/profiler/util.cpp``, ``getNvtxStr``); these become operators, all else ranges.
"""

import json
import re
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tracelens.ingest.nsight import schema
from tracelens.ingest.nsight.names import Names
from tracelens.ingest.nsight.reading import Reading
from tracelens.ingest.nsight.tables import Batch, Mask, distinct

# 18 digits: what is longer is no counter and would not fit 64 bits.
_EMITTED = (
    r"(?s)^(?P<name>.*?)(?:, (?:stashed )?seq ?= ?(?P<seq>\d{1,18}))?"
    r"(?:, op_id = (?P<op>\d{1,18}))?(?:, sizes = (?P<sizes>\[.*?\]))?(?:, input_op_ids = \[.*\])?$"
)
# With op_id alone it may also be a record_function of the user, e.g. "forward step, op_id = 7".
_OPERATOR = (
    r"^(?:[A-Za-z_]\w*(?:::[\w.]+)+|record_param_comms|\w+Backward\d*"
    r"|autograd::engine::evaluate_function: .+)$"
)
_ANNOTATION = r"^FSDP::"
_SIZES = re.compile(r"\[(?:\[(?:-?\d{1,18}(?:, -?\d{1,18})*)?\](?:, (?=\[))?)*\]")


def read_annotations(reading: Reading) -> None:
    """Append ranges and operators; ranges that never ended are counted, not used."""
    ranges = domains = 0
    names = Names(reading.tables, reading.store)
    for table in schema.NVTX_TABLES:
        for batch in reading.batches(table, schema.NVTX_COLUMNS):
            kinds = batch.ints("eventType")
            domains += int((kinds == schema.NVTX_DOMAIN).sum())
            is_range = (kinds == schema.NVTX_PUSH_POP) | (kinds == schema.NVTX_START_END)
            closed = _closed(reading, batch.where(is_range), table)
            ranges += int(is_range.sum())
            _append(reading, reading.screen.timed(closed, table), names)
    if domains and not ranges:
        reading.remarks.append(
            "NVTX domains were registered but no range was recorded: the nvtx package and nsys do"
            " not fit together; update nsys, or use nvtx 0.2.10"
        )


def _closed(reading: Reading, batch: Batch, table: str) -> Batch:
    # Before 2025 nsys closes a range that the program left open at the very end of the session.
    still_open = ~batch.present("end")
    if reading.session.end_ns is not None:
        still_open |= batch.ints("end") == reading.session.end_ns
    return reading.screen.drop(batch, still_open, f"{table}: open NVTX range")


def _append(reading: Reading, batch: Batch, names: Names) -> None:
    if not len(batch):
        return
    texts = _texts(reading, batch).dictionary_encode()  # most ranges repeat the text of others
    parsed = pc.extract_regex(texts.dictionary, pattern=_EMITTED)
    name, sequence, op, sizes = (
        _group(parsed, key).take(texts.indices) for key in ("name", "seq", "op", "sizes")
    )
    name_ids = names.of_texts(name)
    is_op = _is_operator(name, sequence, op, sizes)
    tids = batch.ints("globalTid")
    columns = {
        "process": reading.identity.processes(tids),
        "thread": reading.identity.threads(tids),
        "name_id": name_ids,
        "start_ns": batch.ints("start"),
        "end_ns": batch.ints("end"),
    }
    ranges = {key: values[~is_op] for key, values in columns.items()}
    reading.store.append("range", ranges | {"kind": pa.repeat("nvtx", int((~is_op).sum()))})
    chosen = pa.array(is_op)
    reading.store.append(
        "op",
        {key: values[is_op] for key, values in columns.items()}
        | {
            "sequence": sequence.filter(chosen).cast(pa.int64()),
            "external_id": op.filter(chosen).cast(pa.int64()),
            "input_dims": _dims(sizes.filter(chosen)),
        },
    )


def _texts(reading: Reading, batch: Batch) -> Any:
    """Return the text of each range, which lies in the row or in the string table."""
    text = batch.columns["text"]
    if text.null_count == 0:
        return text
    found, codes = distinct(batch.columns["textId"].fill_null(-1))
    known = reading.tables.strings(found)
    by_id = pa.array([known.get(number, "") for number in found], pa.string())
    return pc.coalesce(text, by_id.take(pa.array(codes)))


def _group(parsed: Any, key: str) -> Any:
    """Return what a group matched; NULL where it matched nothing, but for the name."""
    matched = pc.struct_field(parsed, key)
    return matched if key == "name" else pc.if_else(pc.equal(matched, ""), None, matched)


def _is_operator(name: Any, sequence: Any, op: Any, sizes: Any) -> Mask:
    like_one = pc.and_not(
        pc.match_substring_regex(name, _OPERATOR), pc.match_substring_regex(name, _ANNOTATION)
    )
    described = pc.or_(sequence.is_valid(), sizes.is_valid())
    mask: Mask = pc.or_(described, pc.and_(op.is_valid(), like_one)).to_numpy(zero_copy_only=False)
    return mask


def _dims(sizes: Any) -> Any:
    found, codes = distinct(sizes.fill_null(""))
    parsed = pa.array(list(_parsed(found)), pa.string())
    return parsed.take(pa.array(codes))


def _parsed(sizes: Iterable[str]) -> Iterable[str | None]:
    for text in sizes:
        strict = _SIZES.fullmatch(text)
        yield json.dumps(json.loads(text), separators=(",", ":")) if strict else None
