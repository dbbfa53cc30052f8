"""Is idle time named right, whatever the host did and whatever the recording lacks?

Every scenario of the host is simulated, written as either family of traces, attributed, and
compared with what the event loop says, to the nanosecond and rank by rank.
"""

from collections import Counter
from typing import Any

import pytest
from laboratory import Laboratory, attributed, compare, expected, folded, leaves_between, simulated

import tracelens
from tracelens.simulate import Dialect
from tracelens.simulate.dialect import NSYS_VERSIONS
from tracelens.simulate.recording import FAMILIES
from tracelens.simulate.scenarios_host import HOST

REASON = {
    "last": "last marked step: its end is not marked on the GPU",
    "primed": "first step: kernels queued before the capture ran in it",
    "compiled": "first step: compilation or module loading in it",
}
DECLARED = {
    "S44": {"compute.elementwise", "compute.optimizer"},
    "healthy": {"compute.elementwise", "compute.optimizer", "compute.norm", "compute.softmax"},
}
UNMARKED = {"S41", "S41_periods"}
CASES = [
    pytest.param(
        name,
        family,
        id=f"{name}-{family}",
    )
    for name in HOST
    if name not in {"S31", "S32", "S33", "S44"} | UNMARKED  # below, and test_windows.py
    for family in FAMILIES
]
ALONE = {name for name, scenario in HOST.items() if scenario.job.world_size == 1}
MICROSECONDS = ("single_gpu", "healthy", "S01", "S02", "S06", "S07", *sorted(ALONE - UNMARKED))


@pytest.mark.parametrize(("name", "family"), CASES)
def test_every_nanosecond(lab: Laboratory, name: str, family: str) -> None:
    found, true = lab.answer(name, family), simulated(name).truths[0]
    compare(found, lab.made(name, family).truth, family)
    reasons = {step["step"]: step["reason"] for step in found["window"]["excluded_steps"]}
    assert reasons == {step: REASON[why] for step, why in true.excluded.items()}
    assert found["window"]["steps"] == [step for step, _, _ in true.steps]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_loader_costs_only_what_the_host_did_not_lead(lab: Laboratory, family: str) -> None:
    """S06 and S07: the same loader; a synchronization a step takes the host's lead."""
    assert "host.dataloader" not in lab.answer("S06", family)["time"]["leaves"]
    steps = len(simulated("S07").truths[0].steps)
    leaves = lab.answer("S07", family)["time"]["leaves"]
    assert leaves["host.dataloader"] == steps * 20_000_000
    with tracelens.attribute(list(lab.made("S07", family).traces)) as found:
        rows = found.sql(
            "SELECT detail, sum(end_ns - start_ns)::BIGINT AS dur_ns FROM segment"
            " WHERE leaf = 'host.dataloader' GROUP BY detail"
        ).to_pylist()
    assert rows == [{"detail": "enabled_by=sync", "dur_ns": steps * 20_000_000}]


def test_families_differ_where_one_cannot_know() -> None:
    """Kineto sees no system calls: long ones are unlabelled, short ones look like dispatch."""
    run = simulated("host_os")
    truth, leaves = run.truths[0], run.leaves()
    assert set(truth.seen) == {"kineto"}
    assert leaves["host.blocked"] > 2 * 3_700_000
    assert "host.blocked" not in {item.leaf for item in truth.seen["kineto"]}
    assert "host.unlabelled" not in leaves


@pytest.mark.parametrize("family", FAMILIES)
def test_missing_launches_make_idle_time_unknown(lab: Laboratory, family: str) -> None:
    """S43 is a run whose launches were lost, not another run: nothing else may change."""
    run = simulated("S43")
    calls = [activity.call for activity in run.timelines[0].activities]
    lost = sum(not call.recorded for call in calls)
    assert 0.05 < lost / len(calls) < 0.15
    found = lab.answer("S43", family)["time"]["leaves"]
    true = leaves_between(simulated("S43_complete"), *run.truths[0].window)
    assert "idle.unknown" not in true
    assert found["idle.unknown"] > 0
    assert {leaf: found.get(leaf, 0) for leaf in true if not is_idle(leaf)} == {
        leaf: dur_ns for leaf, dur_ns in true.items() if not is_idle(leaf)
    }
    assert all(found.get(leaf, 0) <= dur_ns for leaf, dur_ns in true.items())


def is_idle(leaf: str) -> bool:
    return leaf.startswith(("host.", "gap.", "idle."))


def test_correlation_ids_are_really_used_again() -> None:
    calls = simulated("S43_repeated_ids").timelines[0].calls
    assert max(Counter(call.correlation for call in calls).values()) > 1


def test_a_graph_needs_no_dispatch() -> None:
    run = simulated("S34")
    leaves = run.leaves()
    launches = [activity for activity in run.timelines[0].activities if activity.step == 1]
    assert leaves["gap.graph"] == 3 * (len(launches) - 1) * 1_500
    assert "host.dispatch" not in leaves


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", ["S31", "S32", "S33"])
def test_odd_matmuls(lab: Laboratory, name: str, family: str) -> None:
    found, run = lab.answer(name, family), simulated(name)
    compare(found, lab.made(name, family).truth, family)
    flops = found["flops"]
    steps = [step for step, _, _ in run.truths[0].steps]
    launched = [work.work.flop for work in run.timelines[0].activities if work.step in steps]
    if family == "kineto":  # Nsight's ranges do not say the types of the operands
        assert flops["executed_flop"] == sum(flop.executed for flop in launched)
        assert flops["model_flop"] == sum(flop.causal for flop in launched)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", ["S44", "healthy"])
