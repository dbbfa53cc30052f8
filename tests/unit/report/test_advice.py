"""Do rules speak where they should, in words that fit, and stay silent in a healthy run?"""

import re
from pathlib import Path

import pytest

import tracelens
from tracelens.report import document
from tracelens.report.advice import advised, findings, health, rules
from tracelens.report.advice.explain import pages
from tracelens.report.advice.rule import LEVERS, Rule
from tracelens.report.sections.waterfall import title
from tracelens.simulate import simulate, write
from tracelens.taxonomy import LEAF_TITLES

FLOP_LOSSES = ("below_peak", "recompute_flop", "padding", "residual", "ineff")

# Scenario, and the rules that must speak in it. What is planted there is told by the scenario.
PLANTED = {
    "S02": {"launch-bound", "many-small-kernels"},
    "S03": {"elementwise-chain"},
    "host_sync_before_backward": {"sync-in-loop"},
    "S07": {"exposed-loader"},
    "S09": {"exposed-last-bucket"},
    "S10": {"low-bus-bandwidth"},
    "S13": {"straggler-gpu"},
    "S20": {"stage-imbalance"},
    "S22": {"recompute"},
    "S26": {"pipeline-bubble"},
    "S27": {"no-fsdp-prefetch"},
    "S31": {"fp32-matmul"},
    "S32": {"wave-quantisation"},
    "S33": {"small-matmuls"},
    "S35": {"allocator"},
    "S37": {"profiler-overhead"},
    "host_gc": {"garbage-collection"},
    "unfused_attention": {"unfused-attention"},
    "small_messages": {"small-messages"},
    "exposed_copies": {"input-copies"},
}
HEALTHY = "S44"


def answer_of(scenario: str, folder: Path) -> dict:
    *traces, _ = write(simulate(scenario), folder, "kineto")
    with tracelens.attribute(traces) as run:
        return run.to_dict()


@pytest.mark.parametrize("scenario", PLANTED)
def test_the_rule_of_a_planted_loss_speaks(scenario, tmp_path):
    answer = answer_of(scenario, tmp_path)

    assert PLANTED[scenario] <= {finding["rule"] for finding in answer["advice"]}
    assert answer["health"]["ok"] is False
    assert all(finding["points"] >= 1 for finding in answer["advice"])


def test_a_healthy_run_says_so(tmp_path):
    answer = answer_of(HEALTHY, tmp_path)

    assert answer["advice"] == []
    assert {row["advice"] for row in answer["losses"]} == {None}
    assert answer["health"] == {
        "ok": True,
        "text": "healthy: no rule finds a point that could be mended",
    }


def test_graphs_that_hide_their_kernels(example):
    example.execute("UPDATE raw.segment SET leaf = 'opaque.graph' WHERE leaf = 'compute.norm'")

    assert "graph-as-one-row" in {finding["rule"] for finding in document(example)["advice"]}


def test_a_finding_says_what_made_it_speak(example):
    found = {finding["rule"]: finding for finding in document(example)["advice"]}

    assert found["launch-bound"] == {
        "rule": "launch-bound",
        "title": "The host launches too slowly",
        "lever": "graph compilation",
        "points": pytest.approx(4.0),
        "confidence": "high",
        "do": "torch.compile or CUDA graphs",
        "because": "the GPU runs dry while the host prepares launches",
        "evidence": found["launch-bound"]["evidence"],
        "losses": ["host.dispatch"],
        "page": "docs/explanation/advice/launch-bound.md",
    }
    assert "the GPU ran dry 24 times" in found["launch-bound"]["evidence"]


def test_every_rule_names_a_known_loss():
    for rule in rules().values():
        for loss in rule.losses:
            known = (
                loss.split(".")[0] in FLOP_LOSSES
                or title(loss) != loss
                or any(leaf.startswith(f"{loss}.") for leaf in LEAF_TITLES)
            )
            assert known, (rule.id, loss)


def test_every_lever_has_a_rule():
    assert {rule.lever for rule in rules().values()} == set(LEVERS)


def test_advice_fits_a_line_of_a_terminal():
    assert {rule.id: len(rule.text) for rule in rules().values() if len(rule.text) > 92} == {}


def test_every_query_runs(example):
    # A run may trigger none of them; a renamed column must not wait for the run that does.
    for rule in rules().values():
        if rule.query:
            for row in example.records(rule.query):
                assert rule.evidence_text(row) or not rule.evidence


def loss(name: str, points: float, grade: str = "high", **more: object) -> dict:
    return {"id": name, "share_points": points, "confidence": grade, "evidence": [], **more}


@pytest.mark.parametrize(
    ("points", "grade", "speaks"),
    [(0.99, "high", False), (50.0, "low", False), (1.0, "medium", True), (1.0, "high", True)],
)
def test_advice_needs_a_point_and_confidence(example, points, grade, speaks):
    rows = [loss("host.gc", points, grade)]
    found = findings(example, rows)

    assert [finding["rule"] for finding in found] == (["garbage-collection"] if speaks else [])
    assert set(advised(rows, found)) == ({"host.gc"} if speaks else set())


def test_the_most_specific_rule_counts(example):
    rows = [loss("comm.embed.undivided", 2.0), loss("comm.dp.wait", 2.0), loss("mem.h2d", 3.0)]

    texts = advised(rows, findings(example, rows))

    assert texts["comm.dp.wait"].startswith("find the rank that arrives last (")
    assert texts["comm.embed.undivided"].startswith("start it earlier, or beside")
    assert texts["mem.h2d"].startswith("pin memory")


def test_a_step_of_the_ladder_is_advised_by_its_largest_part(example):
    parts = {"gemm": 1.0, "attention": 3.0}
    (rule,) = [
        finding["rule"] for finding in findings(example, [loss("ineff.memory", 4.0, parts=parts)])
    ]

    assert rule == "small-matmuls"


def test_a_loss_without_a_rule_gets_none(example):
    assert findings(example, [loss("idle.unknown", 9.0)]) == []


def test_health_is_not_claimed_of_what_cannot_be_known(example):
    answer = document(example) | {"advice": []}
    assert health(answer)["ok"] is True

    answer["time"]["groups"]["idle_unknown"] = answer["window"]["total_ns"] // 10
    assert health(answer) == {
        "ok": None,
        "text": "no rule speaks, but too much time is unexplained",
    }


def test_names_in_evidence_are_harmless():
    rule = Rule("x", "", LEVERS[0], (), "", "", "", evidence="behind {most}, {ns:duration}, {n}")

    text = rule.evidence_text({"most": "a\x1b[31m" + "b" * 99, "ns": 1500, "n": None})

    assert text == r"behind a\x1b[31m" + "b" * 30 + "…, 1.50 µs, unknown"


def test_pages_link_to_each_other():
    names = set(pages())
    for text in pages().values():
        assert set(re.findall(r"\]\(([^)#]+)\)", text)) <= names
