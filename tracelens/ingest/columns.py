"""Rows gathered by column and appended to the store in batches: memory stays bounded."""

from typing import Any

from tracelens.store import Store

BATCH_ROWS = 100_000


class Columns:
    """Gathers rows of one raw table.

    Args:
        store: where full batches go.
        table: name of the raw table.
        names: the columns, in the order of the tuples given to ``add``.
    """

    def __init__(self, store: Store, table: str, names: tuple[str, ...]) -> None:
        self._store = store
        self._table = table
        self._names = names
        self._rows: list[tuple[Any, ...]] = []
        self.written = 0

    def add(self, row: tuple[Any, ...]) -> None:
        """Take one row."""
        self._rows.append(row)
        if len(self._rows) >= BATCH_ROWS:
            self.flush()

    def flush(self) -> None:
        """Append what has been gathered."""
        if not self._rows:
            return
        columns = dict(zip(self._names, zip(*self._rows, strict=True), strict=True))
        if "name_id" in columns:
            columns["name_id"] = tuple(self._store.name_ids(columns["name_id"]))
        self._store.append(self._table, columns)
        self.written += len(self._rows)
        self._rows = []
