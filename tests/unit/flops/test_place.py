"""Where in training and in the model an activity belongs, and what of each loss that is."""

from typing import Any

import pytest

import tracelens
from tracelens.flops import place_activities
from tracelens.flops.nesting import innermost, parents
from tracelens.store import Store


def places(store: Store, *columns: str) -> dict[int, tuple[Any, ...]]:
    place_activities(store)
    names = ", ".join(columns)
    rows = store.rows(
        f"SELECT activity_id, {names} FROM raw.activity_place AS p "
        "LEFT JOIN raw.name AS n ON n.name_id = p.module_id ORDER BY activity_id"
    )
    return {row[0]: row[1:] for row in rows}


def test_operators_tell_the_pass(run: Any) -> None:
    """Grad mode makes the difference: clipping of gradients runs without it."""
    forward = run.op("aten::mm", 0, 10, sequence=3, fwd_thread=0)
    inside = run.op("aten::t", 2, 4)
    engine = run.op("autograd::engine::evaluate_function: MmBackward0", 20, 40, thread=1)
    backward = run.op("aten::mm", 22, 30, thread=1)
    again = run.op("aten::mm", 31, 35, thread=1, sequence=9, fwd_thread=0)
    clip = run.op("aten::norm", 50, 60)
    ids = [run.kernel("gemm", 100, 101, op=op) for op in (forward, inside, engine, backward)]
    again_id = run.kernel("gemm", 110, 111, op=again)
    run.kernel("norm", 112, 113, op=clip)
    step = run.kernel("optimizer", 120, 121)
    found = places(run.done(), "phase", "phase_source")
    forward_pass, backward_pass = ("forward", "operator"), ("backward", "operator")
    assert [found[at] for at in ids] == [forward_pass] * 2 + [backward_pass] * 2
    assert found[again_id] == backward_pass
    assert found[step] == ("optimizer", "class")
    assert len(found) == 6


def test_without_a_backward_pass_there_are_no_phases(run: Any) -> None:
    op = run.op("aten::mm", 0, 10, sequence=3, fwd_thread=0)
    run.kernel("gemm", 20, 30, op=op)
    run.segment("flop.gemm", 20, 30, activity_id=1)
    store = run.done()
    assert places(store, "phase") == {}
    assert store.result("by_phase") is None


def test_the_outermost_range_tells_the_pass(run: Any) -> None:
    """The engine launches on a thread of its own while the caller waits inside the range."""
    run.labelled("forward", 0, 10)
    run.labelled("backward", 10, 30)
    run.labelled("forward_step", 15, 20)
    run.labelled("optimizer step", 30, 40)
    run.labelled("forward_backward", 0, 40, thread=2)
    kernels = [run.kernel("gemm", 100 + at, 101 + at) for at in range(5)]
    for kernel, at_us, thread in zip(kernels, (5, 12, 16, 35, 60), (0, 1, 1, 0, 0), strict=True):
        run.launch(kernel, at_us, thread)
    found = places(run.done(), "phase", "phase_source")
    assert [found.get(kernel, (None,))[0] for kernel in kernels] == [
        "forward",
        "backward",
        "backward",
        "optimizer",
        None,
    ]
    assert {source for _, source in found.values()} == {"range"}


def test_between_kernels_of_one_pass_the_pass_is_known(run: Any) -> None:
    """Neither range nor operator: of the loss, between the passes, nothing is said."""
    classes = [
        "gemm",
        "attention",
        "gemm",
        "attention",
        "loss",
        "attention",
        "gemm",
        "attention",
        "gemm",
        "optimizer",
    ]
    back = {5, 7}
    kernels = []
    for at, class_ in enumerate(classes):
        name = f"flash_{'bwd' if at in back else 'fwd'}" if class_ == "attention" else class_
        kernels.append(run.kernel(class_, at * 10, at * 10 + 5, name=name))
    store = run.done()
    store.append(
        "kernel_tiling",
        {"name_id": store.name_ids(["flash_bwd", "flash_fwd"]), "is_backward": [True, False]},
    )
    found = places(store, "phase", "phase_source")
    assert [found.get(kernel, (None,))[0] for kernel in kernels] == [
        *["forward"] * 4,
        None,
        *["backward"] * 4,
        "optimizer",
    ]
    assert found[kernels[0]][1] == "sequence"


def test_modules_are_paths_of_frames_and_backward_follows_forward(run: Any) -> None:
    run.labelled("nn.Module: GPT_0", 0, 100, kind="python")
    run.labelled("nn.Module: Linear_3", 10, 50, kind="python")
    run.labelled("my range", 5, 60, kind="annotation")
    run.labelled("model.py(3): forward", 6, 70, kind="python")
    forward = run.op("aten::linear", 20, 30, sequence=7, fwd_thread=0)
    node = run.op(
        "autograd::engine::evaluate_function: AddmmBackward0",
        200,
        240,
        thread=1,
        sequence=7,
        fwd_thread=1,
    )
    gradient = run.op("aten::mm", 210, 220, thread=1)
    first = run.kernel("gemm", 300, 301, op=forward)
    run.launch(outer := run.kernel("gemm", 302, 303), 80)
    second = run.kernel("gemm", 304, 305, op=gradient)
    run.kernel("gemm", 306, 307)
    run.launch(ranged := run.kernel("gemm", 308, 309), 25)
    found = places(run.done(), "n.name", "module_source", "phase")
    assert found[outer][:2] == ("GPT_0", "frame")
    assert found[ranged][:2] == ("GPT_0/Linear_3", "frame")
    assert found[second] == ("GPT_0/Linear_3", "frame", "backward")
    assert (first, node) != (None, None)


