"""Is the answer right? The shipped samples against what the simulator knows about them."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import tracelens

FAMILIES = ("kineto", "nsys")
SCENARIOS = ("single_gpu", "data_parallel")


def truth_of(samples: Path, scenario: str) -> dict[str, Any]:
    folder = samples if scenario == "single_gpu" else samples / scenario
    return json.loads((folder / f"{scenario}.truth.json").read_text("utf-8"))


def traces(samples: Path, scenario: str, family: str) -> list[Path]:
    folder = samples if scenario == "single_gpu" else samples / scenario
    if family == "nsys":
        return [folder / f"{scenario}.sqlite"]
    if scenario == "single_gpu":
        return [folder / "single_gpu.json.gz"]
    return [folder / f"rank{rank}.json.gz" for rank in range(4)]


@cache
def answer(*paths: Path) -> dict[str, Any]:
    return tracelens.attribute([str(path) for path in paths]).to_dict()


def nonzero(leaves: dict[str, int]) -> dict[str, int]:
    return {leaf: dur_ns for leaf, dur_ns in leaves.items() if dur_ns}


def folded(leaves: dict[str, int]) -> dict[str, int]:
    """Communication as one leaf: neither its dimension nor who waited."""
    sums: dict[str, int] = {}
    for leaf, dur_ns in nonzero(leaves).items():
        key = "comm" if leaf.startswith("comm.") else leaf
        sums[key] = sums.get(key, 0) + dur_ns
    return sums


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_nanosecond(samples: Path, scenario: str, family: str) -> None:
    truth = truth_of(samples, scenario)
    found = answer(*traces(samples, scenario, family))
    time = found["time"]
    assert folded(time["leaves"]) == folded(truth["leaves"])
    assert found["window"]["total_ns"] == truth["total_ns"]
    per_rank = {row["rank"]: folded(row["leaves"]) for row in time["per_rank"]}
    assert per_rank == {row["rank"]: folded(row["leaves"]) for row in truth["per_rank"]}
    per_step = {(row["rank"], row["step"]): folded(row["leaves"]) for row in time["per_step"]}
    assert per_step == {
        (rank["rank"], step["step"]): folded(step["leaves"])
        for rank in truth["per_rank"]
        for step in rank["steps"]
    }


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_both_families_give_the_same_leaves(samples: Path, scenario: str) -> None:
    kineto, nsys = (answer(*traces(samples, scenario, family)) for family in FAMILIES)
    for part in ("leaves", "groups", "per_rank", "per_step"):
        assert kineto["time"][part] == nsys["time"][part], part


@pytest.mark.parametrize("family", FAMILIES)
def test_waiting_and_transfer(samples: Path, family: str) -> None:
    time = answer(*traces(samples, "data_parallel", family))["time"]
    assert nonzero(time["leaves"]) == truth_of(samples, "data_parallel")["leaves"]


@pytest.mark.parametrize("rank", range(4))
def test_one_rank_of_four_cannot_divide_communication(samples: Path, rank: int) -> None:
    truth = truth_of(samples, "data_parallel")
    found = answer(samples / "data_parallel" / f"rank{rank}.json.gz")
    assert nonzero(found["time"]["leaves"]) == truth["per_rank"][rank]["leaves_one_rank"]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_flops_from_shapes(samples: Path, scenario: str) -> None:
    steps = [step for rank in truth_of(samples, scenario)["per_rank"] for step in rank["steps"]]
    flops = answer(*traces(samples, scenario, "kineto"))["flops"]
    assert flops["executed_flop"] == sum(step["executed_flop"] for step in steps)
    assert flops["model_flop"] == sum(step["model_flop_causal"] for step in steps)
