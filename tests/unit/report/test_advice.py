import pytest

from tracelens.report.advice import advice_for, rules
from tracelens.report.sections.waterfall import title
from tracelens.taxonomy import LEAF_TITLES

FLOP_LOSSES = ("below_peak", "recompute_flop", "padding", "residual")


def test_every_rule_names_a_known_loss():
    for loss in rules():
        known = (
            loss.split(".")[0] in FLOP_LOSSES
            or title(loss) != loss
            or loss in {f"ineff.kernel.{part}" for part in ("gemm", "conv", "attention")}
            or any(leaf.startswith(f"{loss}.") for leaf in LEAF_TITLES)
        )
        assert known, loss


def test_advice_fits_a_line_of_a_terminal():
    for loss, (text, trigger) in rules().items():
        assert len(f"{text} ({trigger})") <= 92, loss


def test_the_longest_matching_rule_counts():
    assert advice_for("comm.dp.wait", 2.0, "high") == (
        "find the rank that arrives last (ranks wait in data-parallel collectives)"
    )
    assert advice_for("comm.embed.undivided", 2.0, "high") == (
        "start it earlier, or beside independent compute (communication runs alone)"
    )
    assert advice_for("below_peak.gemm.clock", 2.0, "high") == advice_for(
        "below_peak.gemm", 2.0, "high"
    )


@pytest.mark.parametrize(
    ("points", "grade"), [(0.99, "high"), (50.0, "low"), (1.0, "medium"), (1.0, "high")]
)
def test_advice_needs_a_point_and_confidence(points, grade):
    given = advice_for("host.gc", points, grade)

    assert (given is not None) == (points >= 1 and grade != "low")


def test_a_loss_without_a_rule_gets_none():
    assert advice_for("idle.unknown", 9.0, "high") is None
