import re
import unicodedata

import pytest

from tracelens.report import document, render
from tracelens.report.plain_text import width_of

BAR = re.compile(r"^ +([+-]?\d+\.\d)  [█░▒ ]{30}  ")


def waterfall_column(text: str) -> list[str]:
    return [match[1] for line in text.splitlines() if (match := BAR.match(line))]


def test_the_worked_example(example):
    lines = render(document(example), all_rows=False, color=False).splitlines()

    assert lines[:5] == [
        "TraceLens · llama3-8b · 2 × NVIDIA H100 80GB HBM3 (2 of 8 ranks) · steps 3-5 (3 of 4)"
        " · 1.00 s/step",
        "  convention full · peak 989 TFLOP/s bf16 nominal",
        "MFU 42.5 % of the replica · HFU 44.2 % · 420 TFLOP/s/GPU · by convention causal 39.5 %",
        "identity ok · FLOPs reconcile 0.0 pt · unclassified 0.23 % · opaque 0.0 %",
        "  unexplained 1.5 % · damage: 3 events",
    ]
    assert waterfall_column("\n".join(lines)) == [
        "100.0",
        "-12.5",
        "-0.5",
        "-9.5",
        "-13.5",
        "-19.8",
        "-4.2",
        "-0.5",
        "+3.0",
        "42.5",
    ]
    head = next(i for i, line in enumerate(lines) if line.startswith(" #  loss"))
    assert lines[head + 1] == (
        " 1  matmul below peak                       13.5  rank 0 at 12.345678 s in Perfetto"
    )
    assert lines[head + 3] == (
        "      → check SM clock, power cap and tile-friendly shapes (matmuls run below the peak)"
    )
    assert lines[-3:] == [
        "    17 smaller losses, together 25.3 pt: --all"
        " · M measured, D derived, I inferred, A assumed",
        "",
        "nothing was missing for this answer: record as now",
    ]


@pytest.mark.parametrize("complete", [True, False])
def test_it_fits_100_columns_and_40_rows(make_store, time_only, complete):
    store = make_store() if complete else make_store(ranks=1, sections=time_only)
    text = render(document(store), all_rows=False, color=False)

    assert len(text.splitlines()) <= 39
    assert max(width_of(line) for line in text.splitlines()) <= 100


@pytest.mark.parametrize("width", [60, 72, 80])
def test_a_narrow_terminal_gets_narrow_lines(example, width):
    text = render(document(example), all_rows=True, color=False, width=width)

    assert max(width_of(line) for line in text.splitlines()) <= width
    row = next(line for line in text.splitlines() if line.startswith(" 1  matmul below"))
    assert "13.5  rank 0 at 12.345678 s" in row


def test_the_price_of_a_loss_has_a_column(example):
    assert "money/day" not in _plain(document(example))
    example.put_result("price", {"gpu_hour_price": 2.5})

    lines = _plain(document(example)).splitlines()

    # Eight GPUs are 480 a day; the first loss is 13.5 points of them.
    assert next(line for line in lines if line.startswith(" #  loss"))[43:60] == "share   money/day"
    assert (
        next(line for line in lines if line.startswith(" 1  matmul"))[43:60] == " 13.5       64.80"
    )
    assert max(map(len, lines)) <= 100


@pytest.mark.parametrize("points", [-12.449, -12.451, -12.55])
def test_the_printed_column_adds_up(example, points):
    answer = document(example)
    answer["waterfall"][1]["points"] = points
    answer["waterfall"][4]["points"] -= points + 12.5

    column = [round(float(text) * 10) for text in waterfall_column(_plain(answer))]

    assert sum(column[:-1]) == column[-1] == 425


