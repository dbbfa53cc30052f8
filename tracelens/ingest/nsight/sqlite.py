"""Reads SQLite exports (``nsys export --type sqlite``)."""

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa

from tracelens.errors import InputError
from tracelens.ingest.importer import Source
from tracelens.ingest.nsight import schema
from tracelens.ingest.nsight.read import read_tables
from tracelens.ingest.nsight.stream import RefusedError, Stream
from tracelens.ingest.nsight.tables import (
    BATCH_ROWS,
    TEXT_COLUMNS,
    Batch,
    Ints,
    null_column,
    text_column,
)
from tracelens.store import Store

FORMAT = "nsys-sqlite"
MAGIC = b"SQLite format 3\0"
_IDS_A_QUERY = 500
_NULL = -(2**63)
_ROW_NUMBERS = ("rowid", "_rowid_", "oid")
# sqlite3 fails to decode its own message when that quotes a damaged schema.
_DAMAGE = (sqlite3.Error, UnicodeDecodeError)
_EXPORT_AGAIN = "export the report again: nsys export --type sqlite REPORT.nsys-rep"


def recognizes(path: Path, head: bytes) -> bool:
    """Tell whether the file is an SQLite database with tables of an Nsight Systems export."""
    if not head.startswith(MAGIC):
        return False
    try:
        with closing(SqliteTables(path)) as tables:
            return tables.is_export()
    except (*_DAMAGE, InputError):
        # A damaged export is still ours to report on; its schema lies in the first pages.
        return schema.STRINGS.encode() in head or b"CUPTI_ACTIVITY_KIND" in head


def verify(path: Path, head: bytes) -> None:
    """Look whether a whole export is there, without reading its rows.

    Raises:
        InputError: if it is not.
    """
    _check_size(path, head)


def read(source: Source, store: Store) -> None:
    """Append the rows of an export.

    Raises:
        InputError: if the database is damaged, incomplete or in use.
    """
    _check_size(source.path, source.head)
    try:
        with closing(SqliteTables(source.path)) as tables:
            read_tables(tables, source, store)
    except _DAMAGE as error:
        raise InputError(f"{source.path}: {_said(error)}", hint=_hint(source.path)) from error


