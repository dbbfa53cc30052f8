"""Is the truth a truth? Checked against the scenario table and a second reading of the timeline."""

from itertools import pairwise

import pytest

from tracelens.errors import UsageError
from tracelens.simulate import SCENARIOS, Run, simulate
from tracelens.simulate.scenarios_parallel import PARALLEL
from tracelens.taxonomy import LEAF_TITLES

US = 1_000
SERIAL = [name for name in SCENARIOS if name not in PARALLEL]


@pytest.fixture(scope="module")
def runs() -> dict[str, Run]:
    return {name: simulate(name) for name in SERIAL}


def step_leaves(run: Run, rank: int, step: int) -> tuple[int, dict[str, int]]:
    truth = run.truths[rank]
    _, start_ns, end_ns = truth.steps[step]
    sums: dict[str, int] = {}
    for item in truth.intervals:
        low, high = max(item.start_ns, start_ns), min(item.end_ns, end_ns)
        if low < high:
            sums[item.leaf] = sums.get(item.leaf, 0) + high - low
    return end_ns - start_ns, sums


@pytest.mark.parametrize("name", SERIAL)
def test_intervals_tile_the_window(runs: dict[str, Run], name: str) -> None:
    for truth in runs[name].truths:
        assert truth.intervals[0].start_ns == truth.window[0]
        assert truth.intervals[-1].end_ns == truth.window[1]
        assert all(a.end_ns == b.start_ns for a, b in pairwise(truth.intervals))
        assert all(item.start_ns < item.end_ns for item in truth.intervals)
        assert {item.leaf for item in truth.intervals} <= set(LEAF_TITLES)
    assert sum(runs[name].leaves().values()) == runs[name].window_ns


@pytest.mark.parametrize("name", SERIAL)
def test_planted_leaves_hold_time(runs: dict[str, Run], name: str) -> None:
    run = runs[name]
    for loss in run.details.losses:
        assert all(run.leaves().get(leaf, 0) > 0 for leaf in loss.leaves), loss.id
        assert run.without[loss.id] < run.window_ns


@pytest.mark.parametrize("name", SERIAL)
def test_busy_time_against_a_second_reading(runs: dict[str, Run], name: str) -> None:
    """Between two boundaries the set of running activities is constant: read it off again."""
    run = runs[name]
    for timeline, truth in zip(run.timelines, run.truths, strict=True):
        marks = sorted(
            {time for item in timeline.activities for time in (item.start_ns, item.end_ns)}
            | {item.start_ns for item in truth.intervals}
        )
        for low, high in pairwise(marks):
            found = [item for item in truth.intervals if item.start_ns <= low < item.end_ns]
            active = [item for item in timeline.activities if item.start_ns <= low < item.end_ns]
            if found:
                assert len(found) == 1
                assert found[0].end_ns >= high
                assert found[0].leaf.startswith(expected_prefix(active))


def expected_prefix(active: list) -> tuple[str, ...]:  # type: ignore[type-arg]
    leaves = [item.work.leaf for item in active]
    for root in ("flop.", "compute.", "comm", "mem."):
        chosen = tuple(leaf for leaf in leaves if leaf.startswith(root))
        if chosen:
            return chosen
    return ("host.", "gap.", "idle.")


def test_ideal_step(runs: dict[str, Run]) -> None:
    """S01 of the table: 97 kernels, 97 gaps of 1 us."""
    assert step_leaves(runs["S01"], 0, 1) == (
        26_637 * US,
        {
            "flop.gemm": 16 * 1_200 * US,
            "flop.attn": 16 * 350 * US,
            "compute.elementwise": 16 * 90 * US,
            "compute.optimizer": 300 * US,
            "gap.kernel": 97 * US,
        },
    )


def test_hidden_loader_costs_nothing(runs: dict[str, Run]) -> None:
    assert step_leaves(runs["S06"], 0, 1) == step_leaves(runs["S01"], 0, 1)


def test_exposed_loader_is_not_called_a_synchronization(runs: dict[str, Run]) -> None:
    total_ns, leaves = step_leaves(runs["S07"], 0, 1)
    assert round(total_ns / US) == 46_648
    assert leaves["host.dataloader"] == 20_000 * US
    assert leaves["host.sync"] == 5_900  # return of the call, and the dispatch after the loader
    assert leaves["gap.launch_latency"] == 6 * US


def test_launch_bound_step(runs: dict[str, Run]) -> None:
    """S02: 23 us a launch, and 4 us a micro-batch to hand over to the autograd thread."""
    total_ns, leaves = step_leaves(runs["S02"], 0, 1)
    assert total_ns == (97 * 23 + 4 * 4) * US
    assert leaves["flop.gemm"] == 16 * 60 * US
    assert leaves["host.dispatch"] > leaves["gap.launch_latency"] > 0


def test_only_the_last_bucket_is_exposed(runs: dict[str, Run]) -> None:
    for rank in range(4):
        total_ns, leaves = step_leaves(runs["S09"], rank, 1)
        assert total_ns == 26_938 * US
        # The last bucket, and 1 us between two kernels under each of the hidden ones' ends.
        assert 300 * US <= leaves["comm.dp.transfer"] <= 306 * US
        assert "comm.dp.wait" not in leaves


def test_waits_are_blamed_on_the_straggler(runs: dict[str, Run]) -> None:
    for name, slow in (("S13", 3), ("data_parallel", 2)):
        for truth in runs[name].truths:
            waits = [item for item in truth.intervals if item.leaf == "comm.dp.wait"]
            assert {item.blamed_rank for item in waits} == (set() if truth.rank == slow else {slow})


def test_a_healthy_job_has_no_planted_loss(runs: dict[str, Run]) -> None:
    leaves = runs["healthy"].leaves()
    assert not [leaf for leaf in leaves if leaf.startswith(("host.", "comm."))]
    gap_ns = sum(dur_ns for leaf, dur_ns in leaves.items() if leaf.startswith("gap."))
    assert gap_ns < 0.02 * runs["healthy"].window_ns


def test_unknown_scenario_names_the_known_ones() -> None:
    with pytest.raises(UsageError, match="unknown scenario 'S99'") as caught:
        simulate("S99")
    assert "single_gpu" in caught.value.hint


def test_seed_moves_clocks_and_ids_only() -> None:
    first, second = simulate("single_gpu", seed=0), simulate("single_gpu", seed=7)
    assert first.leaves() == second.leaves()
    assert first.timelines[0].pid != second.timelines[0].pid
