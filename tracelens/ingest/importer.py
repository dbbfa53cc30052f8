"""What every importer offers and receives: one format, recognised by its content."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tracelens.store import Store

HEAD_BYTES = 65_536


def _silent(_done_bytes: int, _total_bytes: int) -> None:
    """Report progress to nobody."""


@dataclass(frozen=True)
class ImportOptions:
    """What a user may say about reading.

    Attributes:
        nsys: the nsys program to export reports with; ``None`` searches PATH.
        cache_dir: folder that keeps exports of reports; ``None`` keeps them beside the store or in
            the user's cache folder.
        with_stacks: read all Python frames, not only modules (up to nine tenths of a file).
        progress: called with (bytes done, bytes in all).
    """

    nsys: str | None = None
    cache_dir: Path | None = None
    with_stacks: bool = False
    progress: Callable[[int, int], None] = _silent


@dataclass(frozen=True)
class Source:
    """One file or folder to read.

    Attributes:
        path: where it is; never written to.
        input: its row in ``raw.input``.
        head: its first bytes, decompressed when it is gzip; empty for a folder.
        options: how to read.
    """

    path: Path
    input: int
    head: bytes
    options: ImportOptions = field(default_factory=ImportOptions)


class Importer(Protocol):
    """A module with these three names is an importer."""

    FORMAT: str

    def recognizes(self, path: Path, head: bytes) -> bool:
        """Tell from the content whether this importer reads the file."""

    def read(self, source: Source, store: Store) -> None:
        """Append the file's rows; raise InputError when nothing can be read from it."""
