"""Into which tiles does a matmul cut its output, and is an attention kernel a backward one?"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from tracelens.classify.names import normalize
from tracelens.classify.table import Table

_LARGEST_TILE = 4096
"""No multiprocessor holds more: a larger number in a name is something else."""


@dataclass(frozen=True)
class Tiling:
    """What the name of a kernel tells of its grid.

    Attributes:
        tile_m: rows of a tile in the library's own (column-major) order.
        tile_n: columns of a tile.
        tile_k: step along the inner dimension; ``None`` where the name does not tell.
        schedule: ``tiles``, ``persistent``, ``adaptive``, ``split_k`` or ``stream_k``.
        grid_unit: what the grid of a launch counts: ``blocks`` or ``work_items``.
    """

    tile_m: int
    tile_n: int
    tile_k: int | None
    schedule: str
    grid_unit: str


@cache
def tiling_table() -> Table:
    """Return the ordered tiling rules."""
    return Table.load("tilings.toml", "tiling", "schedule")


def tiling_of(name: str) -> Tiling | None:
    """Return the tiling of a matmul kernel, ``None`` where its name tells none."""
    text = normalize(name)
    rule = tiling_table().match(text)
    found = rule.pattern.search(text) if rule else None
    if rule is None or found is None:
        return None
    sizes = found.groupdict()
    rows, columns = int(sizes["m"]), int(sizes["n"])
    if not (0 < rows <= _LARGEST_TILE and 0 < columns <= _LARGEST_TILE):
        return None
    inner = int(sizes["k"]) if sizes.get("k") else None
    return Tiling(rows, columns, inner, rule.value, rule.extra.get("grid", "blocks"))


@cache
def backward_table() -> Table:
    """Return the rules that tell attention kernels of the backward pass."""
    return Table.load("tilings.toml", "backward", "means")


def is_backward(name: str) -> bool:
    """Tell whether an attention kernel belongs to the backward pass, as far as its name says."""
    return backward_table().match(normalize(name)) is not None


def tilings_of(names: Iterable[str]) -> list[Tiling | None]:
    """Return what each name tells; pass every distinct name once."""
    return [tiling_of(name) for name in names]