class SqliteTables:
    """The tables of an SQLite export, opened for reading only.

    A journal beside the database belongs to its content, and SQLite would write next to the file to
    honour it; such a pair is copied and read elsewhere.

    Args:
        path: the database; neither it nor its folder is ever written to.
    """

    def __init__(self, path: Path) -> None:
        self._columns: dict[str, frozenset[str]] = {}
        self._names: frozenset[str] | None = None
        self._snapshot: tempfile.TemporaryDirectory[str] | None = None
        journals = _journals(path)
        if journals:
            self._snapshot = _copied((path, *journals))
            path = Path(self._snapshot.name) / path.name
        mode = "mode=rw" if journals else "mode=ro&immutable=1"
        uri = f"file:{quote(os.fsencode(path.absolute()))}?{mode}"
        self._uri = uri
        self._stream: Stream | None = None
        self._connection = sqlite3.connect(uri, uri=True, isolation_level=None)
        self._connection.text_factory = _text
        self._connection.execute("PRAGMA trusted_schema = OFF")

    def close(self) -> None:
        """Close the database."""
        if self._stream is not None:
            self._stream.close()
        self._connection.close()
        if self._snapshot is not None:
            self._snapshot.cleanup()

    def is_export(self) -> bool:
        """Tell whether there are tables of an Nsight Systems export."""
        names = self._tables()
        return schema.STRINGS in names and not names.isdisjoint(schema.TRACE_TABLES)

    def columns(self, table: str) -> frozenset[str]:
        """Return the columns of a table; empty when it does not exist."""
        if table not in self._tables():
            return frozenset()
        if table not in self._columns:
            found = self._connection.execute(f"PRAGMA table_info({_quoted(table)})")
            self._columns[table] = frozenset(row[1] for row in found)
        return self._columns[table]

    def _tables(self) -> frozenset[str]:
        if self._names is None:  # views are left out: reading one runs whatever its author wrote
            query = "SELECT name FROM sqlite_master WHERE type = 'table'"
            self._names = frozenset(name for (name,) in self._connection.execute(query))
        return self._names

    def batches(self, table: str, names: Sequence[str]) -> Iterator[Batch]:
        """Yield the named columns, ``BATCH_ROWS`` rows at a time."""
        there = [name for name in names if name in self.columns(table)]
        if not there:
            return
        end = _NULL
        missing = [name for name in names if name not in there]
        try:
            for rows, found in self._streamed(table, there):
                nothing = {name: null_column(name, len(rows)) for name in missing}
                yield Batch(nothing | found, rows)
                end = int(rows[-1])
        except RefusedError:
            yield from self._fetched(table, names, there, end)

    def _streamed(self, table: str, names: Sequence[str]) -> Iterator[tuple[Ints, dict[str, Any]]]:
        if self._stream is None:
            self._stream = Stream(self._uri, BATCH_ROWS)
        numbers = [name for name in names if name not in TEXT_COLUMNS]
        texts = [name for name in names if name in TEXT_COLUMNS]
        return self._stream.rows(_quoted(table), self._row_number(table), numbers, texts)

    def _fetched(
        self, table: str, names: Sequence[str], there: Sequence[str], end: int
    ) -> Iterator[Batch]:
        """Yield the rows after ``end``, whatever types their values have."""
        numbers = [name for name in there if name not in TEXT_COLUMNS]
        texts = [name for name in there if name in TEXT_COLUMNS]
        while (last := self._last_of_batch(table, end)) is not None:
            part, end = (end, last), last
            rows, *packed = self._integers(table, numbers, part)
            columns = {name: null_column(name, len(rows)) for name in names}
            columns |= {
                name: pa.array(values, mask=values == _NULL)
                for name, values in zip(numbers, packed, strict=True)
            }
            columns |= {name: self._texts(table, name, part) for name in texts}
            if any(len(column) != len(rows) for column in columns.values()):
                raise sqlite3.DatabaseError("rows are lost between two readings")
            yield Batch(columns, rows)

    def _row_number(self, table: str) -> str:
        """Return the name under which SQLite's row number is not hidden by a column."""
        taken = {name.lower() for name in self.columns(table)}
        free = next((name for name in _ROW_NUMBERS if name not in taken), None)
        if free is None:
            raise sqlite3.DatabaseError(f"columns of {table} hide the row number")
        return free

    def _last_of_batch(self, table: str, after: int) -> int | None:
        row = self._row_number(table)
        query = (
            f"SELECT max(number) FROM (SELECT {row} AS number FROM {_quoted(table)}"
            f" WHERE {row} > ? ORDER BY {row} LIMIT {BATCH_ROWS})"
        )
        last: int | None = self._connection.execute(query, [after]).fetchone()[0]
        return last

    def _integers(self, table: str, names: Sequence[str], part: tuple[int, int]) -> list[Ints]:
        """Return row numbers and integer columns, ``_NULL`` for what is no integer.

        SQLite packs all numbers of a batch into one text of fixed width, so Python makes one object
        a batch, not one a value: twice as fast as fetching rows.
        """
        row = self._row_number(table)
        columns = ", ".join([row, *map(_integer, names)])
        query = (
            f"SELECT group_concat(printf('{'%016llx' * (len(names) + 1)}',"
            f" {columns}), '')"
            f" FROM {_quoted(table)} WHERE {row} > ? AND {row} <= ?"
        )
        packed: str | None = self._connection.execute(query, part).fetchone()[0]
        values = np.frombuffer(bytes.fromhex(packed or ""), ">i8").reshape(-1, len(names) + 1)
        return list(np.ascontiguousarray(values.T.astype(np.int64)))

    def _texts(self, table: str, name: str, part: tuple[int, int]) -> Any:
        row = self._row_number(table)
        query = (
            f"SELECT {_quoted(name)} FROM {_quoted(table)}"
            f" WHERE {row} > ? AND {row} <= ? ORDER BY {row}"
        )
        return text_column([text for (text,) in self._connection.execute(query, part)])

    def strings(self, ids: Iterable[int]) -> dict[int, str]:
        """Return the texts of string ids."""
        found: dict[int, Any] = {}
        wanted = list(ids)
        for at in range(0, len(wanted), _IDS_A_QUERY):
            part = wanted[at : at + _IDS_A_QUERY]
            marks = ", ".join("?" * len(part))
            query = f'SELECT "id", "value" FROM "StringIds" WHERE "id" IN ({marks})'
            found.update(self._connection.execute(query, part).fetchall())
        return {number: text for number, text in found.items() if isinstance(text, str)}

    def settings(self, table: str, keys: Sequence[str]) -> list[tuple[str, str]]:
        """Return the rows of a metadata table with these names."""
        if not {"name", "value"} <= self.columns(table):
            return []
        marks = ", ".join("?" * len(keys))
        query = f'SELECT "name", "value" FROM {_quoted(table)} WHERE "name" IN ({marks})'
        return [(name, str(value)) for name, value in self._connection.execute(query, list(keys))]

    def launch_variables(self, variables: Sequence[str]) -> list[str]:
        """Return ``NAME=value`` of these variables; SQLite leaves the others on disk."""
        if not {"name", "value"} <= self.columns(schema.CAPTURE_SETTINGS):
            return []
        tests = " OR ".join('"value" GLOB ?' for _ in variables)
        query = (
            f'SELECT "value" FROM {_quoted(schema.CAPTURE_SETTINGS)}'
            f" WHERE \"name\" GLOB 'PROCESS_*:ENVIRONMENT_VARIABLE' AND ({tests})"
        )
        patterns = [f"{name}=*" for name in variables]
        return [str(value) for (value,) in self._connection.execute(query, patterns)]


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")


