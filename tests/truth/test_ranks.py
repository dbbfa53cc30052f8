"""Who waited for whom? Every rank of every parallel job, against what the simulator knows."""

from collections import Counter
from typing import Any

import pytest
from laboratory import Laboratory, Made, attributed, expected

import tracelens
from tracelens.simulate.scenarios_parallel import PARALLEL

SIGMA = 0.03
ONE_WAY = {"cp_ring"}
"""Messages that only ever go one way between two ranks do not tell how far clocks are apart."""
SILENT = {"S17", "S18", "S19", "S20", "S25", "S26", "zb_h1", "cp_ring"}
"""Without process groups, streams of a pipeline do not tell who is at the other end."""
PARTLY = {"S21", "S24", "S45"}

Blame = Counter[tuple[int, int | None]]


def waits_in(made: Made) -> Blame:
    """What is true: waiting time by rank and by the rank that came last."""
    found: Blame = Counter()
    for row in made.truth["per_rank"]:
        for start_ns, end_ns, leaf, _, blamed in row["intervals"]:
            if leaf.endswith(".wait"):
                found[row["rank"], blamed] += end_ns - start_ns
    return found


def waits_of(made: Made) -> tuple[Blame, dict[str, Any]]:
    """What the program says, and its whole answer."""
    with tracelens.attribute(list(made.traces)) as run:
        rows = run.sql(
            "SELECT rank, blamed_rank, sum(dur_ns)::BIGINT AS dur_ns FROM segment "
            "WHERE leaf LIKE 'comm.%.wait' OR leaf LIKE 'pp.bubble.%' AND activity_id IN "
            "(SELECT activity_id FROM collective) GROUP BY ALL"
        ).to_pylist()
        answer = run.to_dict()
    return Counter({(r["rank"], r["blamed_rank"]): r["dur_ns"] for r in rows}), answer


def comm(leaves: dict[str, int]) -> dict[str, int]:
    return {leaf: ns for leaf, ns in leaves.items() if leaf.startswith("comm.") and ns}


def is_never_wrong(found: Blame, true: Blame) -> bool:
    """Nobody waits longer for a rank than it is true; some of it may not be told."""
    named = {pair: ns for pair, ns in found.items() if pair[1] is not None}
    return all(ns <= true[pair] for pair, ns in named.items())


@pytest.mark.parametrize("sigma", [0.0, SIGMA])
@pytest.mark.parametrize("scenario", sorted(set(PARALLEL) - ONE_WAY))
def test_waits_and_who_is_waited_for(lab: Laboratory, scenario: str, sigma: float) -> None:
    made = lab.made(scenario, "kineto", sigma)
    found, answer = waits_of(made)
    if not any(leaf.startswith("pp.") for leaf in answer["time"]["leaves"]):
        assert comm(answer["time"]["leaves"]) == comm(expected(made.truth, "kineto"))
    true = waits_in(made)
    if sigma:
        # Two that came at the same nanosecond are not told apart.
        assert is_never_wrong(found, true)
        assert sum(found.values()) == sum(true.values())
    else:
        assert found == true
    if len(made.traces) > 1:
        assert answer["run"]["clock_alignment"]["epsilon_ns"] == 0


@pytest.mark.parametrize("scenario", sorted(PARALLEL))
def test_waits_without_process_groups(lab: Laboratory, scenario: str) -> None:
    """Nsight records no groups: waits are those of the truth, or not told apart from transfer."""
    made = lab.made(scenario, "nsys")
    found, answer = waits_of(made)
    true = waits_in(made)
    assert is_never_wrong(found, true)
    leaves, right = comm(answer["time"]["leaves"]), comm(expected(made.truth, "nsys"))
    assert sum(leaves.values()) == sum(right.values())
    if scenario in SILENT:
        assert not found
    elif scenario in PARTLY:
        assert 0 < sum(found.values()) < sum(true.values())
    else:
        assert (found, leaves) == (true, right)


@pytest.mark.parametrize("sigma", [0.0, SIGMA])
def test_clocks_that_differ(lab: Laboratory, sigma: float) -> None:
    """S40: one clock is 7 ms off, another one drifts; nobody is blamed for his clock."""
    made = lab.made("S40", "kineto", sigma)
    found, answer = waits_of(made)
    true = waits_in(made)
    epsilon_ns = answer["run"]["clock_alignment"]["epsilon_ns"]
    assert 0 < epsilon_ns < 1_000
    assert set(found) == set(true)
    exchanges = 8
    for pair, waited_ns in true.items():
        assert abs(found[pair] - waited_ns) <= 3 * epsilon_ns * exchanges


@pytest.mark.parametrize("name", ["S39", "S40"])
def test_apart_and_without_groups_nothing_is_divided(lab: Laboratory, name: str) -> None:
    found, answer = waits_of(lab.made(name, "nsys"))
    assert not found
    assert set(comm(answer["time"]["leaves"])) == {"comm.unknown.undivided"}


def test_a_missing_rank_leaves_its_groups_undivided(lab: Laboratory) -> None:
    """S39 lacks two of four ranks; S24 without rank 5 still knows the other groups."""
    found, _ = waits_of(lab.made("S39", "kineto"))
    assert not found
    made = lab.made("S24", "kineto")
    part = Made(tuple(trace for trace in made.traces if "rank5" not in trace), made.truth)
    found, answer = waits_of(part)
    true = waits_in(made)
    assert 0 < sum(found.values()) < sum(true.values())
    assert is_never_wrong(found, true)
    assert not any(blamed == 5 for _, blamed in found)
    assert comm(answer["time"]["leaves"])["comm.pp.undivided"] > 0


def test_one_rank_compares_with_nobody(lab: Laboratory) -> None:
    answer = attributed(lab.made("S13", "kineto").traces[0])
    assert answer["run"]["clock_alignment"] == {"method": None, "epsilon_ns": None}
    assert set(comm(answer["time"]["leaves"])) == {"comm.dp.undivided"}
