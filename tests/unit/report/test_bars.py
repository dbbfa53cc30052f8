from tracelens.report import document
from tracelens.report.bars import bars, printed_shares


def test_bars_step_from_the_whole_to_mfu(example):
    drawn = bars(document(example))

    assert [(bar.item, bar.tenths, bar.level) for bar in drawn] == [
        ("peak", 1000, 1000),
        ("idle", -125, 875),
        ("exposed_copy", -5, 870),
        ("exposed_communication", -95, 775),
        ("other_compute", -135, 640),
        ("below_peak", -198, 442),
        ("recompute_flop", -42, 400),
        ("attention_backward_recompute", -5, 395),
        ("convention_credit", 30, 425),
        ("mfu", 425, 425),
    ]


def test_the_parts_of_every_bar_add_up(example):
    for bar in bars(document(example)):
        if bar.parts:
            assert sum(tenths for _, _, tenths in bar.parts) == bar.tenths


def test_losses_print_the_figure_of_their_bar(example):
    answer = document(example)
    # Seven causes of 1.7857 points: rounding each alone would print 12.6 in a bar of 12.5.
    for loss in answer["losses"]:
        if loss["id"].startswith(("host.", "gap.", "idle.")):
            loss["share_points"] = 12.5 / 7

    shares = printed_shares(answer)
    idle = [shares[loss] for loss in shares if loss.startswith(("host.", "gap.", "idle."))]

    assert sorted(idle) == [17, 18, 18, 18, 18, 18, 18]
    assert sum(idle) == 125
    assert shares["below_peak.gemm"] == 135
    assert shares["recompute_flop"] == 42


def test_an_empty_waterfall_has_no_bars():
    assert bars({"waterfall": [], "losses": [], "run": {"ranks": []}}) == []
    assert printed_shares({"waterfall": [], "losses": [], "run": {"ranks": []}}) == {}