def _journals(path: Path) -> list[Path]:
    beside = (path.with_name(path.name + suffix) for suffix in ("-wal", "-journal"))
    return [file for file in beside if file.is_file() and file.stat().st_size]


def _copied(files: Sequence[Path]) -> tempfile.TemporaryDirectory[str]:
    folder = tempfile.TemporaryDirectory(prefix="tracelens-")
    try:
        for file in files:
            shutil.copyfile(file, Path(folder.name) / file.name)
    except OSError as error:
        folder.cleanup()
        raise InputError(
            f"{error.filename or files[0]}: cannot be copied to be read: {error.strerror}",
            hint="make the file readable, or set TMPDIR to a folder with space for a copy of it",
        ) from error
    return folder


def _quoted(identifier: str) -> str:
    return '"' + identifier.replace('"', '""') + '"'


def _integer(name: str) -> str:
    column = _quoted(name)
    # SQLite does not enforce types. The columns that decide where and when work is charged are
    # tested; testing every column would cost a third of the speed.
    if name in {"start", "end", "deviceId", "globalPid"}:
        return f"iif(typeof({column}) = 'integer', {column}, {_NULL})"
    return f"ifnull({column}, {_NULL})"


def _check_size(path: Path, head: bytes) -> None:
    page_bytes = int.from_bytes(head[16:18], "big")
    page_bytes = 65_536 if page_bytes == 1 else page_bytes
    pages = int.from_bytes(head[28:32], "big")
    # The header's page count is valid only when its change counter equals the version-valid-for
    # number; otherwise an old SQLite wrote the file.
    if head[24:28] != head[92:96] or _journals(path):
        return
    there = path.stat().st_size
    if there < page_bytes * pages:
        raise InputError(
            f"{path}: the SQLite file ends at byte {there} of {page_bytes * pages}",
            hint=f"copy it again, or {_EXPORT_AGAIN}",
        )


def _said(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "SQLite: malformed database schema"
    text = "".join(char if char.isprintable() else " " for char in str(error))
    return f"SQLite: {text[:200]}"


def _hint(path: Path) -> str:
    if journals := _journals(path):
        return f"close the program that has the file open ({journals[0].name} lies beside it)"
    return _EXPORT_AGAIN
