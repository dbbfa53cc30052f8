"""How are the rows of an export read, whatever file holds them?"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

BATCH_ROWS = 100_000
TEXT_COLUMNS = frozenset({"name", "text", "uuid"})
"""Columns read as text; every other column that is read holds integers."""

Ints = np.ndarray[Any, np.dtype[np.int64]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True)
class Batch:
    """Some consecutive rows of a table, by column; a column that the export lacks is all NULL.

    Attributes:
        columns: Arrow arrays, int64 or string.
        rows: number of each row within its table, from 1: SQLite's rowid of an untouched export.
    """

    columns: Mapping[str, Any]
    rows: Ints

    def __len__(self) -> int:
        return len(self.rows)

    def ints(self, name: str, default: int = 0) -> Ints:
        """Return an integer column with NULL replaced."""
        filled: Ints = pc.fill_null(self.columns[name], default).to_numpy(zero_copy_only=False)
        return filled

    def present(self, name: str) -> Mask:
        """Tell for each row whether the column has a value."""
        valid: Mask = self.columns[name].is_valid().to_numpy(zero_copy_only=False)
        return valid

    def where(self, mask: Mask) -> "Batch":
        """Return the rows where ``mask`` holds."""
        if mask.all():
            return self
        chosen = pa.array(mask)
        columns = {name: column.filter(chosen) for name, column in self.columns.items()}
        return Batch(columns, self.rows[mask])


class Tables(Protocol):
    """An opened export."""

    def columns(self, table: str) -> frozenset[str]:
        """Return the column names of a table; empty when the export has no such table."""

    def batches(self, table: str, names: Sequence[str]) -> Iterator[Batch]:
        """Yield the named columns of a table, at most ``BATCH_ROWS`` rows at a time."""

    def strings(self, ids: Iterable[int]) -> dict[int, str]:
        """Return the texts of string ids, as far as the export has them."""

    def settings(self, table: str, keys: Sequence[str]) -> list[tuple[str, str]]:
        """Return the (name, value) rows of a metadata table that carry exactly these names."""

    def launch_variables(self, variables: Sequence[str]) -> list[str]:
        """Return ``NAME=value`` of these environment variables only; no other is looked at."""

    def close(self) -> None:
        """Let go of the file."""


def small(value: int | None) -> int | None:
    """Return a number that fits 31 bits, ``None`` for any other: counts and indexes are small."""
    return value if value is not None and 0 <= value < 2**31 else None


def small_column(column: Any) -> Any:
    """Return a column of numbers that fit 31 bits, NULL in place of others."""
    fits = pc.and_(pc.greater_equal(column, 0), pc.less(column, 2**31))
    return pc.if_else(fits, column, None)


def text_column(values: Sequence[Any]) -> Any:
    """Make a text column; what is no text becomes NULL (SQLite does not enforce types)."""
    return pa.array([value if type(value) is str else None for value in values], pa.string())


def valid_text(column: Any) -> Any:
    """Return a text column whose invalid UTF-8 is replaced: Arrow lets it pass, DuckDB does not."""
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        contents = column.cast(pa.binary()).to_pylist()
        texts = [None if text is None else text.decode("utf-8", "replace") for text in contents]
        return pa.array(texts, pa.string())
    return column.cast(pa.string())


def null_column(name: str, count: int) -> Any:
    """Make the column of an export that does not have it."""
    return pa.nulls(count, pa.string() if name in TEXT_COLUMNS else pa.int64())


def distinct(values: Any) -> tuple[list[Any], Ints]:
    """Return the distinct values of a column without NULL, and for each row which one it has."""
    encoded = (values if isinstance(values, pa.Array) else pa.array(values)).dictionary_encode()
    codes: Ints = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return encoded.dictionary.to_pylist(), codes


def distinct_rows(*columns: Ints) -> tuple[list[tuple[int, ...]], Ints]:
    """Return the distinct combinations of columns, and for each row which one it has."""
    parts = [distinct(column) for column in columns]
    joint = np.zeros(len(columns[0]), np.int64)
    for values, codes in parts:
        joint = joint * len(values) + codes  # at most BATCH_ROWS values each: fits three columns
    present, which = distinct(joint)
    rows: list[tuple[int, ...]] = []
    for code in present:
        row: list[int] = []
        for values, _ in reversed(parts):
            code, at = divmod(code, len(values))  # noqa: PLW2901
            row.append(values[at])
        rows.append(tuple(reversed(row)))
    return rows, which
