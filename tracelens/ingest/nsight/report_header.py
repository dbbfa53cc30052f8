"""What does a report file say of itself, without nsys: its writer's version, and is it whole?

Layout, from looking at public files: an ASCII magic with the version, sections, and in the last
16 bytes the offset of the section table and an end mark.
"""

import re
from dataclasses import dataclass
from pathlib import Path

Version = tuple[int, ...]

REPORT_MAGIC = b"NVIDIA Tegra Profiler Report "
STREAM_MAGIC = b"U3w[END]NVIDIA Nsight Systems Stream"
_END_MARK = b"U3w[END]"
_TAIL_BYTES = 16
_VERSION = re.compile(rb"NVIDIA Tegra Profiler Report (\d{1,4}(?:@\d{1,5})*)")


@dataclass(frozen=True)
class ReportHeader:
    """What a report says of itself.

    Attributes:
        version: of the nsys that wrote it; ``None`` up to 2023.2, which did not write it down.
        whole: whether the file ends as it should.
        size_bytes: its size.
    """

    version: Version | None
    whole: bool
    size_bytes: int


def read_header(path: Path, head: bytes) -> ReportHeader:
    """Look at the first and the last bytes of a report."""
    size_bytes = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(0, size_bytes - _TAIL_BYTES))
        tail = file.read(_TAIL_BYTES)
    table_offset = int.from_bytes(tail[:8], "little")
    found = _VERSION.match(head)
    numbers = tuple(int(part) for part in found[1].split(b"@")) if found else ()
    return ReportHeader(
        version=numbers[:3] if len(numbers) > 1 else None,
        whole=tail[8:] == _END_MARK and table_offset < size_bytes,
        size_bytes=size_bytes,
    )


def spelled(version: Version) -> str:
    """Return a version as people write it."""
    return ".".join(map(str, version))
