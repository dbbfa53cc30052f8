"""Reads folders that ``nsys export --type parquetdir`` writes: one Parquet file a table."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tracelens.errors import InputError
from tracelens.ingest.importer import Source
from tracelens.ingest.nsight import schema
from tracelens.ingest.nsight.read import read_tables
from tracelens.ingest.nsight.tables import BATCH_ROWS, TEXT_COLUMNS, Batch, null_column, valid_text
from tracelens.store import Store

FORMAT = "nsys-parquet"
_SUFFIX = ".parquet"
_EXPORT_AGAIN = "export the report again: nsys export --type parquetdir REPORT.nsys-rep"
_VARIABLE = r"^PROCESS_\d+:ENVIRONMENT_VARIABLE$"


def recognizes(path: Path, head: bytes) -> bool:  # noqa: ARG001
    """Tell whether a folder holds tables of an Nsight Systems export, whatever its name."""
    if not path.is_dir():
        return False
    tables = {file.stem for file in path.glob(f"*{_SUFFIX}")}
    return schema.STRINGS in tables and not tables.isdisjoint(schema.TRACE_TABLES)


def verify(path: Path, head: bytes) -> None:  # noqa: ARG001
    """Look whether every file of an export is whole, without reading its rows.

    Raises:
        InputError: if one is damaged.
    """
    with closing(ParquetTables(path)) as tables:
        for file in sorted(path.glob(f"*{_SUFFIX}")):
            tables.columns(file.stem)


def read(source: Source, store: Store) -> None:
    """Append the rows of an export.

    Raises:
        InputError: if one of its files is damaged.
    """
    with closing(ParquetTables(source.path)) as tables:
        read_tables(tables, source, store)


class ParquetTables:
    """The tables of a Parquet export.

    Args:
        path: the folder.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._files: dict[str, pq.ParquetFile | None] = {}
        self._strings: dict[int, str] | None = None

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            if file is not None:
                file.close()

    def columns(self, table: str) -> frozenset[str]:
        """Return the columns of a table; empty when there is no such file."""
        file = self._file(table)
        return frozenset() if file is None else frozenset(file.schema_arrow.names)

    def batches(self, table: str, names: Sequence[str]) -> Iterator[Batch]:
        """Yield the named columns, ``BATCH_ROWS`` rows at a time."""
        there = [name for name in names if name in self.columns(table)]
        first = 1
        for part in self._parts(table, there):
            numbers = np.arange(first, first + len(part), dtype=np.int64)
            by_name = dict(zip(there, part.columns, strict=True))
            columns = {name: _column(name, by_name, len(part)) for name in names}
            yield Batch(columns, numbers)
            first += len(part)

    def strings(self, ids: Iterable[int]) -> dict[int, str]:
        """Return the texts of string ids."""
        if self._strings is None:
            self._check_strings()
            self._strings = {
                number: text
                for part in self._parts(schema.STRINGS, ["id", "value"])
                for number, text in zip(
                    _as_ints(part["id"]).to_pylist(),
                    _as_text(part["value"]).to_pylist(),
                    strict=True,
                )
                if text is not None
            }
        known = self._strings
        return {number: known[number] for number in ids if number in known}

    def _check_strings(self) -> None:
        # Without names no kernel can be told from another: not an export with a gap, a broken one.
        file = self._file(schema.STRINGS)
        if file is None:
            return
        path = self._path / f"{schema.STRINGS}{_SUFFIX}"
        types = {field.name: field.type for field in file.schema_arrow}
        for name, fits, what in (
            ("id", pa.types.is_integer, "whole numbers"),
            ("value", _is_text_type, "text"),
        ):
            if name not in types:
                raise InputError(f"{path}: no column {name!r}", hint=_EXPORT_AGAIN)
            if not fits(types[name]):
                raise InputError(
                    f"{path}: column {name!r} holds {types[name]}, not {what}", hint=_EXPORT_AGAIN
                )

    def settings(self, table: str, keys: Sequence[str]) -> list[tuple[str, str]]:
        """Return the rows of a metadata table with these names."""
        wanted = pa.array(keys, pa.string())
        return self._pairs(table, lambda name, _value: pc.is_in(name, wanted))

    def launch_variables(self, variables: Sequence[str]) -> list[str]:
        """Return ``NAME=value`` of these variables; other rows are dropped while still encoded."""
        pattern = f"^({'|'.join(variables)})="
        pairs = self._pairs(
            schema.CAPTURE_SETTINGS,
            lambda name, value: pc.and_(
                pc.match_substring_regex(name, _VARIABLE), pc.match_substring_regex(value, pattern)
            ),
        )
        return [value for _, value in pairs]

    def _pairs(self, table: str, test: Any) -> list[tuple[str, str]]:
        if not {"name", "value"} <= self.columns(table):
            return []
        pairs: list[tuple[str, str]] = []
        for part in self._parts(table, ["name", "value"]):
            columns = {name: _as_text(part[name]) for name in ("name", "value")}
            keep = pc.fill_null(test(columns["name"], columns["value"]), False)
            chosen = (columns[name].filter(keep).to_pylist() for name in ("name", "value"))
            pairs.extend((name, str(value)) for name, value in zip(*chosen, strict=True))
        return pairs

    def _file(self, table: str) -> pq.ParquetFile | None:
        if table not in self._files:
            path = self._path / f"{table}{_SUFFIX}"
            self._files[table] = self._guarded(path, _opened) if path.is_file() else None
        return self._files[table]

    def _parts(self, table: str, names: Sequence[str]) -> Iterator[Any]:
        file = self._file(table)
        if file is None or not names:
            return
        parts = file.iter_batches(batch_size=BATCH_ROWS, columns=list(names))
        path = self._path / f"{table}{_SUFFIX}"
        while (part := self._guarded(path, lambda _path: next(parts, None))) is not None:
            yield part.select(list(names))

    def _guarded(self, path: Path, action: Any) -> Any:
        try:
            return action(path)
        except (pa.ArrowException, OSError) as error:
            raise InputError(
                f"{path}: not readable as Parquet: {type(error).__name__}",
                hint=_EXPORT_AGAIN,
            ) from error


def _opened(path: Path) -> pq.ParquetFile:
    file = pq.ParquetFile(path)
    names = file.schema_arrow.names
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        file.close()
        raise InputError(
            f"{path}: several columns are called {twice[0]!r}: which one holds is unknown",
            hint=_EXPORT_AGAIN,
        )
    return file


def _column(name: str, by_name: dict[str, Any], count: int) -> Any:
    if name not in by_name:
        return null_column(name, count)
    return (_as_text if name in TEXT_COLUMNS else _as_ints)(by_name[name])


def _as_ints(column: Any) -> Any:
    if column.type == pa.uint64():
        # Ids use all 64 bits; SQLite exports hold the same bits as signed numbers.
        return column.view(pa.int64())
    if pa.types.is_integer(column.type) or pa.types.is_boolean(column.type):
        return column.cast(pa.int64())
    return pa.nulls(len(column), pa.int64())


def _as_text(column: Any) -> Any:
    if not _is_text(column):
        return pa.nulls(len(column), pa.string())
    return valid_text(column)


def _is_text(column: Any) -> bool:
    return _is_text_type(column.type)


def _is_text_type(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
