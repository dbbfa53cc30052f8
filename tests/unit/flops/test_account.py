from math import fsum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracelens.errors import IdentityError
from tracelens.flops.account import Books, close_books
from tracelens.taxonomy import LEAF_TITLES

MS = 1_000_000
PEAK = 989e12
MS_OF_PEAK = PEAK * 1e-3
RANKS = 8

# The worked example of docs/explanation/attribution.md: 8 GPUs, one step of 1 s, ms a rank.
LEAVES_MS = {
    "flop.gemm": 500,
    "flop.attn": 80,
    "flop.recompute": 60,
    "compute.norm": 30,
    "compute.elementwise": 60,
    "compute.softmax": 10,
    "compute.optimizer": 20,
    "compute.copy.fsdp": 15,
    "comm.dp.transfer": 70,
    "comm.dp.wait": 25,
    "mem.d2d": 5,
    "gap.kernel": 15,
    "gap.launch_latency": 5,
    "host.dispatch": 40,
    "host.sync": 20,
    "host.dataloader": 25,
    "host.gc": 5,
    "idle.unknown": 15,
}


def _example(**more: Any) -> Books:
    leaves = {leaf: RANKS * ms * MS for leaf, ms in LEAVES_MS.items()}
    given: dict[str, Any] = {
        "leaves": leaves,
        "total_ns": RANKS * 1000 * MS,
        "peak_flop_per_s": PEAK,
        "model_flop": RANKS * 425 * MS_OF_PEAK,
        "executed_flop": {
            "flop.gemm": RANKS * 365 * MS_OF_PEAK,
            "flop.attn": RANKS * 35 * MS_OF_PEAK,
            "flop.recompute": RANKS * 42 * MS_OF_PEAK,
        },
        "recompute_flop": RANKS * 42 * MS_OF_PEAK,
        "attention_backward_flop": RANKS * 5 * MS_OF_PEAK,
        "credit_flop": RANKS * 30 * MS_OF_PEAK,
    }
    return Books(**(given | more))


def _flat(items: list[dict[str, Any]], prefix: str = "") -> dict[str, float]:
    found = {}
    for item in items:
        own = f"{prefix}{item['id']}"
        found[own] = round(item["points"], 6) + 0.0
        found |= _flat(item.get("children", []), f"{own}/")
    return found


GEMM_LADDER_MS = {
    "ineff.memory": 8,
    "ineff.quantisation": 22,
    "ineff.ceiling": 60,
    "ineff.kernel": 25,
    "ineff.contention": 20,
}


def _ladder(**more: float) -> dict[str, dict[str, float]]:
    return {"gemm": {step: RANKS * ms * MS for step, ms in (GEMM_LADDER_MS | more).items()}}


def test_worked_example_divides_matmul_below_peak() -> None:
    points = _flat(close_books(_example(ladder=_ladder())).waterfall)
    assert points["below_peak/gemm"] == -13.5
    prefix = "below_peak/gemm/"
    assert {key.removeprefix(prefix): value for key, value in points.items() if prefix in key} == {
        "ineff.memory": -0.8,
        "ineff.quantisation": -2.2,
        "ineff.ceiling": -6.0,
        "ineff.kernel": -2.5,
        "ineff.contention": -2.0,
    }
    assert points["below_peak/attention"] == -4.5


def test_a_ladder_that_does_not_add_up_is_a_violation() -> None:
    with pytest.raises(IdentityError, match="the ladder of gemm does not add up"):
        close_books(_example(ladder=_ladder(**{"ineff.memory": 8.001})))


def test_worked_example_every_printed_figure() -> None:
    assert sum(LEAVES_MS.values()) == 1000
    books = _example()
    assert books.model_flop == pytest.approx(3.3626e15)
    assert books.model_flop / RANKS == pytest.approx(420.325e12)
    assert books.executed_total_flop == pytest.approx(RANKS * 442 * MS_OF_PEAK)
    closed = close_books(books)
    assert closed.mfu == pytest.approx(0.425, abs=1e-12)
    assert closed.hfu == pytest.approx(0.442, abs=1e-12)
    assert closed.residual_points == pytest.approx(0.0, abs=1e-9)
    assert closed.capacity_residual_rel is not None
    assert closed.capacity_residual_rel < 1e-12
    points = _flat(closed.waterfall)
    assert [item["id"] for item in closed.waterfall] == [
        "peak",
        "idle",
        "exposed_copy",
        "exposed_communication",
        "other_compute",
        "below_peak",
        "recompute_flop",
        "attention_backward_recompute",
        "convention_credit",
        "residual",
        "mfu",
    ]
    assert points == {
        "peak": 100.0,
        "idle": -12.5,
        "idle/launch_gap": -6.0,
        "idle/launch_gap/gap.launch_latency": -0.5,
        "idle/launch_gap/gap.kernel": -1.5,
        "idle/launch_gap/host.dispatch": -4.0,
        "idle/host": -5.0,
        "idle/host/host.sync": -2.0,
        "idle/host/host.dataloader": -2.5,
        "idle/host/host.gc": -0.5,
        "idle/idle_unknown": -1.5,
        "idle/idle_unknown/idle.unknown": -1.5,
        "exposed_copy": -0.5,
        "exposed_copy/mem.d2d": -0.5,
        "exposed_communication": -9.5,
        "exposed_communication/dp": -9.5,
        "exposed_communication/dp/comm.dp.transfer": -7.0,
        "exposed_communication/dp/comm.dp.wait": -2.5,
        "other_compute": -13.5,
        "other_compute/compute.norm": -3.0,
        "other_compute/compute.softmax": -1.0,
        "other_compute/compute.elementwise": -6.0,
        "other_compute/compute.optimizer": -2.0,
        "other_compute/compute.copy.fsdp": -1.5,
        "below_peak": -19.8,
        "below_peak/gemm": -13.5,
        "below_peak/attention": -4.5,
        "below_peak/recompute": -1.8,
        "recompute_flop": -4.2,
        "attention_backward_recompute": -0.5,
        "convention_credit": 3.0,
        "residual": 0.0,
        "mfu": 42.5,
    }
    # Printed as 13.5 = declared ceiling + unexplained + quantization + contention + memory-bound.
    assert fsum([6.0, 2.5, 2.2, 2.0, 0.8]) == pytest.approx(-points["below_peak/gemm"])
    # 442 - 425 = recompute + flash backward - causal skip.
    assert 442 - 425 == 42 + 5 - 30


