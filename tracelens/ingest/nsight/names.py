"""Which names do string ids stand for?"""

from collections.abc import Callable
from typing import Any

import numpy as np

from tracelens.ingest.nsight.tables import Ints, Tables, distinct
from tracelens.store import Store

UNNAMED = "[no name recorded]"


def as_written(name: str) -> str:
    """Return a name unchanged."""
    return name


class Names:
    """Turns string ids into names of the store, looking up only those that are used.

    Args:
        tables: the export.
        store: where names go.
        rename: how the export's spelling becomes TraceLens's.
    """

    def __init__(
        self, tables: Tables, store: Store, rename: Callable[[str], str] = as_written
    ) -> None:
        self._tables = tables
        self._store = store
        self._rename = rename
        self._known: dict[int, int] = {}

    def of_ids(self, ids: Any) -> Ints:
        """Return the name of each string id, given as an Arrow column that may hold NULL."""
        found, codes = distinct(ids.fill_null(-1))
        self._learn([number for number in found if number not in self._known])
        return np.array([self._known[number] for number in found], np.int64)[codes]

    def of_texts(self, texts: Any) -> Ints:
        """Return the name of each text, given as an Arrow column without NULL."""
        found, codes = distinct(texts)
        names = self._store.name_ids(self._rename(text) for text in found)
        return np.array(names, np.int64)[codes]

    def _learn(self, ids: list[int]) -> None:
        texts = self._tables.strings(ids) if ids else {}
        names = [self._rename(texts[number]) if number in texts else UNNAMED for number in ids]
        self._known.update(zip(ids, self._store.name_ids(names), strict=True))
