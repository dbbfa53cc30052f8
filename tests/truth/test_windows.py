"""Are steps found where they are, whatever shows them, and is each of them told apart?"""

import pytest
from laboratory import Laboratory, compare, folded, leaves_between, simulated

from tracelens.simulate import Run
from tracelens.simulate.actions import MAIN_STREAM
from tracelens.simulate.recording import FAMILIES

SOURCES = [
    ("S42", "kineto", "profiler_step"),
    ("S42", "nsys", "nvtx"),
    *(("S41", family, "optimizer") for family in FAMILIES),
    *(("S41_periods", family, "autocorrelation") for family in FAMILIES),
]
EXCLUDED = {
    "profiler_step": {
        1: "first step: kernels queued before the capture ran in it",
        4: "last marked step: its end is not marked on the GPU",
    },
    "optimizer": {
        0: "the recording began inside it",
        5: "last marked step: its end is not marked on the GPU",
    },
    "autocorrelation": {5: "last marked step: its end is not marked on the GPU"},
}
EXCLUDED["nvtx"] = EXCLUDED["profiler_step"]


def edges(run: Run) -> dict[int, int]:
    """When the first compute kernel of each step began on the main stream."""
    starts: dict[int, int] = {}
    for activity in run.timelines[0].activities:
        compute = activity.work.leaf.startswith(("flop.", "compute."))
        if activity.step is not None and compute and activity.stream == MAIN_STREAM:
            starts.setdefault(activity.step, activity.start_ns)
    return starts


@pytest.mark.parametrize(("name", "family", "source"), SOURCES)
def test_each_step_is_where_it_was(lab: Laboratory, name: str, family: str, source: str) -> None:
    run, found = simulated(name), lab.answer(name, family)
    starts = edges(run)
    assert found["window"]["source"] == source
    excluded = {step["step"]: step["reason"] for step in found["window"]["excluded_steps"]}
    assert excluded == EXCLUDED[source]
    steps = found["window"]["steps"]
    assert len(steps) >= 2
    assert {row["step"]: folded(row["leaves"]) for row in found["time"]["per_step"]} == {
        step: leaves_between(run, starts[step], starts[step + 1]) for step in steps
    }


@pytest.mark.parametrize("family", FAMILIES)
def test_the_period_is_right_within_a_thousandth(lab: Laboratory, family: str) -> None:
    """With durations that scatter the periods differ; each is found."""
    run, found = simulated("S41_periods", 0.03), lab.answer("S41_periods", family, 0.03)
    assert found["window"]["source"] == "autocorrelation"
    starts = edges(run)
    lengths = {row["step"]: sum(row["leaves"].values()) for row in found["time"]["per_step"]}
    assert len(lengths) == 5
    for step, length_ns in lengths.items():
        period_ns = starts[step + 1] - starts[step]
        assert abs(length_ns - period_ns) <= period_ns // 1_000


@pytest.mark.parametrize("family", FAMILIES)
def test_the_whole_trace_needs_no_marks(lab: Laboratory, family: str) -> None:
    compare(lab.answer("S41", family, window="all"), lab.made("S41", family).truth, family)
