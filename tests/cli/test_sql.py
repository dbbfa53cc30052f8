"""``tracelens sql``: read-only, within the public views, in the form that was asked for."""

import json

import pyarrow.parquet as pq
import pytest

from tracelens.store import Store
from tracelens.views import VIEWS

SUM = "SELECT sum(x) AS s FROM (VALUES (1), (2)) AS t (x)"


def told(done):
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: ")
    return done.err


def test_forms(cli, kept):
    query = "SELECT 'a,b' AS name, 1 AS n"
    assert cli("sql", kept, query).out == "name  n\n────  ─\na,b   1\n"
    assert cli("sql", kept, query, "--format", "csv").out == 'name,n\n"a,b",1\n'
    assert json.loads(cli("sql", kept, query, "--format", "json").out) == [{"name": "a,b", "n": 1}]


def test_sums_are_integers_in_every_form(cli, kept, tmp_path):
    assert json.loads(cli("sql", kept, SUM, "--format", "json").out) == [{"s": 3}]
    assert cli("sql", kept, SUM, "--format", "parquet", "--output", tmp_path / "s").code == 0
    table = pq.read_table(tmp_path / "s")
    assert (str(table.schema.field("s").type), table.to_pylist()) == ("int64", [{"s": 3}])
    with Store.open(kept) as store:
        assert store.user_query(SUM).to_pandas()["s"].dtype == "int64"
        wide = store.user_query("SELECT 99999999999999999999::HUGEINT AS h, NULL::HUGEINT AS n")
        assert wide.to_pylist() == [{"h": "99999999999999999999", "n": None}]


def test_output_to_a_file(cli, kept, tmp_path):
    for form, content in (("csv", "s\n3\n"), ("json", '[\n  {\n    "s": 3\n  }\n]\n')):
        done = cli("sql", kept, SUM, "--format", form, "--output", tmp_path / "out")
        assert (done.code, done.out) == (0, "")
        assert (tmp_path / "out").read_text(encoding="utf-8") == content


@pytest.mark.parametrize("form", ["table", "csv", "json", "parquet"])
@pytest.mark.parametrize("place", ["none/x", "/proc/x", ""])
def test_places_that_cannot_be_written(cli, kept, tmp_path, form, place):
    done = cli("sql", kept, SUM, "--format", form, "--output", tmp_path / place)
    assert "cannot be written" in told(done)


def test_the_store_is_never_the_output(cli, kept):
    before = kept.read_bytes()
    assert "not overwritten" in told(cli("sql", kept, SUM, "--output", kept))
    assert kept.read_bytes() == before


def test_parquet_needs_a_file(cli, kept):
    assert "--output FILE" in told(cli("sql", kept, SUM, "--format", "parquet"))


def test_two_columns_of_one_name(cli, kept):
    query = "SELECT 1 AS a, 2 AS a"
    assert cli("sql", kept, query, "--format", "csv").out == "a,a\n1,2\n"
    assert cli("sql", kept, query).out == "a  a\n─  ─\n1  2\n"
    assert "two columns are called a" in told(cli("sql", kept, query, "--format", "json"))


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_is_reached(kept, view):
    with Store.open(kept) as store:
        expected = store.scalar(f"SELECT count(*) FROM main.{view}")
        for name in (view, f"main.{view}"):
            rows = store.user_query(f"SELECT count(*) AS n FROM {name}").to_pylist()
            assert rows == [{"n": expected}]


def test_views_are_listed_and_described(cli, kept):
    views = "FROM duckdb_views() WHERE schema_name = 'main' AND NOT internal"
    listing = f"SELECT view_name {views} ORDER BY 1"
    done = cli("sql", kept, listing, "--format", "csv")
    assert done.out.split() == ["view_name", *sorted(VIEWS)]
    assert "leaf" in cli("sql", kept, "DESCRIBE loss_time").out


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM raw.activity",
        'SELECT * FROM "RAW".activity',
        "FROM raw.name",
        "SELECT (SELECT count(*) FROM raw.name)",
        "WITH x AS (SELECT * FROM raw.name) SELECT * FROM x",
        "SELECT * FROM kernel JOIN raw.name USING (name)",
        "SELECT * FROM query_table('raw.' || 'name')",
        "SELECT * FROM query('SELECT * FROM raw' || '.name')",
        "SELECT * FROM pragma_table_info('raw.name')",
        "SUMMARIZE raw.name",
    ],
)
def test_private_tables_are_out_of_reach(cli, kept, query):
    assert "only the public views can be queried" in told(cli("sql", kept, query))


def test_a_name_like_the_private_schema_is_no_crime(cli, kept):
    query = "WITH raw AS (SELECT 1 AS raw) SELECT raw FROM raw"
    assert cli("sql", kept, query, "--format", "csv").out == "raw\n1\n"


@pytest.mark.parametrize(
    "query",
    [
        "INSERT INTO raw.meta VALUES ('a', 'b')",
        "DROP VIEW kernel",
        "CREATE TABLE t (x INT)",
        "COPY kernel TO '/tmp/kernel.csv'",
        "ATTACH '/tmp/other.duckdb'",
        "SET memory_limit = '1GB'",
        "SELECT 1; SELECT 2",
        "",
    ],
)
def test_only_one_query_that_reads(cli, kept, query):
    before = kept.read_bytes()
    assert "only a single SELECT is allowed" in told(cli("sql", kept, query))
    assert kept.read_bytes() == before


@pytest.mark.parametrize(
    "table",
    [
        "'{file}'",
        "read_csv('{file}')",
        "read_text('{file}')",
        "read_blob('{file}')",
        "glob('{folder}/*')",
        "sniff_csv('{file}')",
    ],
)
def test_other_files_are_out_of_reach(cli, kept, tmp_path, table):
    (tmp_path / "secret.csv").write_text("word\nxyzzy\n")
    source = table.format(file=tmp_path / "secret.csv", folder=tmp_path)
    message = told(cli("sql", kept, f"SELECT * FROM {source}"))
    assert "xyzzy" not in message
    assert "disabled by configuration" in message or "does not exist" in message


def test_mistakes_are_told_with_the_way_to_the_views(cli, kept):
    for query in ("SELCT", "SELECT * FROM nope", "SELECT nope FROM kernel", "SELECT error('x')"):
        assert "duckdb_views()" in told(cli("sql", kept, query))


@pytest.mark.parametrize("name", ["none", ".", "trace.json"])
def test_what_is_no_store(cli, tmp_path, name):
    (tmp_path / "trace.json").write_text("{}")
    done = cli("sql", tmp_path / name, "SELECT 1")
    assert (done.code, done.out) == (6, "")
    assert "tracelens attribute TRACE --store FILE" in done.err