def test_a_healthy_job_gets_no_advice(lab: Laboratory, name: str, family: str) -> None:
    """Kernels that are no matmuls were declared; nothing else costs two points or needs advice.

    The kernels of S44 are fused as well as they can be: no rule speaks at all. Those of the small
    model are not, and may be told so.
    """
    found = lab.answer(name, family)
    if name == "S44":
        assert (found["advice"], found["health"]["ok"]) == ([], True)
    compare(found, lab.made(name, family).truth, family)
    others = [loss for loss in found["losses"] if loss["id"] not in DECLARED[name]]
    assert len(others) < len(found["losses"])
    assert [loss["id"] for loss in others if loss["advice"]] == []
    assert [loss["id"] for loss in others if loss["share_points"] > 2] == []


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("name", "leaf"), [("S36", "host.ckpt"), ("S08", "host.dataloader")])
def test_what_holds_up_all_ranks_is_no_ranks_own(
    lab: Laboratory, name: str, leaf: str, family: str
) -> None:
    """S36: all ranks save; S08: one of them loads."""
    causes = {loss.get("cause") for loss in lab.made(name, family).truth["planted"]}
    everywhere = causes == {"global"}
    with tracelens.attribute(list(lab.made(name, family).traces)) as found:
        rows = found.sql(
            "SELECT rank, sum(dur_ns)::BIGINT AS dur_ns,"
            " sum(dur_ns) FILTER (detail LIKE '%cause=global')::BIGINT AS shared_ns"
            f" FROM segment WHERE leaf = '{leaf}' GROUP BY rank"
        ).to_pylist()
    assert len(rows) == (4 if everywhere else 1)
    for row in rows:
        shared_frac = (row["shared_ns"] or 0) / row["dur_ns"]
        assert shared_frac > 0.9 if everywhere else shared_frac == 0
    (loss,) = [loss for loss in lab.answer(name, family)["losses"] if loss["id"] == leaf]
    assert ("cause=global" in loss["evidence"][0]["text"]) == everywhere


@pytest.mark.xfail(strict=True, reason="waits are no intervals yet where ranks are missing")
@pytest.mark.parametrize("family", FAMILIES)
def test_missing_ranks_make_waits_intervals(lab: Laboratory, family: str) -> None:
    truth = lab.made("S39", family).truth
    points = 100 * truth["leaves"]["comm.dp.wait"] / truth["total_ns"]
    losses = lab.answer("S39", family)["losses"]
    (loss,) = [loss for loss in losses if loss["id"] == "comm.dp.wait"]
    assert loss["low_points"] <= points <= loss["high_points"]
    assert loss["low_points"] < loss["high_points"]


@pytest.mark.parametrize("version", [v for v in NSYS_VERSIONS if v != Dialect().nsys])
@pytest.mark.parametrize("name", ["host_dependency", "host_os"])
def test_releases_of_nsight(lab: Laboratory, name: str, version: Any) -> None:
    dialect = Dialect(nsys=version)
    made = lab.made(name, "nsys", dialect=dialect)
    compare(lab.answer(name, "nsys", dialect=dialect), made.truth, "nsys")


@pytest.mark.parametrize("version", ["2022.4", "2023.4"])
def test_old_releases_do_not_say_that_code_was_loaded(lab: Laboratory, version: Any) -> None:
    """They record no overhead of the driver: what is left is a slow call."""
    dialect = Dialect(nsys=version)
    true = expected(lab.made("host_lazy_overhead", "nsys", dialect=dialect).truth, "nsys")
    true["host.cuda_api"] = true.pop("host.compile")
    found = lab.answer("host_lazy_overhead", "nsys", dialect=dialect)["time"]["leaves"]
    assert folded(found) == true


def test_nanoseconds_since_the_epoch(lab: Laboratory) -> None:
    dialect = Dialect(kineto="epoch")
    made = lab.made("single_gpu", "kineto", dialect=dialect)
    compare(lab.answer("single_gpu", "kineto", dialect=dialect), made.truth, "kineto")


@pytest.mark.parametrize("name", MICROSECONDS)
def test_whole_microseconds(lab: Laboratory, name: str) -> None:
    """Each edge of an interval is off by half a microsecond at most, around a common shift.

    Files of that age hold no synchronizations; the calls say enough.
    """
    made = lab.made(name, "kineto", dialect=Dialect(kineto="us"))
    found = attributed(*made.traces)["time"]["leaves"]
    truth, true = simulated(name).truths[0], expected(made.truth, "kineto")
    counts = Counter(item.leaf for item in truth.seen.get("kineto", truth.intervals))
    for leaf in {*found, *true}:
        off_ns = abs(found.get(leaf, 0) - true.get(leaf, 0))
        assert off_ns <= 2 * counts[leaf] * 500, leaf
