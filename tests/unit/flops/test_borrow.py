"""Kernels without shapes take the FLOPs of equal launches, where these must do the same."""

from typing import Any

import pytest

from tracelens.flops import assign_flops, borrow_flops
from tracelens.store import Store

GRID = {"grid_x": 8, "grid_y": 1, "grid_z": 1, "block_x": 128, "block_y": 1, "block_z": 1}
SHAPES = [[256, 64], [64, 128]]


def borrowed(run: Any, *, schedule: str = "tiles", again: bool = False) -> list[Any]:
    store: Store = run.done()
    names = store.name_ids(["tiled_gemm"])
    store.append("kernel_tiling", {"name_id": names, "schedule": [schedule]})
    assign_flops(store)
    if again:
        store.append("recomputed", {"activity_id": [1], "rule": ["R1"]})
    borrow_flops(store)
    return store.rows(
        "SELECT executed_flop, model_flop, shaped, rule FROM raw.activity_flop "
        "WHERE op_id IS NULL ORDER BY activity_id"
    )


def lend(run: Any, count: int = 3, **more: Any) -> None:
    run.gpu()
    for at in range(count):
        op = run.op("aten::mm", at * 10, at * 10 + 9, input_dims=more.get("dims", SHAPES))
        run.kernel("gemm", at * 10, at * 10 + 5, op=op, name="tiled_gemm", **GRID)


def test_an_equal_launch_does_the_same(run: Any) -> None:
    lend(run)
    run.kernel("gemm", 100, 105, name="tiled_gemm", **GRID)
    flop = 2.0 * 256 * 64 * 128
    assert borrowed(run) == [(flop, flop, True, "borrowed: aten::mm")]


@pytest.mark.parametrize(
    "other", [{"grid_x": 9}, {"block_x": 64}, {"grid_x": None}], ids=["grid", "block", "unknown"]
)
def test_another_launch_borrows_nothing(run: Any, other: dict[str, Any]) -> None:
    lend(run)
    run.kernel("gemm", 100, 105, name="tiled_gemm", **{**GRID, **other})
    assert borrowed(run) == [(None, None, False, None)]


def test_a_longer_launch_did_something_else(run: Any) -> None:
    """The inner dimension is in neither name nor grid."""
    lend(run)
    run.kernel("gemm", 100, 110, name="tiled_gemm", **GRID)
    assert borrowed(run) == [(None, None, False, None)]


def test_lenders_must_agree(run: Any) -> None:
    lend(run)
    op = run.op("aten::mm", 40, 49, input_dims=[[256, 32], [32, 128]])
    run.kernel("gemm", 40, 45, op=op, name="tiled_gemm", **GRID)
    run.kernel("gemm", 100, 105, name="tiled_gemm", **GRID)
    assert borrowed(run) == [(None, None, False, None)]


def test_two_launches_are_too_few(run: Any) -> None:
    lend(run, count=2)
    run.kernel("gemm", 100, 105, name="tiled_gemm", **GRID)
    assert borrowed(run) == [(None, None, False, None)]


@pytest.mark.parametrize("schedule", ["persistent", "adaptive", "stream_k"])
def test_blocks_that_stay_have_one_grid_for_many_shapes(run: Any, schedule: str) -> None:
    lend(run)
    run.kernel("gemm", 100, 105, name="tiled_gemm", **GRID)
    assert borrowed(run, schedule=schedule) == [(None, None, False, None)]


def test_where_launches_run_again_nobody_knows_which_this_is(run: Any) -> None:
    lend(run)
    run.kernel("gemm", 100, 105, name="tiled_gemm", **GRID)
    assert borrowed(run, again=True) == [(None, None, False, None)]
