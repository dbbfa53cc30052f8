import gzip
import json
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tracelens.flops import find_recompute
from tracelens.flops.recompute import rerun_ops
from tracelens.store import Store

ENGINE = "autograd::engine::evaluate_function: CheckpointFunctionBackward"


def test_forward_inside_the_engine_is_recompute(run: Any) -> None:
    run.process()
    grad_mode = {"sequence": 5, "fwd_thread": 0}
    forward = run.op("aten::linear", 0, 10, **grad_mode)
    engine = run.op(ENGINE, 20, 100, sequence=5, fwd_thread=1)
    again = run.op("aten::linear", 30, 40, **grad_mode)
    inner = run.op("aten::addmm", 32, 38)
    backward = run.op("AddmmBackward0", 50, 90, **grad_mode)
    mm = run.op("aten::mm", 60, 70)
    other_thread = run.op("aten::linear", 30, 40, thread=1, **grad_mode)
    launched_by = {
        op: run.kernel("gemm", 200, 210, op=op)
        for op in (forward, engine, again, inner, backward, mm, other_thread)
    }
    store = run.done()
    assert rerun_ops(store).tolist() == [again]
    find_recompute(store)
    rows = store.rows("SELECT activity_id, rule FROM raw.recomputed ORDER BY activity_id")
    assert rows == [(launched_by[again], "R1"), (launched_by[inner], "R1")]


def test_ascend_writes_the_fields_with_another_meaning(run: Any) -> None:
    run.process()
    run.store.append("input", {"input": [0], "format": ["kineto"], "producer": ["torch_npu 2.1"]})
    run.op(ENGINE, 20, 100)
    run.op("aten::linear", 30, 40, sequence=5, fwd_thread=0)
    assert rerun_ops(run.done()).tolist() == []


def _launched(run: Any, at_us: int, thread: int = 0, **more: Any) -> int:
    """A kernel with its launch, as a profiler without operators records it."""
    kernel = run.kernel("gemm", 200 + at_us, 201 + at_us, **more)
    call = {"process": 0, "thread": thread, "start_ns": at_us * 1_000, "end_ns": at_us * 1_000 + 5}
    call_id = run.store.append("host_call", {name: [value] for name, value in call.items()})
    run.store.execute(f"DELETE FROM raw.link WHERE activity_id = {kernel}")
    link = {"activity_id": [kernel], "call_id": [call_id]} | (
        {"op_id": [more["op"]]} if "op" in more else {}
    )
    run.store.append("link", link)
    return kernel


def _labelled(run: Any, name: str, start_us: int, end_us: int, kind: str) -> None:
    name_id = run.store.name_ids([name])[0]
    row = {"process": 0, "thread": 0, "kind": kind, "name_id": name_id}
    row |= {"start_ns": start_us * 1_000, "end_ns": end_us * 1_000}
    run.store.append("range", {key: [value] for key, value in row.items()})
    label = {"name_id": [name_id], "target": ["rerun"], "label": ["recompute"]}
    run.store.append("host_label", label)


def _rules(store: Store) -> list[tuple[int, str]]:
    find_recompute(store)
    return store.rows("SELECT activity_id, rule FROM raw.recomputed ORDER BY activity_id")


def test_frames_of_a_checkpoint_run_forward_again(run: Any) -> None:
    """R2; the backward pass of a reentrant checkpoint runs inside the same frame."""
    run.process()
    run.gpu()
    _labelled(run, "torch/utils/checkpoint.py(261): backward", 10, 100, "python")
    run.op("autograd::engine::evaluate_function: MmBackward0", 50, 90)
    inside = _launched(run, 20)
    _launched(run, 60)
    _launched(run, 110)
    _launched(run, 20, thread=1)
    assert _rules(run.done()) == [(inside, "R2")]


def test_reentrant_checkpoint_by_its_operator(run: Any) -> None:
    """R3: no frames, no sequence numbers."""
    run.process()
    run.gpu()
    run.op("CheckpointFunctionBackward", 10, 100)
    run.op("autograd::engine::evaluate_function: MmBackward0", 50, 90)
    inside = _launched(run, 20)
    _launched(run, 60)
    after = _launched(run, 95)
    assert _rules(run.done()) == [(inside, "R3"), (after, "R3")]


def test_a_range_that_says_recompute(run: Any) -> None:
    run.process()
    run.gpu()
    _labelled(run, "recompute layer 3", 10, 100, "nvtx")
    inside = _launched(run, 20)
    _launched(run, 120)
    assert _rules(run.done()) == [(inside, "R4")]


def test_operators_that_tell_decide_alone(run: Any) -> None:
    """A range says recompute, but grad mode says that nothing ran again."""
    run.process()
    run.gpu()
    _labelled(run, "recompute", 10, 100, "annotation")
    run.op(ENGINE, 10, 100)
    backward = run.op("MmBackward0", 20, 30, sequence=7, fwd_thread=1)
    _launched(run, 25, op=backward)
    assert _rules(run.done()) == []


