"""Is the answer right for parallel jobs, to the nanosecond, read from either family of traces?"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import tracelens
from tracelens.simulate import simulate, write
from tracelens.simulate.scenarios_parallel import PARALLEL

SIGMA = 0.03
SCATTERED = ("S08", "S24", "S27b", "S29")
ONE_RANK = (("S17", 1), ("S24", 5), ("S29", 0))


@dataclass
class Sample:
    traces: list[Path]
    truth: dict[str, Any]

    def paths(self, family: str) -> list[str]:
        suffix = {"kineto": ".gz", "nsys": ".sqlite"}[family]
        return [str(path) for path in self.traces if path.suffix == suffix]


Samples = Callable[..., Sample]


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Samples:
    made: dict[tuple[str, float], Sample] = {}

    def make(scenario: str, jitter: float = 0.0) -> Sample:
        key = (scenario, jitter)
        if key not in made:
            folder = tmp_path_factory.mktemp(scenario)
            run = simulate(scenario, jitter=jitter)
            *traces, truth = write(run, folder, "kineto" if jitter else "both")
            made[key] = Sample(traces, json.loads(truth.read_text("utf-8")))
        return made[key]

    return make


def folded(scenario: str, leaves: dict[str, int]) -> dict[str, int]:
    """Each dimension of communication as one leaf: neither who waited nor what is a bubble."""
    sums: dict[str, int] = {}
    for leaf, dur_ns in leaves.items():
        stem = "comm.pp" if leaf.startswith("pp.bubble.") else leaf
        if leaf.startswith("comm."):
            stem = leaf.rpartition(".")[0]
        if scenario == "S21" and stem == "comm.world":  # the part of the bubble that moved there
            stem = "comm.pp"
        if dur_ns:
            sums[stem] = sums.get(stem, 0) + dur_ns
    return sums


@pytest.mark.parametrize("family", ["kineto", "nsys"])
@pytest.mark.parametrize("scenario", PARALLEL)
def test_every_leaf_of_every_rank(sample: Samples, scenario: str, family: str) -> None:
    made = sample(scenario)
    found = tracelens.attribute(made.paths(family)).to_dict()
    assert found["window"]["total_ns"] == made.truth["total_ns"]
    assert {row["rank"]: folded(scenario, row["leaves"]) for row in found["time"]["per_rank"]} == {
        row["rank"]: folded(scenario, row.get(f"leaves_{family}", row["leaves"]))
        for row in made.truth["per_rank"]
    }


@pytest.mark.parametrize("scenario", SCATTERED)
def test_durations_that_scatter(sample: Samples, scenario: str) -> None:
    made = sample(scenario, SIGMA)
    found = tracelens.attribute(made.paths("kineto")).to_dict()["time"]["leaves"]
    expected = folded(scenario, made.truth["leaves"])
    answer = folded(scenario, found)
    tolerance_ns = 0.005 * made.truth["total_ns"]
    for leaf in {*answer, *expected}:
        assert abs(answer.get(leaf, 0) - expected.get(leaf, 0)) <= tolerance_ns, leaf
    assert sum(answer.values()) == sum(expected.values())


@pytest.mark.parametrize(("scenario", "rank"), ONE_RANK)
def test_one_rank_cannot_divide_communication(sample: Samples, scenario: str, rank: int) -> None:
    made = sample(scenario)
    found = tracelens.attribute(made.paths("kineto")[rank]).to_dict()["time"]["leaves"]
    expected = made.truth["per_rank"][rank]["leaves_one_rank"]
    assert {leaf: dur_ns for leaf, dur_ns in found.items() if dur_ns} == expected
