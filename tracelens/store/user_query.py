"""May a query of a user run, and what does it return? It reaches the public views only."""

import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import duckdb
import pyarrow as pa

from tracelens.errors import UsageError

_INTERRUPTED = re.compile("Query interrupted|KeyboardInterrupt")
_LIST_VIEWS = (
    "list the views with: SELECT view_name, comment FROM duckdb_views() "
    "WHERE schema_name = 'main' AND NOT internal"
)
_COLUMNS = (
    "SELECT table_name, column_name, data_type FROM duckdb_columns() "
    "WHERE schema_name = 'main' AND NOT internal ORDER BY table_name, column_index"
)


@contextmanager
def interrupts() -> Iterator[None]:
    """Let Ctrl-C end the program: DuckDB tells of it as an error of the query."""
    try:
        yield
    except (duckdb.Error, RuntimeError) as error:
        if isinstance(error, duckdb.InterruptException) or _INTERRUPTED.search(str(error)):
            raise KeyboardInterrupt from error
        raise


def run_user_query(con: duckdb.DuckDBPyConnection, sql: str) -> pa.Table:
    """Run one SELECT over the public views of a database.

    Raises:
        UsageError: if the statement is not a single query, reaches beyond the views, or fails.
    """
    try:
        statements = duckdb.extract_statements(sql)
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise UsageError("only a single SELECT is allowed", hint="the store is read-only")
        query = statements[0].query
        _check_reach(con, query)
        # A query of a user must not reach other files of the machine through the database.
        con.execute("SET enable_external_access = false")
        relation = con.sql(query)
        return _with_integers(_fetched(con, relation), relation.types)
    except duckdb.Error as error:
        raise UsageError(f"SQL: {error}", hint=_LIST_VIEWS) from error


def _fetched(con: duckdb.DuckDBPyConnection, relation: duckdb.DuckDBPyRelation) -> pa.Table:
    """Run a query that Ctrl-C can end: a thread that is inside DuckDB hears no signals."""
    with ThreadPoolExecutor(1) as aside, interrupts():
        rows = aside.submit(relation.to_arrow_table)
        try:
            return rows.result()
        except KeyboardInterrupt:
            con.interrupt()
            raise


def _check_reach(con: duckdb.DuckDBPyConnection, query: str) -> None:
    """Bind a query where nothing but the columns of the views exists; what binds there is public.

    Names are resolved by the database itself: no spelling, nesting or table function gets around.
    """
    tables: dict[str, list[str]] = {}
    for table, column, kind in con.execute(_COLUMNS).fetchall():
        tables.setdefault(table, []).append(f'"{column}" {kind}')
    with duckdb.connect(":memory:", config={"enable_external_access": "false"}) as public:
        public.execute("SET python_enable_replacements = false")
        for table, columns in tables.items():
            public.execute(f'CREATE TABLE main."{table}" ({", ".join(columns)})')
        try:
            public.sql(query)
        except duckdb.CatalogException as error:
            if "raw" not in query.lower():
                raise
            raise UsageError(
                f"SQL: only the public views can be queried; the tables of schema raw are private "
                f"and change without notice ({str(error).splitlines()[0]})",
                hint=_LIST_VIEWS,
            ) from error


def _with_integers(rows: pa.Table, kinds: Sequence[object]) -> pa.Table:
    """Return sums as integers: DuckDB sums 64-bit integers in 128 bits, which few tools take."""
    for position, kind in enumerate(kinds):
        if str(kind) == "HUGEINT":
            name, column = rows.schema.names[position], rows.column(position)
            try:
                narrow = column.cast(pa.int64())
            except pa.ArrowInvalid:
                narrow = column.cast(pa.string())
            rows = rows.set_column(position, name, narrow)
    return rows
