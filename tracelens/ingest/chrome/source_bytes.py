"""The bytes of a trace file in order: plain or gzip, one member or many, whole or cut off."""

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from tracelens.ingest.damage import Damage
from tracelens.ingest.importer import HEAD_BYTES

GZIP_MAGIC = b"\x1f\x8b"
_READ_BYTES = 1 << 20
_GZIP_WINDOW_BITS = 31
TRUNCATED_GZIP = "gzip stream is cut off or damaged"


def head_of(path: Path) -> bytes:
    """Return the first bytes of a file, decompressed when it is gzip, as far as they go."""
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    if not head.startswith(GZIP_MAGIC):
        return head
    try:
        return zlib.decompressobj(_GZIP_WINDOW_BITS).decompress(head, HEAD_BYTES)
    except zlib.error:
        return head


class ByteStream:
    """Iterates over the decompressed bytes of a file and knows how far it has read.

    Attributes:
        read_bytes: bytes of the file itself read so far.
        damage: where a broken gzip stream is counted.
    """

    def __init__(self, path: Path, damage: Damage) -> None:
        self._path = path
        self.read_bytes = 0
        self.damage = damage

    def __iter__(self) -> Iterator[bytes]:
        with self._path.open("rb") as file:
            compressed = file.read(len(GZIP_MAGIC)) == GZIP_MAGIC
            file.seek(0)
            yield from self._inflate(file) if compressed else self._raw(file)

    def _raw(self, file: BinaryIO) -> Iterator[bytes]:
        while block := file.read(_READ_BYTES):
            self.read_bytes += len(block)
            yield block

    def _inflate(self, file: BinaryIO) -> Iterator[bytes]:
        inflater = zlib.decompressobj(_GZIP_WINDOW_BITS)
        for block in self._raw(file):
            pending = block
            while pending:
                if inflater.eof:  # the next member of a concatenated file
                    if not pending.startswith(GZIP_MAGIC[:1]):
                        if pending.strip(b"\0"):
                            self.damage.add("bytes after the end of the gzip stream ignored")
                        return
                    inflater = zlib.decompressobj(_GZIP_WINDOW_BITS)
                try:
                    # Bounded output: a small hostile file must not inflate into all of memory.
                    yield inflater.decompress(pending, 4 * _READ_BYTES)
                except zlib.error:
                    self.damage.add(TRUNCATED_GZIP, self.read_bytes)
                    return
                pending = inflater.unconsumed_tail or inflater.unused_data
        if not inflater.eof:
            self.damage.add(TRUNCATED_GZIP, self.read_bytes)
