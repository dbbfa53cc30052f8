"""Is idle time named right, whatever the host did and whatever the recording lacks?

Every scenario of the host is simulated, written as either family of traces, attributed, and
compared with what the event loop says, to the nanosecond and rank by rank.
"""

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import tracelens
from tracelens.simulate import Dialect, Run, simulate, write
from tracelens.simulate.dialect import NSYS_VERSIONS
from tracelens.simulate.recording import FAMILIES
from tracelens.simulate.scenarios_host import HOST

SUFFIX = {"kineto": ".gz", "nsys": ".sqlite"}
REASON = {
    "last": "last marked step: its end is not marked on the GPU",
    "primed": "first step: kernels queued before the capture ran in it",
    "compiled": "first step: compilation or module loading in it",
}
DECLARED = {"compute.elementwise", "compute.optimizer"}
CASES = [
    pytest.param(
        name,
        family,
        id=f"{name}-{family}",
    )
    for name in HOST
    if name not in {"S31", "S32", "S33", "S41", "S44"}  # below
    for family in FAMILIES
]


@pytest.fixture(scope="module")
def runs() -> dict[str, Run]:
    return {name: simulate(name) for name in (*HOST, "single_gpu")}


def files(run: Run, folder: Path, family: str, dialect: Dialect | None = None) -> list[Path]:
    """Write one family; the truth comes last."""
    return write(run, folder, family, dialect or Dialect())  # type: ignore[arg-type]


def answer(*paths: Path, window: str = "auto") -> dict[str, Any]:
    return tracelens.attribute([str(path) for path in paths], window=window).to_dict()


def compare(paths: list[Path], family: str, window: str = "auto") -> dict[str, Any]:
    """Assert that all leaves of all ranks are those of the truth; return the answer."""
    *traces, truth_path = paths
    truth = json.loads(truth_path.read_text("utf-8"))
    found = answer(*traces, window=window)
    per_rank = {row["rank"]: folded(row["leaves"]) for row in found["time"]["per_rank"]}
    assert per_rank == {row["rank"]: folded(expected(row, family)) for row in truth["per_rank"]}
    assert folded(found["time"]["leaves"]) == folded(expected(truth, family))
    assert found["window"]["total_ns"] == truth["total_ns"]
    assert sum(found["time"]["leaves"].values()) == truth["total_ns"]
    return found


def expected(truth: dict[str, Any], family: str) -> dict[str, int]:
    return truth.get(f"leaves_{family}", truth["leaves"])


def folded(leaves: dict[str, int]) -> dict[str, int]:
    """Communication as one leaf: what is said of its parts is tested elsewhere."""
    sums: Counter[str] = Counter()
    for leaf, dur_ns in leaves.items():
        if dur_ns:
            sums["comm" if leaf.startswith("comm.") else leaf] += dur_ns
    return dict(sums)


@pytest.mark.parametrize(("name", "family"), CASES)
def test_every_nanosecond(runs: dict[str, Run], tmp_path: Path, name: str, family: str) -> None:
    run = runs[name]
    found = compare(files(run, tmp_path, family), family)
    reasons = {step["step"]: step["reason"] for step in found["window"]["excluded_steps"]}
    assert reasons == {step: REASON[why] for step, why in run.truths[0].excluded.items()}
    assert found["window"]["steps"] == [step for step, _, _ in run.truths[0].steps]


@pytest.mark.parametrize("family", FAMILIES)
def test_without_marks(runs: dict[str, Run], tmp_path: Path, family: str) -> None:
    compare(files(runs["S41"], tmp_path, family), family, window="all")


