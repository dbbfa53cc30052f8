from dataclasses import replace

import pytest

from tracelens.report.sections.confidence import Grounds, grade_of, tag_of

GOOD = Grounds(
    per_step={leaf: [100, 101, 99] for leaf in ("host.sync", "gap.kernel", "comm.dp.wait")},
    segments={"host.sync": 9, "gap.kernel": 9, "gap.graph": 9, "comm.dp.wait": 9},
    dimension_sources={"dp": {"description"}, "tp": {"mix"}, "cp": {"none"}},
    defaults=frozenset(),
    single_rank=False,
    coarse_clock=False,
    graphs_by_node=False,
    dilated=False,
    residual_points=0.2,
)


def grade(loss: str, grounds: Grounds) -> str:
    return grade_of(loss, tag_of(loss, grounds), grounds)


@pytest.mark.parametrize(
    ("loss", "tag"),
    [
        ("host.sync", "M"),
        ("host.unlabelled", "I"),
        ("compute.norm", "M"),
        ("compute.recompute", "I"),
        ("comm.dp.wait", "M"),
        ("comm.tp.transfer", "I"),
        ("comm.cp.undivided", "I"),
        ("comm.ep.undivided", "I"),
        ("comm.unknown.undivided", "M"),
        ("pp.bubble.structural", "I"),
        ("below_peak.gemm", "D"),
    ],
)
def test_tags(loss, tag):
    assert tag_of(loss, GOOD) == tag


def test_waits_of_a_single_rank_are_inferred():
    assert tag_of("comm.dp.wait", replace(GOOD, single_rank=True)) == "I"


def test_an_item_of_the_flop_account_brings_its_tag():
    assert tag_of("below_peak.gemm.ceiling", GOOD, "A") == "A"


@pytest.mark.parametrize(
    ("loss", "changes", "expected"),
    [
        ("host.sync", {}, "high"),
        ("host.sync", {"segments": {"host.sync": 1}}, "low"),
        ("host.sync", {"per_step": {"host.sync": [100, 100]}}, "medium"),
        ("host.sync", {"per_step": {"host.sync": [100, 160, 100]}}, "medium"),
        ("host.sync", {"dilated": True}, "low"),
        ("gap.kernel", {"coarse_clock": True}, "low"),
        ("gap.kernel", {"defaults": frozenset({"kappa"})}, "low"),
        ("gap.graph", {"graphs_by_node": True}, "low"),
        ("comm.dp.wait", {"single_rank": True}, "medium"),
        ("comm.dp.wait", {"dimension_sources": {"dp": {"none"}}}, "low"),
        ("below_peak.gemm", {}, "high"),
        ("below_peak.gemm", {"residual_points": -2.0}, "medium"),
        ("below_peak.gemm", {"residual_points": 3.5}, "low"),
        ("below_peak.gemm", {"residual_points": None}, "low"),
        ("below_peak.gemm", {"residual_points": 0.0, "has_two_counts": False}, "medium"),
    ],
)
def test_grades(loss, changes, expected):
    assert grade(loss, replace(GOOD, **changes)) == expected
