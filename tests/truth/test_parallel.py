"""Is the answer right for parallel jobs, to the nanosecond, read from either family of traces?"""

import pytest
from laboratory import Laboratory, attributed, closes, expected

from tracelens.simulate.recording import FAMILIES
from tracelens.simulate.scenarios_parallel import PARALLEL

SIGMA = 0.03
SCATTERED = [(name, FAMILIES[at % 2]) for at, name in enumerate(PARALLEL)]
ONE_RANK = (("S17", 1), ("S24", 5), ("S29", 0))


def by_dimension(scenario: str, leaves: dict[str, int]) -> dict[str, int]:
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


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("scenario", PARALLEL)
def test_every_leaf_of_every_rank(lab: Laboratory, scenario: str, family: str) -> None:
    truth, found = lab.made(scenario, family).truth, lab.answer(scenario, family)
    closes(found, truth)
    assert {
        row["rank"]: by_dimension(scenario, row["leaves"]) for row in found["time"]["per_rank"]
    } == {row["rank"]: by_dimension(scenario, expected(row, family)) for row in truth["per_rank"]}


@pytest.mark.parametrize(("scenario", "family"), SCATTERED)
def test_durations_that_scatter(lab: Laboratory, scenario: str, family: str) -> None:
    truth, found = lab.made(scenario, family, SIGMA).truth, lab.answer(scenario, family, SIGMA)
    true = by_dimension(scenario, expected(truth, family))
    answer = by_dimension(scenario, found["time"]["leaves"])
    for leaf in {*answer, *true}:
        off_ns = abs(answer.get(leaf, 0) - true.get(leaf, 0))
        assert off_ns <= 0.005 * truth["total_ns"], leaf
    closes(found, truth)


@pytest.mark.parametrize(("scenario", "rank"), ONE_RANK)
def test_one_rank_cannot_divide_communication(lab: Laboratory, scenario: str, rank: int) -> None:
    made = lab.made(scenario, "kineto")
    found = attributed(made.traces[rank])["time"]["leaves"]
    expected_leaves = made.truth["per_rank"][rank]["leaves_one_rank"]
    assert {leaf: dur_ns for leaf, dur_ns in found.items() if dur_ns} == expected_leaves