def test_the_worst_case_still_shows_a_loss_and_what_to_record(example):
    """Long names, notes, all fourteen bars, every limit: it fits, and holds the essentials."""
    answer = document(example)
    answer["run"] |= {"name": "n" * 300, "devices": ["d" * 300], "world_size": None}
    answer["window"]["steps"] = list(range(0, 200, 2))
    answer["workload"]["option_notes"] = ["note " * 60, "second " * 60]
    answer["mfu"] |= {"value": None, "low": 0.1, "reason": "reason " * 100}
    extra = [{"id": f"extra{i}", "label": f"extra {i}", "points": 1.0} for i in range(4)]
    answer["waterfall"][-1:-1] = extra
    answer["time"]["leaves"] |= {
        "comm.unknown.undivided": 1,
        "opaque.graph": 10**9,
        "idle.unrecorded": 10**9,
        "host.unlabelled": 10**9,
    }

    lines = _plain(answer).splitlines()

    assert len(lines) <= 39
    assert max(width_of(line) for line in lines) <= 100
    assert "MFU ≥ 10.0 % of the replica (reason" in "\n".join(lines)
    assert "steps within 0-198 (100 of 101)" in "\n".join(lines)
    assert sum(line.startswith("note: ") for line in lines) == 2
    first = next(i for i, line in enumerate(lines) if line.startswith(" 1  matmul below peak"))
    assert lines[first].endswith("13.5  rank 0 at 12.345678 s in Perfetto")
    shown = [line for line in lines if line.startswith("not measurable here: ")]
    assert shown[0] == (
        "not measurable here: waiting apart from transfer in collectives: "
        "not told apart in this version"
    )
    assert lines[-1] == f"{5 - len(shown)} more not measurable here: --all"


def test_without_flops_it_ends_at_flop_bearing_time(make_store, time_only):
    store = make_store(ranks=1, sections=time_only)

    text = render(document(store), all_rows=False, color=False)

    assert waterfall_column(text) == ["100.0", "-12.5", "-0.5", "-9.5", "-13.5", "64.0"]
    assert "FLOP-bearing time  ▸ matmul 50.0" in text
    assert "MFU unknown: FLOPs of the model, or the peak of the device, are not known" in text
    assert "rank 0 at 13.120678 s in Perfetto" in text
    assert text.endswith(
        "not measurable here: MFU and the peak\n  → give: --gpu NAME, --model NAME, --seq-len N,"
        " --tokens-per-step N → record: record_shapes=True"
    )
    assert "FLOPs unknown" in text


def test_a_bound_is_shown_as_a_bound_with_its_reason(example):
    answer = document(example)
    answer["mfu"] |= {"value": None, "low": 0.382, "reason": "a tenth has no shapes"}

    assert "MFU ≥ 38.2 % of the replica (a tenth has no shapes) · HFU 44.2 %" in _plain(answer)


def test_an_option_without_effect_is_told_at_once(example):
    answer = document(example)
    answer["workload"]["option_notes"] = ["--convention full has no effect: why", "of the reason"]
    answer["mfu"] |= {"value": None, "reason": "part of the reason"}

    notes = [line for line in _plain(answer).splitlines() if line.startswith("note: ")]

    assert notes == ["note: --convention full has no effect: why"]


def test_the_gain_of_a_repair_has_a_column_once_one_is_known(example):
    answer = document(example)
    assert "if fixed" not in _plain(answer)
    answer["losses"][1]["recoverable_points"] = 4.1

    text = _plain(answer)

    assert "  share  if fixed  where" in text
    assert "13.5         -  rank 0" in text
    assert " 7.0      +4.1  rank 0" in text


def test_all_rows_shows_every_loss_and_note(example):
    answer = document(example)
    text = render(answer, all_rows=True, color=False)

    for row in answer["losses"]:
        assert f"  {row['label'][:36]}" in text
    assert "--all" not in text
    assert "note: recorded with shapes" in text


def test_hostile_names_do_not_reach_the_terminal(example):
    example.execute("UPDATE raw.name SET name = 'x' || chr(27) || ']0;owned' || chr(7) || name")
    example.execute("UPDATE raw.input SET path = 'a' || chr(27) || '[2Jb/' || path")
    example.execute("UPDATE raw.gpu SET device_name = 'H' || chr(8238) || chr(155) || '100'")
    example.append("note", {"input": [0], "severity": ["warning"], "text": ["bad\x1b[31m\x07"]})

    text = render(document(example), all_rows=True, color=False)

    bad = [c for c in text if c != "\n" and unicodedata.category(c).startswith("C")]
    assert bad == []
    assert "x\\x1b]0;owned\\x07" in text
    assert "note: bad\\x1b[31m\\x07" in text