def test_what_nothing_explains_is_printed() -> None:
    closed = close_books(_example(credit_flop=0.0))
    assert closed.residual_points == pytest.approx(-3.0)
    assert _flat(closed.waterfall)["residual"] == 3.0


def test_matmuls_of_the_optimizer_have_their_own_bar() -> None:
    closed = close_books(_example(optimizer_flop=RANKS * 10 * MS_OF_PEAK))
    points = _flat(closed.waterfall)
    assert (points["optimizer_flop"], points["residual"]) == (-1.0, 1.0)


def test_padding_is_shown_only_when_known() -> None:
    closed = close_books(_example(padding_flop=RANKS * 2 * MS_OF_PEAK))
    points = _flat(closed.waterfall)
    assert (points["padding"], points["residual"]) == (-0.2, 0.2)
    assert "padding" not in _flat(close_books(_example()).waterfall)


def test_without_executed_flops_one_bar_holds_it_all() -> None:
    closed = close_books(_example(executed_flop=None))
    points = _flat(closed.waterfall)
    assert (closed.hfu, closed.residual_points) == (None, None)
    assert (points["below_peak"], points["mfu"]) == (-21.5, 42.5)
    assert "recompute_flop" not in points


@pytest.mark.parametrize("lacking", ["peak_flop_per_s", "model_flop"])
def test_without_peak_or_flops_the_bars_are_shares_of_time(lacking: str) -> None:
    closed = close_books(_example(**{lacking: None}))
    assert closed.mfu is None
    assert closed.capacity_residual_rel is None
    assert closed.hfu == (pytest.approx(0.442) if lacking == "model_flop" else None)
    last = closed.waterfall[-1]
    assert (last["id"], last["label"]) == ("flop_bearing", "FLOP-bearing time")
    assert _flat([last]) == {
        "flop_bearing": 64.0,
        "flop_bearing/flop.gemm": 50.0,
        "flop_bearing/flop.attn": 8.0,
        "flop_bearing/flop.recompute": 6.0,
    }
    assert fsum(item["points"] for item in closed.waterfall[:-1]) == pytest.approx(64.0, abs=1e-9)


def test_a_single_rank_reads_pipeline_waits_as_bubble() -> None:
    leaves = {"comm.pp.undivided": 30, "flop.gemm": 70}
    single = close_books(Books(leaves=leaves, total_ns=100, single_rank=True))
    several = close_books(Books(leaves=leaves, total_ns=100))
    assert _flat(single.waterfall)["idle/pipeline_bubble"] == -30.0
    assert _flat(several.waterfall)["exposed_communication/pp"] == -30.0


def test_time_that_does_not_sum_is_an_error() -> None:
    with pytest.raises(IdentityError, match="leaves hold 8000000000 ns of a window of 1 ns"):
        close_books(_example(total_ns=1))


FLOP = st.floats(0, 1e22, allow_nan=False)


@given(
    st.dictionaries(st.sampled_from(sorted(LEAF_TITLES)), st.integers(1, 10**15), min_size=1),
    st.floats(1e9, 1e17),
    st.lists(FLOP, min_size=8, max_size=8),
)
def test_bars_always_add_up(leaves: dict[str, int], peak: float, flop: list[float]) -> None:
    books = Books(
        leaves=leaves,
        total_ns=sum(leaves.values()),
        peak_flop_per_s=peak,
        model_flop=flop[0],
        executed_flop={"flop.gemm": flop[1], "flop.attn": flop[2], "flop.conv": flop[3]},
        recompute_flop=flop[4],
        attention_backward_flop=flop[5],
        credit_flop=flop[6],
        padding_flop=flop[7],
    )
    closed = close_books(books)
    *before, last = closed.waterfall
    scale = max(1.0, *(abs(item["points"]) for item in closed.waterfall))
    assert abs(fsum(item["points"] for item in before) - last["points"]) <= 1e-9 * scale
    for item in closed.waterfall:
        for parent in [item, *item.get("children", [])]:
            if parent.get("children"):
                total = fsum(child["points"] for child in parent["children"])
                assert total == parent["points"]
