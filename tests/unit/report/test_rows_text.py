import pyarrow as pa
import pytest

from tracelens.report import table_text

ROWS = pa.table(
    {"name": ["a,b", "x\x1b[2J\n", None], "ns": [1, 20, None], "rate": [0.5, None, 2.0]}
)


def test_table():
    assert table_text(ROWS, "table") == (
        "name          ns  rate\n"
        "────────────  ──  ────\n"
        "a,b            1   0.5\n"
        "x\\x1b[2J\\x0a  20\n"
        "                   2.0\n"
    )


def test_csv():
    assert table_text(ROWS, "csv") == 'name,ns,rate\n"a,b",1,0.5\nx\\x1b[2J\\x0a,20,\n,,2.0\n'


def test_json_is_exact_and_has_no_nan():
    rows = pa.table({"name": ["x\x1b"], "value": [float("nan")], "parts": [[1, 2]]})

    assert table_text(rows, "json") == (
        '[\n  {\n    "name": "x\\u001b",\n    "value": null,\n'
        '    "parts": [\n      1,\n      2\n    ]\n  }\n]\n'
    )


def test_no_rows_keep_the_header():
    assert table_text(ROWS.slice(0, 0), "table") == "name  ns  rate\n────  ──  ────\n"


def test_an_unknown_form_is_refused():
    with pytest.raises(ValueError, match="no form 'xml'"):
        table_text(ROWS, "xml")