def test_a_sequence_number_of_two_threads_is_no_evidence(run: Any) -> None:
    for thread in (0, 2):
        run.labelled(f"nn.Module: Linear_{thread}", 0, 50, kind="python", thread=thread)
        run.op("aten::linear", 20, 30, thread=thread, sequence=7, fwd_thread=0)
    node = run.op("AddmmBackward0", 200, 240, thread=1, sequence=7, fwd_thread=1)
    kernel = run.kernel("gemm", 300, 301, op=node)
    assert places(run.done(), "n.name")[kernel] == (None,)


def test_user_ranges_and_compiled_regions(run: Any) -> None:
    """Ranges that say step, pass or cause are no parts of the model."""
    run.labelled("step 12", 0, 100)
    run.labelled("forward", 0, 90)
    run.labelled("layer_3", 10, 50)
    run.labelled("attention", 20, 30)
    run.labelled("Torch-Compiled Region: 0/0", 60, 80)
    for at, at_us in enumerate((5, 15, 25, 70)):
        run.launch(run.kernel("gemm", 100 + at, 101 + at), at_us)
    found = places(run.done(), "n.name", "module_source")
    assert list(found.values()) == [
        (None, None),
        ("layer_3", "range"),
        ("layer_3/attention", "range"),
        ("Torch-Compiled Region: 0/0", "compiled"),
    ]


def test_every_loss_by_phase_and_module(run: Any) -> None:
    """Idle time counts for what ended it; what has no place is named as such."""
    run.labelled("forward", 0, 10)
    run.labelled("backward", 10, 30)
    run.labelled("layer_1", 0, 30)
    first, second, third = (run.kernel("gemm", at, at + 5) for at in (0, 20, 40))
    run.launch(first, 1)
    run.launch(second, 12)
    run.segment("flop.gemm", 0, 5, activity_id=first)
    run.segment("gap.kernel", 5, 20, activity_id=second)
    run.segment("flop.gemm", 20, 25, activity_id=second)
    run.segment("host.dispatch", 25, 40, activity_id=third)
    run.segment("flop.gemm", 40, 45, activity_id=third)
    store = run.done()
    place_activities(store)
    assert store.result("by_phase") == {
        "forward": {"flop.gemm": 5_000},
        "backward": {"flop.gemm": 5_000, "gap.kernel": 15_000},
        "optimizer": {},
        "other": {"flop.gemm": 5_000, "host.dispatch": 15_000},
    }
    assert store.result("by_module") == [
        {"module": "layer_1", "leaves": {"flop.gemm": 10_000, "gap.kernel": 15_000}},
        {"module": None, "leaves": {"flop.gemm": 5_000, "host.dispatch": 15_000}},
    ]


def test_innermost_of_nested_and_overlapping_intervals() -> None:
    import numpy as np

    rows = np.array([(0, 0, 100), (0, 10, 50), (0, 20, 30), (0, 60, 90), (1, 0, 10)])
    group, start, end = rows.T
    found = innermost(
        parents(group, start, end),
        group,
        start,
        end,
        (np.array([0, 0, 0, 0, 0, 0, 1, 1, 2]), np.array([-1, 0, 25, 30, 55, 100, 5, 10, 5])),
    )
    assert found.tolist() == [-1, 0, 2, 1, 0, -1, 4, -1, -1]


@pytest.mark.parametrize(
    ("path", "sources"),
    [
        ("traces/chrome/tracelens/mi300/resnet_act_checkpoint.json.gz", {"frame"}),
        ("traces/chrome/modded-nanogpt/h100_8rank/rank0.json.gz", {"compiled"}),
        ("traces/chrome/tracelens/h100/gaunernst_bert-small-uncased__1016001.json.gz", {"frame"}),
        ("traces/nsight/t4_power_iteration_2025.3.sqlite", {"range"}),
    ],
)
def test_real_traces(shared: Any, path: str, sources: set[str]) -> None:
    if not (shared / path).exists():
        pytest.skip(f"no such trace: {path}")
    with tracelens.attribute(shared / path) as run:
        answer = run.to_dict()["time"]
        rows = run.sql("SELECT phase, recompute_rule, class, module_source FROM activity")
    total = sum(answer["leaves"].values())
    assert sum(sum(row["leaves"].values()) for row in answer["by_module"]) == total
    if answer["by_phase"]:
        assert sum(sum(leaves.values()) for leaves in answer["by_phase"].values()) == total
    found = rows.to_pylist()
    assert {row["module_source"] for row in found} - {None} == sources
    assert {row["phase"] for row in found if row["recompute_rule"]} <= {"backward"}
    assert {row["phase"] for row in found if row["class"] == "optimizer"} <= {"optimizer"}