def test_color_adds_only_color(example):
    answer = document(example)
    colored = render(answer, all_rows=False, color=True)

    assert "\x1b[1m" in colored
    assert re.sub(r"\x1b\[\d+m", "", colored) == _plain(answer)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"identities": {"time": {"ok": False}}}, "IDENTITY VIOLATED: time"),
        (
            {"flops": {"convention": None, "reconciliation": {"residual_points": -4.2}}},
            "FLOPS DO NOT RECONCILE -4.2 pt",
        ),
        ({"flops": {"reconciliation": {"residual_points": 2.0}}}, "FLOPs reconcile +2.0 pt"),
        ({"flops": {"reconciliation": {"residual_points": None}}}, "FLOPs not reconciled"),
        ({"flops": {"source": "shapes"}}, "FLOPs from shapes"),
        ({"flops": {"source": "shapes", "executed_flop": None}}, "FLOPs from some shapes"),
        ({"quality": {"events_dropped": [{"count": 1}]}}, "damage: 1 event"),
        (
            {"quality": {"truncated": True, "events_dropped": [{"count": 1}]}},
            "TRUNCATED, 1 event dropped",
        ),
        ({"window": {"confidence": "low"}}, "window uncertain"),
        ({"workload": {"log": {"mfu": 0.4, "dilation": 1.25}}}, "profiling slowed steps 1.25×"),
    ],
)
def test_alarms(example, change, expected):
    answer = document(example)
    for key, value in change.items():
        answer[key] = {**answer[key], **value}

    assert expected in _plain(answer)


def test_more_than_the_peak_is_an_alarm(example):
    answer = document(example)
    answer["mfu"]["value"] = 1.04

    assert "MFU ABOVE 100 %: FLOPs, dtype or peak is wrong" in _plain(answer)


def _plain(answer: dict) -> str:
    return render(answer, all_rows=False, color=False)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.000276, "MFU 0.028 % of the replica · HFU 44.2 % · 0.27 TFLOP/s/GPU"),
        (0.0, "MFU 0.0 % of the replica · HFU 44.2 % · 0 TFLOP/s/GPU"),
        (0.00994, "MFU 0.99 % of the replica · HFU 44.2 % · 9.8 TFLOP/s/GPU"),
        (0.0123, "MFU 1.2 % of the replica · HFU 44.2 % · 12.2 TFLOP/s/GPU"),
    ],
)
def test_a_small_mfu_keeps_two_digits(example, value, expected):
    answer = document(example)
    answer["mfu"]["value"] = value

    assert expected in _plain(answer)


def test_at_most_two_rival_conventions(example):
    answer = document(example)
    answer["flops"]["convention"] = "causal"
    rivals = {"causal": 0.425, "full": 0.5, "palm": 0.51, "megatron": 0.43, "kaplan": 0.3}
    answer["mfu"]["per_convention"] = rivals

    text = " ".join(_plain(answer).split())

    assert "convention causal (exact mask)" in text
    assert "by convention full 50.0 %, megatron 43.0 %" in text
    assert "palm" not in text
    assert "attention causal" not in text


def test_periods_without_marks_are_not_called_steps(example):
    answer = document(example)
    answer["window"]["source"] = "autocorrelation"

    assert "periods 3-5 (3 of 4)\n  1.00 s/period · " in _plain(answer)


def test_the_unit_stays_with_its_figure(example):
    answer = document(example)
    answer["mfu"] |= {"value": None, "reason": "x" * 71}

    assert any(line.endswith("HFU") for line in _plain(answer).splitlines()) is False
    assert "44.2 %" in _plain(answer)


def test_a_long_reason_is_wrapped_not_cut(make_store, time_only):
    answer = document(make_store(ranks=1, sections=time_only))
    answer["mfu"]["reason"] = "word " * 30 + "end"

    lines = _plain(answer).splitlines()

    assert [line for line in lines if line.endswith("end")] != []
    assert max(width_of(line) for line in lines) <= 100


def test_a_trace_without_steps_says_how_long_it_is(make_store):
    store = make_store(ranks=1)
    store.put_result("window", {"source": "whole_trace", "steps": [], "excluded_steps": []})
    store.execute("UPDATE raw.step SET step = NULL")

    assert "no steps, 3.00 s a rank" in _plain(document(store))
