"""The steps below the peak: the worked example, clamps, abstention, and sums to the nanosecond."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracelens.flops.ladder.alone import time_alone
from tracelens.flops.ladder.grid import Grids, use_of
from tracelens.flops.ladder.overlap import covered_ns
from tracelens.flops.ladder.steps import SIGNED, STEPS, Instances, climb_all, factors

NAN = float("nan")
H100 = 989e12
M, N, K = 16_384, 14_336, 4_096
FLOP = 2.0 * M * N * K


def instances(**columns: Any) -> Instances:
    """Kernels at the peak of their format; what is not given is not known."""
    count = len(columns["owned_ns"])
    given = {"dur_ns": columns["owned_ns"], "peak": [H100] * count, "beside": [0.0] * count}
    names = Instances.__dataclass_fields__
    values = {name: [NAN] * count for name in names} | given | columns
    kinds = {name: np.int64 if name in {"owned_ns", "dur_ns"} else np.float64 for name in names}
    return Instances(**{name: np.array(values[name], kinds[name]) for name in names})


def use(m: int, n: int, tile: tuple[int, int], blocks: int, **more: Any) -> tuple[float, float]:
    """Factors of SM budget and of quantisation."""
    one = {"m": m, "n": n, "batch": 1, "tile_m": tile[0], "tile_n": tile[1], "blocks": blocks}
    one |= {"sms": 132} | {name: value for name, value in more.items() if name != "schedule"}
    schedule = np.array([more.get("schedule", "tiles")], object)
    arrays = {name: np.array([value], np.int64) for name, value in one.items()}
    found = use_of(Grids(**arrays, schedule=schedule))
    return float(found.sm_factor[0]), float(found.quantisation[0])


def test_the_worked_example() -> None:
    """Accounting model, 2.5: bf16, tiles of 128 x 256, 132 SMs, ceiling 0.803."""
    _, quantisation = use(M, N, (128, 256), 132, schedule="persistent")
    assert quantisation == pytest.approx(1.01284, abs=1e-5)
    moved = 2.0 * (M * K + K * N + M * N)
    assert moved / 3.35e12 == pytest.approx(215e-6, rel=0.005)
    found = climb_all(
        instances(
            owned_ns=[2_600_000, 2_860_000],
            flop=[FLOP] * 2,
            rate=[H100] * 2,
            bytes=[moved] * 2,
            bandwidth=[3.35e12] * 2,
            sm_factor=[1.0] * 2,
            quantisation=[quantisation] * 2,
            ceiling=[0.803] * 2,
            alone_ns=[2_600_000.0] * 2,
            beside=[0.0, 1.0],
        )
    )
    micro = {step: float(loss[1]) / 1e3 for step, loss in found.losses().items()}
    assert found.ideal_ns[1] / 1e3 == pytest.approx(1_945.5, abs=0.1)
    assert found.bounds["quantisation"][1] / 1e3 == pytest.approx(1_970.5, abs=0.1)
    assert found.bounds["ceiling"][1] / 1e3 == pytest.approx(2_453.9, abs=0.1)
    assert micro == {
        "precision": 0.0,
        "memory": 0.0,
        "sm_reserved": 0.0,
        "quantisation": pytest.approx(25.0, abs=0.1),
        "clock": 0.0,
        "ceiling": pytest.approx(483.4, abs=0.1),
        "kernel": pytest.approx(146.1, abs=0.1),
        "contention": pytest.approx(260.0, abs=0.1),
        "faster_than_peak": 0.0,
        "sharing": 0.0,
    }
    assert sum(micro.values()) == pytest.approx(914.5, abs=0.1)
    whole = {step: int(loss[1]) for step, loss in found.losses_ns().items()}
    assert sum(whole.values()) == 2_860_000 - round(FLOP / H100 * 1e9)
    assert found.losses_ns()["contention"].tolist() == [0, 260_000]


def test_without_evidence_the_time_stays_with_the_kernel() -> None:
    found = climb_all(instances(owned_ns=[5_000], flop=[H100 * 1e-6], beside=[0.7]))
    assert found.losses_ns()["kernel"].tolist() == [4_000]
    told = {step for step in STEPS if found.known[step][0]}
    assert told == {"kernel"}


def test_a_clock_makes_the_declared_ceiling_useless() -> None:
    found = climb_all(instances(owned_ns=[5_000], flop=[H100 * 1e-6], clock=[0.5], ceiling=[0.25]))
    losses = found.losses_ns()
    assert (losses["clock"][0], losses["ceiling"][0], losses["kernel"][0]) == (1_000, 0, 3_000)
    assert not found.known["ceiling"][0]


def test_arithmetic_hides_behind_memory() -> None:
    """A tile seven eighths empty does not slow down a kernel that waits for memory anyway."""
    found = climb_all(
        instances(
            owned_ns=[10_000],
            flop=[H100 * 1e-6],
            bytes=[9e6],
            bandwidth=[1e12],
            sm_factor=[1.0],
            quantisation=[8.0],
        )
    )
    losses = found.losses_ns()
    assert (losses["memory"][0], losses["quantisation"][0], losses["kernel"][0]) == (
        8_000,
        0,
        1_000,
    )


def test_faster_than_its_peak_is_an_alarm_that_keeps_the_sum() -> None:
    found = climb_all(
        instances(owned_ns=[900, 990, 1_000], flop=[H100 * 1e-6] * 3, rate=[H100] * 3)
    )
    assert found.is_faster.tolist() == [True, False, False]
    assert found.losses_ns()["faster_than_peak"].tolist() == [-100, 0, 0]
    assert found.losses_ns()["sharing"].tolist() == [0, -10, 0]


def test_a_kernel_that_shared_its_time_is_not_faster_than_its_peak() -> None:
    """Two kernels side by side for 1 us split it equally; one did four fifths of the work."""
    found = climb_all(
        instances(
            owned_ns=[500, 500],
            dur_ns=[1_000, 1_000],
            flop=[H100 * 0.8e-6, H100 * 0.1e-6],
            rate=[H100] * 2,
        )
    )
    assert not found.is_faster.any()
    assert found.losses_ns()["sharing"].tolist() == [-300, 0]
    assert found.losses_ns()["kernel"].tolist() == [0, 400]


def test_a_faster_format_is_a_gain() -> None:
    found = climb_all(instances(owned_ns=[900], flop=[H100 * 1e-6], rate=[2 * H100]))
    assert found.losses_ns()["precision"].tolist() == [-500]
    assert found.losses_ns()["kernel"].tolist() == [400]


_number = st.floats(0.01, 100.0)
_maybe = st.one_of(st.just(NAN), _number)


@settings(max_examples=200, deadline=None)
@given(
    st.integers(0, 10**7),
    st.floats(0, 1e16),
    st.tuples(_maybe, _maybe, _maybe, _maybe, _maybe, _maybe),
    st.floats(0, 1),
)
def test_losses_sum_to_the_nanosecond(
    owned_ns: int, flop: float, facts: tuple[float, ...], beside: float
) -> None:
    rate, moved, sms, quantisation, clock, alone = facts
    found = climb_all(
        instances(
            owned_ns=[owned_ns],
            flop=[flop],
            rate=[rate * H100],
            bytes=[moved * 1e9],
            bandwidth=[3.35e12],
            sm_factor=[max(sms, 1.0)],
            quantisation=[max(quantisation, 1.0)],
            clock=[clock],
            alone_ns=[alone * 1e6],
            beside=[beside],
        )
    )
    losses = {step: int(loss[0]) for step, loss in found.losses_ns().items()}
    assert sum(losses.values()) == owned_ns - int(np.rint(found.ideal_ns[0]))
    assert all(losses[step] >= 0 for step in STEPS[1:])
    assert all(losses[step] <= 0 for step in SIGNED)
    exact = sum(float(loss[0]) for loss in found.losses().values())
    assert exact == pytest.approx(owned_ns - found.ideal_ns[0], rel=1e-9, abs=1e-3)


def test_factors_do_not_depend_on_the_order() -> None:
    given_ = instances(
        owned_ns=[8_000],
        flop=[H100 * 1e-6],
        rate=[H100 / 2],
        sm_factor=[1.25],
        quantisation=[1.6],
        clock=[0.8],
    )
    found = {step: float(value[0]) for step, value in factors(given_, climb_all(given_)).items()}
    assert found["precision"] == 0.5
    assert found["sm_reserved"] == 0.8
    assert found["quantisation"] == 0.625
    assert found["clock"] == 0.8
    assert found["kernel"] == pytest.approx(0.625)
    known = [value for value in found.values() if not np.isnan(value)]
    assert np.prod(known) == pytest.approx(1_000 / 8_000)


@pytest.mark.parametrize(
    ("m", "n", "tile", "blocks", "more", "expected"),
    [
        # 133 tiles on 132 SMs: two waves for one tile.
        (17_024, 128, (128, 128), 133, {}, (1.0, 2 * 132 / 133)),
        # A persistent grid of 112 on 132 SMs, 4 096 tiles in 37 rounds.
        (
            8_192,
            8_192,
            (128, 128),
            112,
            {"schedule": "persistent"},
            (132 / 112, 37 * 112 / 4_096),
        ),
        # 788 rows in tiles of 64: 6 x 13 tiles, a grid padded to 8 x 13.
        (788, 768, (128, 64), 104, {}, (1.0, 13 * 64 / 788 * 132 / 78)),
        # Blocks share tiles along K: only the padding is known.
        (512, 512, (128, 128), 64, {}, (1.0, 1.0)),
        (500, 512, (128, 128), 16, {"schedule": "split_k"}, (1.0, 512 / 500)),
        # Fewer blocks than tiles, and the name says one each: the tile was misread.
        (8_192, 8_192, (128, 128), 112, {}, (NAN, NAN)),
        # Rows along the other side of the tile: the grid says which.
        (256, 1_000, (256, 128), 8, {"sms": 8}, (1.0, 1_024 / 1_000)),
        # Far more blocks than tiles and no multiple of them.
        (512, 512, (128, 128), 1_001, {}, (NAN, NAN)),
        (512, 512, (0, 128), 16, {}, (NAN, NAN)),
        (512, 512, (128, 128), 0, {}, (NAN, NAN)),
        (512, 512, (128, 128), 16, {"sms": 0}, (NAN, NAN)),
    ],
)
def test_what_a_grid_allows(
    m: int,
    n: int,
    tile: tuple[int, int],
    blocks: int,
    more: dict[str, Any],
    expected: tuple[float, float],
) -> None:
    assert use(m, n, tile, blocks, **more) == pytest.approx(expected, nan_ok=True)


def test_covered_time_counts_overlapping_intervals_once() -> None:
    start, end = np.array([0, 10, 40, 90]), np.array([10, 30, 80, 95])
    by = np.array([5, 15, 12, 60, 60]), np.array([12, 25, 18, 70, 60])
    assert covered_ns(start, end, *by).tolist() == [5, 2 + 13, 10, 0]
    nothing = np.array([], np.int64)
    assert covered_ns(start, end, nothing, nothing).tolist() == [0, 0, 0, 0]


def test_time_alone_is_a_median_of_three_or_more() -> None:
    key = np.array([0, 0, 0, 0, 1, 1, 1])
    owned = np.array([100, 130, 90, 110, 50, 60, 70])
    beside = np.array([0, 130, 0, 0, 0, 0, 70])
    found = time_alone(key, owned, beside, np.ones(7, bool))
    assert found.ns[:4].tolist() == [100.0] * 4
    assert np.isnan(found.ns[4:]).all()
    assert found.count.tolist() == [3, 3, 3, 3, 2, 2, 2]


def test_time_alone_is_fitted_where_nothing_ran_alone() -> None:
    """Progress at 1/1.3 beside a transfer: each ns beside it costs 0.3/1.3 ns more."""
    beside = np.array([200, 400, 700, 900, 1_100, 1_300])
    owned = np.rint(1_000 + beside * 0.3 / 1.3).astype(np.int64)
    found = time_alone(np.zeros(6, np.int64), owned, beside, np.ones(6, bool))
    assert found.is_fitted.all()
    assert found.ns[0] == pytest.approx(1_000, abs=2)
    alike = time_alone(np.zeros(6, np.int64), owned, np.full(6, 900), np.ones(6, bool))
    assert np.isnan(alike.ns).all()


def test_what_always_ran_beside_something_tells_no_time_alone() -> None:
    """Found in a real run: the time beside is the duration then, and the line goes through 0."""
    owned = np.array([17_440, 29_440, 47_103, 44_767, 49_408, 17_696, 30_848, 46_112])
    found = time_alone(np.zeros(8, np.int64), owned, owned.copy(), np.ones(8, bool))
    assert np.isnan(found.ns).all()
    nearly = owned - np.array([0, 0, 0, 0, 0, 0, 900, 0])
    found = time_alone(np.zeros(8, np.int64), owned, nearly, np.ones(8, bool))
    assert np.isnan(found.ns).all()
