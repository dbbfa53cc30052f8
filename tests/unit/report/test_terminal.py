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
        "  attention full · peak 989 TFLOP/s bf16 nominal",
        "MFU 42.5 % of the replica · HFU 44.2 % · 420 TFLOP/s/GPU · 39.5 % with attention causal",
        "identity ok · FLOPs reconcile 0.0 pt · unclassified 0.2 % · opaque 0.0 %"
        " · unexplained 1.5 %",
        "  damage: 3 events",
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
        " 1  matmul below peak                       13.5         -  "
        "rank 0 at 12.345678 s in Perfetto"
    )
    assert lines[head + 3] == (
        "      → check SM clock, power cap and tile-friendly shapes (matmuls run below the peak)"
    )
    assert lines[-1] == "    17 smaller losses, together 25.3 pt: --all"


@pytest.mark.parametrize("options", [{}, {"ranks": 1, "sections": {}}])
def test_it_fits_100_columns_and_40_rows(make_store, options):
    text = render(document(make_store(**options)), all_rows=False, color=False)

    assert len(text.splitlines()) <= 39
    assert max(width_of(line) for line in text.splitlines()) <= 100


def test_a_narrow_terminal_gets_narrow_lines(example):
    text = render(document(example), all_rows=True, color=False, width=80)

    assert max(width_of(line) for line in text.splitlines()) <= 80


@pytest.mark.parametrize("points", [-12.449, -12.451, -12.55])
def test_the_printed_column_adds_up(example, points):
    answer = document(example)
    answer["waterfall"][1]["points"] = points
    answer["waterfall"][4]["points"] -= points + 12.5

    column = [round(float(text) * 10) for text in waterfall_column(_plain(answer))]

    assert sum(column[:-1]) == column[-1] == 425


def test_without_flops_it_ends_at_flop_bearing_time(make_store):
    text = render(document(make_store(ranks=1, sections={})), all_rows=False, color=False)

    assert waterfall_column(text) == ["100.0", "-12.5", "-0.5", "-9.5", "-13.5", "64.0"]
    assert "FLOP-bearing time  ▸ matmul 50.0" in text
    assert "MFU unknown: FLOPs of the model, or the peak of the device, are not known" in text
    assert "rank 0 at 13.120678 s in Perfetto" in text
    assert "→ record with: --gpu NAME or --peak TFLOP/s" in text


def test_a_bound_is_shown_as_a_bound(example):
    answer = document(example)
    answer["mfu"] |= {"value": None, "low": 0.382}

    assert "MFU ≥ 38.2 % of the replica" in _plain(answer)


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


def test_a_long_reason_is_wrapped_not_cut(make_store):
    answer = document(make_store(ranks=1, sections={}))
    answer["mfu"]["reason"] = "word " * 30 + "end"

    lines = _plain(answer).splitlines()

    assert [line for line in lines if line.endswith("end")] != []
    assert max(width_of(line) for line in lines) <= 100


def test_a_trace_without_steps_says_how_long_it_is(make_store):
    store = make_store(ranks=1, sections={})
    store.execute("UPDATE raw.step SET step = NULL")

    assert "no steps, 3.00 s a rank" in _plain(document(store))
