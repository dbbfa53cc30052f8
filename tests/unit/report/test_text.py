import pytest

from tracelens.report.json_text import dumps, dumps_for_script
from tracelens.report.plain_text import flow, pad, printable, shorten, width_of, wrap
from tracelens.report.rounding import tenths_text, tera_text, to_tenths, two_digits


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain <4>", "plain <4>"),
        ("\x1b[2J", "\\x1b[2J"),
        ("a\nb\tc\r", "a\\x0ab\\x09c\\x0d"),
        ("\x9b5n", "\\x9b5n"),
        ("\u202eabc\u2066", "\\u202eabc\\u2066"),
        ("a\u0301", "a\\u0301"),
        ("größe 核", "größe 核"),
        ("\u2028", "\\u2028"),
    ],
)
def test_printable(text, expected):
    assert printable(text) == expected


@pytest.mark.parametrize(
    ("text", "width", "expected"),
    [
        ("abcdef", 6, "abcdef"),
        ("abcdef", 5, "abcd…"),
        ("核核核", 6, "核核核"),
        ("核核核", 5, "核核…"),
        ("核核核", 4, "核…"),
        ("\x1b" * 10**6, 5, "\\x1b…"),
    ],
)
def test_shorten_never_exceeds_its_width(text, width, expected):
    assert shorten(text, width) == expected
    assert width_of(shorten(text, width)) <= width


def test_pad_fills():
    assert pad("核", 4) == "核  "


def test_flow_breaks_between_parts():
    assert flow(["aaa", "bbb", "ccc"], 9, indent="  ") == ["aaa · bbb", "  ccc"]


def test_flow_leaves_no_part_alone_if_it_can():
    assert flow(["a", "b", "c", "d"], 9, indent="  ") == ["a · b", "  c · d"]
    assert flow(["a", "b", "c", "dddddd"], 9, indent=" ") == ["a · b · c", " dddddd"]


@pytest.mark.parametrize(
    ("values", "total", "expected"),
    [
        ([33.333, 33.333, 33.334], None, [333, 333, 334]),
        ([0.05, 0.05, 0.05], None, [1, 1, 0]),
        ([-12.55, -0.5, 3.05], -100, [-125, -5, 30]),
        ([], None, []),
        ([-12.5, 3.0], -90, [-125, 30]),
    ],
)
def test_to_tenths(values, total, expected):
    assert to_tenths(values, total) == expected


def test_columns_add_up_for_many_splits():
    for parts in range(1, 40):
        values = [-100 / 7 / parts] * parts
        tenths = to_tenths(values)
        assert sum(tenths) == -143
        assert max(tenths) - min(tenths) <= 1


@pytest.mark.parametrize(
    ("tenths", "signed", "expected"),
    [(-125, False, "-12.5"), (-4, False, "-0.4"), (30, True, "+3.0"), (0, True, "0.0")],
)
def test_tenths_text(tenths, signed, expected):
    assert tenths_text(tenths, signed=signed) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.0276, "0.028"),
        (0.0996, "0.10"),
        (0.999, "1.0"),
        (0, "0"),
        (-0.0276, "-0.028"),
        (3.21e-12, "3.2e-12"),
    ],
)
def test_two_digits(value, expected):
    assert two_digits(value) == expected


@pytest.mark.parametrize(
    ("flop_per_s", "expected"),
    [(1158.7e12, "1,159"), (100e12, "100"), (15.7e12, "15.7"), (4.3e9, "0.0043"), (0, "0")],
)
def test_tera_text(flop_per_s, expected):
    assert tera_text(flop_per_s) == expected


def test_dumps_keeps_order_and_control_characters_off():
    assert (
        dumps({"b": 1, "a": "\x1b\x9bé"}, indent=None) == '{"b": 1, "a": "\\u001b\\u009b\\u00e9"}'
    )


def test_dumps_refuses_what_is_not_json():
    with pytest.raises(ValueError, match="not JSON compliant"):
        dumps({"a": float("nan")})


def test_script_text_cannot_end_its_element():
    assert dumps_for_script({"a": "</script><!--&"}) == (
        '{"a":"\\u003c/script\\u003e\\u003c!--\\u0026"}'
    )


def test_wrap_cuts_what_exceeds_its_lines():
    assert wrap("one two three four five", 9, lines=2) == ["one two", "  three…"]
    assert wrap("one two", 9, lines=2) == ["one two"]
