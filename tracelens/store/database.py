"""One DuckDB database a run: opened, filled by column, queried. Nothing else imports duckdb."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import metadata, resources
from pathlib import Path
from typing import Any, Self

import duckdb
import numpy as np
import pyarrow as pa

from tracelens.errors import InputError, UsageError
from tracelens.store.user_query import interrupts, run_user_query
from tracelens.views import VIEWS, sql_of

SCHEMA_VERSION = 1
# Extensions are never fetched: traces are read on machines without a network.
_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}
_MAGIC = b"DUCK"
_MAGIC_OFFSET = 8
_MEMORY = re.compile(r"\d+(\.\d+)?\s*([kmgt]i?b|%)", re.IGNORECASE)
Parameters = Sequence[Any] | Mapping[str, Any]
_ID_COLUMNS = {
    "activity": "activity_id",
    "host_call": "call_id",
    "op": "op_id",
    "range": "range_id",
}


def version() -> str:
    """Return the installed version of the distribution."""
    return metadata.version("tracelens-mfu")


class Store:
    """A TraceLens database.

    Writers append batches by column; readers get Arrow tables or NumPy arrays.

    Args:
        path: file to create, or ``None`` for a database in memory.
        max_memory: DuckDB's memory limit, e.g. ``"4GB"``; ``None`` keeps its default.
    """

    def __init__(self, path: Path | None = None, *, max_memory: str | None = None) -> None:
        self._open(str(path) if path else ":memory:", read_only=False)
        with self.guarded():
            if max_memory is not None:
                self._limit_memory(max_memory)
            self._create()

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open an existing store for reading.

        Raises:
            InputError: if the file is missing, is no store, or has another schema version.
        """
        store = cls.__new__(cls)
        hint = "make one with: tracelens attribute TRACE --store FILE"
        if not path.is_file():
            raise InputError(f"{path}: no such file", hint=hint)
        try:
            store._open(str(path), read_only=True)
            found = store.scalar("SELECT value FROM raw.meta WHERE key = 'schema_version'")
        except duckdb.Error as error:
            raise InputError(f"{path}: not a TraceLens store", hint=hint) from error
        if found != str(SCHEMA_VERSION):
            raise InputError(
                f"{path}: store has schema version {found}, this TraceLens reads {SCHEMA_VERSION}",
                hint="attribute the trace again, or use the TraceLens that wrote it",
            )
        return store

    @classmethod
    def is_store(cls, path: Path) -> bool:
        """Tell whether a file is a TraceLens database of any version."""
        try:
            with path.open("rb") as file:
                if file.read(len(_MAGIC) + _MAGIC_OFFSET)[_MAGIC_OFFSET:] != _MAGIC:
                    return False
            con = duckdb.connect(str(path), read_only=True, config=_CONFIG)
        except (duckdb.Error, OSError):
            return False
        try:
            return con.execute("SELECT 1 FROM raw.meta LIMIT 1").fetchone() is not None
        except duckdb.Error:
            return False
        finally:
            con.close()

    def _open(self, database: str, *, read_only: bool) -> None:
        self._con = duckdb.connect(database, read_only=read_only, config=_CONFIG)
        self._con.execute("SET enable_progress_bar = false")
        self._con.execute("SET python_enable_replacements = false")  # no Python variable is a table
        self._name_ids: dict[str, int] = {}
        self._flushed_names = 0
        self._next_id = dict.fromkeys(_ID_COLUMNS, 0)

    def _create(self) -> None:
        for file in ("schema.sql", "schema_comm.sql"):
            self._con.execute(resources.files("tracelens.store").joinpath(file).read_text())
        self._con.execute(
            "INSERT INTO raw.meta VALUES ('schema_version', ?)", [str(SCHEMA_VERSION)]
        )
        self._con.execute("INSERT INTO raw.meta VALUES ('tracelens_version', ?)", [version()])
        for view in VIEWS:
            self._con.execute(sql_of(view))

    def _limit_memory(self, limit: str) -> None:
        asked = f"--max-memory {limit}"
        if not _MEMORY.fullmatch(str(limit)):
            raise UsageError(f"{asked}: not a size", hint="for example 4GB, 512MB or 80%")
        try:
            self._con.execute(f"SET memory_limit = '{limit}'")
        except duckdb.ParserException as error:
            raise UsageError(f"{asked}: {error}") from error

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Tell what ends the work inside from without: too little memory or disk, or Ctrl-C.

        Raises:
            UsageError: with what to change.
            KeyboardInterrupt: if the user ended a query.
        """
        try:
            with interrupts():
                yield
        except duckdb.IOException as error:
            raise UsageError(f"the database cannot be written: {error}") from error
        except (duckdb.OutOfMemoryException, duckdb.TransactionException) as error:
            # A commit that finds no memory fails as a transaction.
            told = str(error).splitlines()[0]
            if "allocate" not in told and not isinstance(error, duckdb.OutOfMemoryException):
                raise
            raise UsageError(
                f"the database needs more memory: {told}",
                hint="give more with --max-memory, or keep the database on disk with --store",
            ) from error

    # --- writing -------------------------------------------------------------------------------

    def name_ids(self, names: Iterable[str]) -> list[int]:
        """Intern names; equal names get equal ids, across files."""
        known = self._name_ids
        return [known.setdefault(name, len(known)) for name in names]

    def flush_names(self) -> None:
        """Write names interned since the last call; importers call it when a file is done."""
        names = list(self._name_ids)[self._flushed_names :]
        ids = np.arange(self._flushed_names, self._flushed_names + len(names), dtype=np.int32)
        self.append("name", {"name_id": ids, "name": names})
        self._flushed_names += len(names)

    def take_ids(self, table: str, count: int) -> int:
        """Reserve ``count`` consecutive row ids of a table and return the first."""
        first = self._next_id[table]
        self._next_id[table] += count
        return first

    def append(
        self, table: str, columns: Mapping[str, Sequence[Any] | np.ndarray[Any, Any] | pa.Array]
    ) -> int:
        """Append rows to ``raw.<table>`` by column; columns left out become NULL.

        The id column of activity, host_call, op and range is assigned here when it is left out.

        Returns:
            The first id assigned, or -1 for tables without one.
        """
        count = len(next(iter(columns.values())))
        first = -1
        values = dict(columns)
        id_column = _ID_COLUMNS.get(table)
        if id_column and id_column not in values:
            first = self.take_ids(table, count)
            values[id_column] = np.arange(first, first + count, dtype=np.int64)
        if count == 0:
            return first
        self._insert(f"raw.{_plain(table)}", values)
        return first

    def append_temp(
        self, table: str, columns: Mapping[str, Sequence[Any] | np.ndarray[Any, Any] | pa.Array]
    ) -> None:
        """Append rows by column to a temporary table that the caller created."""
        self._insert(_plain(table), columns)

    def _insert(self, target: str, columns: Mapping[str, Any]) -> None:
        batch = pa.table({name: _array(column) for name, column in columns.items()})
        names = ", ".join(f'"{_plain(name)}"' for name in columns)
        self._con.register("_batch", batch)
        try:
            self._con.execute(f"INSERT INTO {target} ({names}) SELECT {names} FROM _batch")
        finally:
            self._con.unregister("_batch")

    def put_result(self, section: str, body: Any) -> None:
        """Keep one section of the answer (JSON-serialisable), replacing an earlier one."""
        self._con.execute("DELETE FROM raw.result WHERE section = ?", [section])
        text = json.dumps(body, allow_nan=False)
        self._con.execute("INSERT INTO raw.result VALUES (?, ?)", [section, text])

    def result(self, section: str) -> Any:
        """Return a section of the answer, or ``None`` when no stage wrote it."""
        text = self.scalar("SELECT body FROM raw.result WHERE section = ?", [section])
        return None if text is None else json.loads(text)

    def execute(self, sql: str, parameters: Parameters = ()) -> None:
        """Run a statement of the program itself (never text of a user)."""
        self._con.execute(sql, _bound(parameters))

    def next_row(self, table: str, key: str) -> int:
        """Return the next free small key of process, thread, gpu or input."""
        return int(
            self.scalar(f"SELECT coalesce(max({_plain(key)}) + 1, 0) FROM raw.{_plain(table)}")
        )

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Group many appends into one commit."""
        self._con.execute("BEGIN")
        try:
            yield
        except BaseException:
            self._con.execute("ROLLBACK")
            raise
        self._con.execute("COMMIT")

    # --- reading -------------------------------------------------------------------------------

    def rows(self, sql: str, parameters: Parameters = ()) -> list[tuple[Any, ...]]:
        """Run a query and return its rows."""
        return self._con.execute(sql, _bound(parameters)).fetchall()

    def scalar(self, sql: str, parameters: Parameters = ()) -> Any:
        """Run a query and return the first column of its first row, or ``None``."""
        # Fetched to the end: DuckDB refuses other work while a result is unfinished.
        rows = self._con.execute(sql, _bound(parameters)).fetchall()
        return rows[0][0] if rows else None

    def records(self, sql: str, parameters: Parameters = ()) -> list[dict[str, Any]]:
        """Run a query and return its rows as dictionaries."""
        cursor = self._con.execute(sql, _bound(parameters))
        names = [column[0] for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def arrow(self, sql: str, parameters: Parameters = ()) -> pa.Table:
        """Run a query and return an Arrow table."""
        return self._con.sql(sql, params=_bound(parameters)).to_arrow_table()

    def arrays(self, sql: str, parameters: Parameters = ()) -> dict[str, np.ndarray[Any, Any]]:
        """Run a query and return one NumPy array a column.

        Integer columns must hold no NULL (use ``coalesce``): a float detour would lose digits.
        """
        table = self.arrow(sql, parameters)
        return {name: table[name].to_numpy() for name in table.column_names}

    def user_query(self, sql: str) -> pa.Table:
        """Run one SELECT of a user over the public views.

        Raises:
            UsageError: if the statement is not a single query, reaches beyond the views, or fails.
        """
        return run_user_query(self._con, sql)

    def close(self) -> None:
        """Close the database; further use is an error."""
        self._con.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _bound(parameters: Parameters) -> Any:
    return dict(parameters) if isinstance(parameters, Mapping) else list(parameters)


def _array(column: Any) -> pa.Array:
    return column if isinstance(column, pa.Array | pa.ChunkedArray) else pa.array(column)


def _plain(identifier: str) -> str:
    if not identifier.replace("_", "").isalnum():
        raise ValueError(f"not an identifier: {identifier!r}")
    return identifier
