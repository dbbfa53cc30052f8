"""Steps of traces without marks."""

import pytest

from tracelens.attribution.repetition import PARTIAL
from tracelens.attribution.windows import NO_NEXT

ADAM = (
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous "
    "namespace)::FusedOptimizerTensorListMetadata<4>, FusedAdamMathFunctor<float, 4>>"
)


def step(scene, number, *, optimizer=ADAM, layers=3):
    """One step of 100 µs on the GPU from 1000 + 100 n, launched from 100 n on."""
    at, launch = 1000 + number * 100, number * 100
    scene.kernel(at, at + 10, (launch, launch + 1), name="embedding_kernel")
    for layer in range(layers):
        begin = at + 10 + layer * 20
        scene.kernel(begin, begin + 10, (launch + 2 + layer * 2, launch + 3 + layer * 2))
        scene.kernel(
            begin + 10, begin + 20, (launch + 3 + layer * 2, launch + 4 + layer * 2), name="norm"
        )
    if optimizer:
        scene.kernel(at + 80, at + 85, (launch + 40, launch + 41), name=optimizer)
        scene.kernel(at + 85, at + 90, (launch + 41, launch + 42), name=optimizer)


def windows(scene):
    return [
        (row[0], row[1] // 1000, row[2] // 1000, row[3])
        for row in scene.store.rows(
            "SELECT step, start_ns, end_ns, reason FROM step ORDER BY start_ns"
        )
    ]


def test_runs_of_the_optimizer_bound_steps(scene):
    for number in range(4):
        step(scene, number)
    scene.leaves("auto")
    assert scene.store.result("window")["source"] == "optimizer"
    assert windows(scene) == [
        (0, 1000, 1100, PARTIAL),
        (1, 1100, 1200, None),
        (2, 1200, 1300, None),
        (3, 1300, 1390, NO_NEXT),
    ]
    assert scene.store.result("window")["are_steps"] is True


def test_optimizer_ranges_are_used_where_kernels_tell_nothing(scene):
    for number in range(4):
        step(scene, number, optimizer="custom_update")
        scene.range("Optimizer.step#Custom.step", number * 100 + 39, number * 100 + 43)
    scene.leaves("auto")
    assert scene.store.result("window")["source"] == "optimizer"
    assert scene.store.result("window")["steps"] == [1, 2]


@pytest.mark.parametrize("training", [True, False])
def test_repetition_counts_only_where_something_shows_training(scene, training):
    for number in range(4):
        step(scene, number, optimizer=None)
    if training:
        scene.op("autograd::engine::evaluate_function: MmBackward0", 0, 1)
    scene.leaves("auto")
    if not training:
        assert scene.store.result("window")["source"] == "whole_trace"
        return
    assert scene.store.result("window")["source"] == "autocorrelation"
    assert scene.store.result("window")["are_steps"] is False
    # The period is the step, not the layer that repeats inside it.
    assert [row[2] - row[1] for row in windows(scene)][:3] == [100, 100, 100]
