"""Annotations: operators of emit_nvtx, ranges of users, and ranges that never ended."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tracelens.store import Store

Export = Callable[..., Path]
TID = 0x0001_0000_6400_0007


def _range(text: str | None = None, **columns: Any) -> dict[str, Any]:
    usual = {"start": 10, "end": 20, "eventType": 59, "globalTid": TID, "domainId": 0}
    return usual | ({} if text is None else {"text": text}) | columns


def _ops(store: Store) -> list[tuple[Any, ...]]:
    return store.rows(
        "SELECT name, sequence, external_id, input_dims FROM raw.op JOIN raw.name USING (name_id)"
        " ORDER BY op_id"
    )


def _ranges(store: Store) -> list[str]:
    rows = store.rows("SELECT name FROM raw.range JOIN raw.name USING (name_id) ORDER BY range_id")
    return [name for (name,) in rows]


@pytest.mark.parametrize(
    ("text", "op"),
    [
        ("aten::mm, op_id = 5", ("aten::mm", None, 5, None)),
        ("aten::mm, seq = 12", ("aten::mm", 12, None, None)),
        ("AddmmBackward0, seq = 12, op_id = 7", ("AddmmBackward0", 12, 7, None)),
        (
            "aten::mm, seq = 12, op_id = 5, sizes = [[4, 3], [3, 2]]",
            ("aten::mm", 12, 5, "[[4,3],[3,2]]"),
        ),
        (
            "aten::mm, seq = 12, op_id = 5, sizes = [[4, 3], []], input_op_ids = [(1,0), (2,1)]",
            ("aten::mm", 12, 5, "[[4,3],[]]"),
        ),
        ("aten::mm, seq = 12, sizes = [[4, 3], [3, 2]]", ("aten::mm", 12, None, "[[4,3],[3,2]]")),
        ("aten::mm, op_id = 5, input_op_ids = [(1,0)]", ("aten::mm", None, 5, None)),
        (
            "autograd::engine::evaluate_function: MmBackward0, op_id = 9",
            ("autograd::engine::evaluate_function: MmBackward0", None, 9, None),
        ),
        ("record_param_comms, op_id = 3", ("record_param_comms", None, 3, None)),
        ("c10d::alltoall_base_, op_id = 3", ("c10d::alltoall_base_", None, 3, None)),
        ("aten::mm, op_id = 5, sizes = [[4, __import__]]", ("aten::mm", None, 5, None)),
        ("aten::mm, op_id = 5, sizes = [[4, 3]", ("aten::mm", None, 5, None)),
    ],
)
def test_operators_of_emit_nvtx(export: Export, load: Any, text: str, op: tuple[Any, ...]) -> None:
    store = load(export(NVTX_EVENTS=[_range(text)]))
    assert (_ops(store), _ranges(store)) == ([op], [])


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("ncclAllReduce", "ncclAllReduce"),
        ("forward step, op_id = 7", "forward step"),
        ("FSDP::post_forward (layer.0), op_id = 7", "FSDP::post_forward (layer.0)"),
        ("nccl:all_to_all, op_id = 7", "nccl:all_to_all"),
        ("two\nlines", "two\nlines"),
        ("seq = 12", "seq = 12"),
        ("aten::mm, op_id = 5, sizes = [[4", "aten::mm, op_id = 5, sizes = [[4"),
        ("step, seq = 99999999999999999999", "step, seq = 99999999999999999999"),
        ("", ""),
    ],
)
def test_other_ranges_keep_their_text(export: Export, load: Any, text: str, name: str) -> None:
    store = load(export(NVTX_EVENTS=[_range(text)]))
    assert (_ops(store), _ranges(store)) == ([], [name])


def test_text_lies_in_the_row_or_in_the_string_table(export: Export, load: Any) -> None:
    strings = [{"id": 1, "value": "k"}, {"id": 2, "value": "c"}, {"id": 8, "value": "by id"}]
    rows = [_range("in the row"), _range(textId=8), _range(textId=77), _range("both", textId=8)]
    store = load(export(StringIds=strings, NVTX_EVENTS=rows))
    assert _ranges(store) == ["in the row", "by id", "", "both"]


@pytest.mark.parametrize("table", ["NVTX_EVENTS", "NVTX_EVENTS_V2", "NVTX_EVENTS_V3"])
def test_every_generation_of_the_table_is_read(export: Export, load: Any, table: str) -> None:
    rows = [_range("a"), _range("b", eventType=60), _range("mark", eventType=34)]
    assert _ranges(load(export(**{table: rows}))) == ["a", "b"]


def test_open_ranges_are_counted_and_not_used(export: Export, load: Any) -> None:
    rows = [
        _range("closed"),
        _range("open", end=None),
        _range("open at the end", end=5_000),
        _range("a domain", eventType=75, end=None),
    ]
    details = [{"duration": 5_000, "startTime": 77, "stopTime": 5_077}]
    store = load(export(NVTX_EVENTS=rows, ANALYSIS_DETAILS=details))
    assert _ranges(store) == ["closed"]
    assert store.rows("SELECT reason, count, first_offset FROM raw.damage") == [
        ("NVTX_EVENTS: open NVTX range", 2, 2)
    ]


def test_a_range_that_starts_before_the_session_is_counted(export: Export, load: Any) -> None:
    store = load(export(NVTX_EVENTS=[_range("a"), _range("b", start=-5)]))
    assert _ranges(store) == ["a"]
    assert store.rows("SELECT reason, count FROM raw.damage") == [
        ("NVTX_EVENTS: starts before the session", 1)
    ]


def test_domains_without_a_range_point_at_the_versions(export: Export, load: Any) -> None:
    store = load(export(NVTX_EVENTS=[_range("mine", eventType=75)]))
    (note,) = [text for (text,) in store.rows("SELECT text FROM raw.note")]
    assert "no range was recorded" in note
    assert not store.scalar("SELECT count(*) FROM raw.range")


def test_ranges_know_process_and_thread(export: Export, load: Any) -> None:
    names = [{"globalTid": TID, "nameId": 2, "priority": 0}]
    store = load(export(NVTX_EVENTS=[_range("a")], ThreadNames=names))
    assert store.rows(
        "SELECT r.process, t.process, t.tid, t.name, r.kind, r.start_ns, r.end_ns"
        " FROM raw.range AS r JOIN raw.thread AS t USING (thread)"
    ) == [(0, 0, "7", "cudaLaunchKernel_v7000", "nvtx", 10, 20)]
