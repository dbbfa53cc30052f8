"""The public SQL contract: every view is a file, can be read, and explains every column."""

import pytest

from tracelens.views import VIEWS, sql_of


def test_view_files_and_list_agree(package):
    files = {path.stem for path in (package / "views").glob("*.sql")}
    assert files == set(VIEWS)
    assert len(VIEWS) == len(set(VIEWS))


def test_only_listed_views_are_public(empty_store):
    views = empty_store.rows(
        "SELECT view_name FROM duckdb_views() WHERE schema_name = 'main' AND NOT internal"
    )
    tables = empty_store.rows("SELECT table_name FROM duckdb_tables() WHERE schema_name = 'main'")
    assert {name for (name,) in views} == set(VIEWS)
    assert tables == []


@pytest.mark.parametrize("view", VIEWS)
def test_file_creates_the_view_of_its_name(view):
    assert f"CREATE VIEW main.{view} AS" in sql_of(view)


@pytest.mark.parametrize("view", VIEWS)
def test_view_can_be_selected_from(empty_store, view):
    assert empty_store.rows(f"SELECT * FROM main.{view}") == []


@pytest.mark.parametrize("view", VIEWS)
def test_view_and_every_column_are_explained(empty_store, view):
    comment = empty_store.scalar(
        "SELECT comment FROM duckdb_views() WHERE schema_name = 'main' AND view_name = ?", [view]
    )
    assert comment
    assert comment.endswith(".")
    columns = empty_store.rows(
        "SELECT column_name, comment FROM duckdb_columns() "
        "WHERE schema_name = 'main' AND table_name = ?",
        [view],
    )
    assert columns
    assert [name for name, text in columns if not text or not text.endswith(".")] == []


@pytest.mark.parametrize("view", VIEWS)
def test_times_carry_their_unit_and_are_integers(empty_store, view):
    columns = empty_store.rows(
        "SELECT column_name, data_type FROM duckdb_columns() "
        "WHERE schema_name = 'main' AND table_name = ?",
        [view],
    )
    assert [name for name, _ in columns if name in {"ts", "dur", "start", "end", "time"}] == []
    wrong = [(name, kind) for name, kind in columns if name.endswith("_ns") and "INT" not in kind]
    assert wrong == []