def _sequence(run: Any, text: str) -> list[int]:
    """Kernels one after the other: q, F, u forward; F attention, B its backward; o optimizer."""
    names = {"F": "flash_fwd", "B": "flash_bwd", "o": "adam"}
    classes = {"F": "attention", "B": "attention", "o": "optimizer"}
    ids = []
    for at, letter in enumerate(text):
        name = names.get(letter, f"kernel_{letter}")
        class_ = classes.get(letter, "gemm")
        ids.append(run.kernel(class_, 10 * at, 10 * at + 5, name=name))
        if class_ == "attention":
            name_id = run.store.name_ids([name])[0]
            run.store.execute(f"DELETE FROM raw.kernel_tiling WHERE name_id = {name_id}")
            row = {"name_id": [name_id], "kernel_key": [name], "is_backward": [letter == "B"]}
            run.store.append("kernel_tiling", row)
    return ids


@pytest.mark.parametrize(
    ("text", "again"),
    [
        # Two layers q F u, then each runs again before its backward d B w.
        ("qFuqFuqFudBwqFudBwo" * 3, "......qFu...qFu...." * 3),
        # Attention alone is run again.
        ("qFuqFudFBwdFBwo" * 3, ".......F...F..." * 3),
        # Two micro-batches.
        ("qFuqFuqFudBwqFudBw" * 2 + "o", "......qFu...qFu..." * 2 + "."),
        # Two layers run again together, in forward order.
        ("qFuqFuqFuqFudBwdBwo", "......qFuqFu......."),
        # None runs again: one backward a forward, two micro-batches.
        ("qFuqFudBwdBw" * 2 + "o", "." * 25),
        # One of two layers runs again: which, the counts do not say.
        ("qFuqFuqFudBwdBwo", "." * 16),
        # Generation has no backward.
        ("qFuqFu", "......"),
    ],
)
def test_counting_attention(run: Any, text: str, again: str) -> None:
    run.process()
    run.gpu()
    ids = _sequence(run, text)
    wanted = [kernel for kernel, mark in zip(ids, again, strict=True) if mark != "."]
    assert _rules(run.done()) == [(kernel, "R4") for kernel in wanted]


def test_compiled_graphs_are_counted_too(run: Any) -> None:
    """R5: the operators tell of nothing inside compiled graphs."""
    run.process()
    run.gpu()
    run.op(ENGINE, 0, 5)
    run.op("CompiledFunctionBackward", 1, 4, sequence=3, fwd_thread=1)
    ids = _sequence(run, "qFuqFuqFudBwqFudBwo")
    found = _rules(run.done())
    assert found == [(ids[at], "R5") for at in (6, 7, 8, 12, 13, 14)]


def test_a_run_without_operators(run: Any) -> None:
    run.kernel("gemm", 0, 10)
    store = run.done()
    find_recompute(store)
    assert store.scalar("SELECT count(*) FROM raw.recomputed") == 0


def test_checkpointed_resnet(shared: Path) -> None:
    path = shared / "traces/chrome/tracelens/mi300/resnet_act_checkpoint.json.gz"
    store = _ops_of(path)
    again = rerun_ops(store)
    names = dict(
        store.rows("SELECT op_id, name FROM raw.op JOIN raw.name USING (name_id) ORDER BY op_id")
    )
    assert len(again) == 438
    assert Counter(names[op] for op in again.tolist())["aten::convolution"] == 57


def test_no_false_positives_without_checkpointing(shared: Path) -> None:
    path = shared / "traces/chrome/modded-nanogpt/h100_8rank/rank0.json.gz"
    assert rerun_ops(_ops_of(path)).tolist() == []


def _ops_of(path: Path) -> Store:
    """Read just the operators, without the importer."""
    with gzip.open(path) as file:
        events = json.load(file, parse_float=Decimal)["traceEvents"]
    ops = [event for event in events if event.get("cat") == "cpu_op"]
    store = Store()
    threads = {key: index for index, key in enumerate({(op["pid"], op["tid"]) for op in ops})}
    starts = [round(Decimal(op["ts"]) * 1000) for op in ops]
    args = [op["args"] for op in ops]
    store.append(
        "op",
        {
            "process": [0] * len(ops),
            "thread": [threads[op["pid"], op["tid"]] for op in ops],
            "name_id": store.name_ids(op["name"] for op in ops),
            "start_ns": starts,
            "end_ns": [round(Decimal(op["ts"] + op["dur"]) * 1000) for op in ops],
            "external_id": [arg.get("External id") for arg in args],
            "sequence": [arg.get("Sequence number") for arg in args],
            "fwd_thread": [arg.get("Fwd thread id") for arg in args],
        },
    )
    store.flush_names()
    return store