@pytest.mark.parametrize("family", FAMILIES)
def test_steps_are_found_without_marks(runs: dict[str, Run], tmp_path: Path, family: str) -> None:
    """The period is right within a thousandth."""
    run = runs["S41"]
    starts: dict[int, int] = {}
    for activity in run.timelines[0].activities:
        if activity.step is not None:
            starts.setdefault(activity.step, activity.start_ns)
    periods = {after - before for before, after in pairwise(starts.values())}
    assert len(periods) == 1
    *traces, _ = files(run, tmp_path, family)
    found = answer(*traces)
    (period_ns,) = periods
    lengths = [sum(row["leaves"].values()) for row in found["time"]["per_step"]]
    assert len(lengths) >= 3
    assert all(abs(length_ns - period_ns) <= period_ns // 1_000 for length_ns in lengths)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_loader_costs_only_what_the_host_did_not_lead(tmp_path: Path, family: str) -> None:
    """S06 and S07: the same loader; a synchronization a step takes the host's lead."""
    *hidden, _ = files(simulate("S06"), tmp_path / "hidden", family)
    assert "host.dataloader" not in answer(*hidden)["time"]["leaves"]
    run = simulate("S07")
    *exposed, _ = files(run, tmp_path / "exposed", family)
    with tracelens.attribute([str(path) for path in exposed]) as found:
        rows = found.sql(
            "SELECT detail, sum(end_ns - start_ns)::BIGINT AS dur_ns FROM segment"
            " WHERE leaf = 'host.dataloader' GROUP BY detail"
        ).to_pylist()
    steps = len(run.truths[0].steps)
    assert rows == [{"detail": "enabled_by=sync", "dur_ns": steps * 20_000_000}]


def test_families_differ_where_one_cannot_know(runs: dict[str, Run]) -> None:
    """Kineto sees no system calls: long ones are unlabelled, short ones look like dispatch."""
    truth = runs["host_os"].truths[0]
    assert set(truth.seen) == {"kineto"}
    leaves = runs["host_os"].leaves()
    assert leaves["host.blocked"] > 2 * 3_700_000
    assert "host.blocked" not in {item.leaf for item in truth.seen["kineto"]}
    assert "host.unlabelled" not in leaves


def test_missing_launches_make_idle_time_unknown(runs: dict[str, Run]) -> None:
    calls = [activity.call for activity in runs["S43"].timelines[0].activities]
    lost = sum(not call.recorded for call in calls)
    assert 0.05 < lost / len(calls) < 0.15
    assert runs["S43"].leaves()["idle.unknown"] > 0
    complete = simulate("S02").leaves()
    assert "idle.unknown" not in complete


def test_correlation_ids_are_really_used_again(runs: dict[str, Run]) -> None:
    calls = runs["S43_repeated_ids"].timelines[0].calls
    assert max(Counter(call.correlation for call in calls).values()) > 1


def test_a_graph_needs_no_dispatch(runs: dict[str, Run]) -> None:
    leaves = runs["S34"].leaves()
    launches = [activity for activity in runs["S34"].timelines[0].activities if activity.step == 1]
    assert leaves["gap.graph"] == 3 * (len(launches) - 1) * 1_500
    assert "host.dispatch" not in leaves


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", ["S31", "S32", "S33"])
def test_odd_matmuls(runs: dict[str, Run], tmp_path: Path, name: str, family: str) -> None:
    run = runs[name]
    flops = compare(files(run, tmp_path, family), family)["flops"]
    steps = [step for step, _, _ in run.truths[0].steps]
    launched = [work.work.flop for work in run.timelines[0].activities if work.step in steps]
    if family == "kineto":  # Nsight's ranges do not say the types of the operands
        assert flops["executed_flop"] == sum(flop.executed for flop in launched)
        assert flops["model_flop"] == sum(flop.causal for flop in launched)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_healthy_job_gets_no_advice(runs: dict[str, Run], tmp_path: Path, family: str) -> None:
    """S44: pointwise kernels and the optimizer were declared; nothing else costs two points."""
    found = compare(files(runs["S44"], tmp_path, family), family)
    others = [loss for loss in found["losses"] if loss["id"] not in DECLARED]
    assert len(others) < len(found["losses"])
    assert [loss["id"] for loss in others if loss["advice"]] == []
    assert [loss["id"] for loss in others if loss["share_points"] > 2] == []


@pytest.mark.xfail(strict=True, reason="waits are no intervals yet where ranks are missing")
@pytest.mark.parametrize("family", FAMILIES)
def test_missing_ranks_make_waits_intervals(
    runs: dict[str, Run], tmp_path: Path, family: str
) -> None:
    *traces, truth_path = files(runs["S39"], tmp_path, family)
    truth = json.loads(truth_path.read_text("utf-8"))
    points = 100 * truth["leaves"]["comm.dp.wait"] / truth["total_ns"]
    (loss,) = [loss for loss in answer(*traces)["losses"] if loss["id"] == "comm.dp.wait"]
    assert loss["low_points"] <= points <= loss["high_points"]
    assert loss["low_points"] < loss["high_points"]


@pytest.mark.parametrize("version", [v for v in NSYS_VERSIONS if v != Dialect().nsys])
@pytest.mark.parametrize("name", ["host_dependency", "host_os"])
def test_releases_of_nsight(runs: dict[str, Run], tmp_path: Path, name: str, version: Any) -> None:
    compare(files(runs[name], tmp_path, "nsys", Dialect(nsys=version)), "nsys")


def test_nanoseconds_since_the_epoch(runs: dict[str, Run], tmp_path: Path) -> None:
    paths = files(runs["single_gpu"], tmp_path, "kineto", Dialect(kineto="epoch"))
    compare(paths, "kineto")


@pytest.mark.parametrize("name", ["single_gpu", "S37", "S42"])
def test_whole_microseconds(runs: dict[str, Run], tmp_path: Path, name: str) -> None:
    """Each edge of an interval is off by half a microsecond at most, around a common shift."""
    run = runs[name]
    *traces, truth_path = files(run, tmp_path, "kineto", Dialect(kineto="us"))
    truth = json.loads(truth_path.read_text("utf-8"))
    found = answer(*traces)["time"]["leaves"]
    counts = Counter(item.leaf for item in run.truths[0].intervals)
    for leaf in {*found, *truth["leaves"]}:
        off_ns = abs(found.get(leaf, 0) - truth["leaves"].get(leaf, 0))
        assert off_ns <= 2 * counts[leaf] * 500, leaf
