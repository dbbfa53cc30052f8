"""Is the report that ships with the project the one that this version writes?"""

import base64
import io
import re
import runpy
from pathlib import Path

import pyarrow.parquet as pq
import pytest

REPOSITORY = Path(__file__).resolve().parents[3]
PARQUET = re.compile(r"data:application/vnd\.apache\.parquet;base64,([A-Za-z0-9+/=]+)")
SIZE = re.compile(r"parquet</a> <span>[\d,]+ KiB</span>")


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("example") / "example.html"
    runpy.run_path(str(REPOSITORY / "docs" / "make.py"))["example_report"](path)
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def shipped() -> str:
    return (REPOSITORY / "reports" / "example.html").read_text(encoding="utf-8")


def stable(page: str) -> str:
    """The page without its Parquet files: these name the version of the library that wrote them."""
    return SIZE.sub("", PARQUET.sub("", page))


def test_the_example_regenerates_byte_for_byte(made, shipped):
    assert stable(made) == stable(shipped), "run: make docs"


def test_the_tables_inside_are_the_same(made, shipped):
    def tables(page):
        return [pq.read_table(io.BytesIO(base64.b64decode(body))) for body in PARQUET.findall(page)]

    assert len(tables(made)) == 3
    assert tables(made) == tables(shipped)


def test_the_example_names_no_place_of_a_machine(shipped):
    assert "sample_traces/data_parallel/rank0.json.gz" in shipped
    assert str(REPOSITORY) not in shipped
