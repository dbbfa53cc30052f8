import gzip
import json
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

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
