"""How many multiprocessors can a matmul use, and how much of its tiles and waves is empty?

Tiles follow from the shape and the name, waves from the number of multiprocessors. What the grid
contradicts is not known.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Texts = npt.NDArray[np.object_]

_MOST_PADDING = 1.5
"""Rasterized grids are padded on one side; the surplus blocks leave at once."""


@dataclass(frozen=True)
class Grids:
    """One matmul a position; 0 is what is not known.

    Attributes:
        m: rows of the result as the operator says.
        n: columns of the result.
        batch: products of one call.
        tile_m: tile in the library's column-major order: along ``n`` of a row-major result.
        tile_n: tile along ``m``.
        schedule: as the name says; ``None`` where it says nothing.
        blocks: blocks of the launch.
        sms: multiprocessors of the device.
    """

    m: Ints
    n: Ints
    batch: Ints
    tile_m: Ints
    tile_n: Ints
    schedule: Texts
    blocks: Ints
    sms: Ints


@dataclass(frozen=True)
class Use:
    """What the grid allows.

    Attributes:
        sm_factor: multiprocessors over those used; ``nan`` where not known.
        quantisation: padded over real work times waves over full waves; ``nan`` where not known.
        is_split: whether several blocks share a tile, so that waves are not counted.
    """

    sm_factor: Floats
    quantisation: Floats
    is_split: npt.NDArray[np.bool_]


def use_of(grids: Grids) -> Use:
    """Return how well every launch fills the device.

    A launch with fewer blocks than tiles keeps its blocks and gives each several tiles: it can use
    as many multiprocessors as it has blocks. With more blocks than tiles, but no multiple of them,
    the grid is padded. A multiple of the tiles means that blocks share tiles along the inner
    dimension. One block a multiprocessor is assumed for waves: more can only make them coarser, so
    the loss is the least that the grid allows.
    """
    sizes = np.stack([grids.m, grids.n, grids.batch, grids.tile_m, grids.tile_n, grids.sms])
    complete = (sizes > 0).all(axis=0) & (grids.blocks > 0)
    m, n, batch, tile_m, tile_n, sms = np.maximum(sizes, 1)
    blocks = np.maximum(grids.blocks, 1)
    columns = -(-n // tile_m) * -(-m // tile_n)
    rows = -(-m // tile_m) * -(-n // tile_n)
    by_rows = (columns * batch != blocks) & (rows * batch == blocks)
    tiles = np.where(by_rows, rows, columns) * batch
    padding = tiles * tile_m * tile_n / (m * n * batch).astype(np.float64)
    is_split = (blocks > tiles) & (blocks % tiles == 0)
    is_split |= np.isin(grids.schedule, ["split_k", "stream_k"])
    may_keep = np.isin(grids.schedule, ["persistent", "adaptive"])
    is_kept = ~is_split & may_keep & (blocks < tiles)
    fits = is_split | is_kept | ((blocks >= tiles) & (blocks <= _MOST_PADDING * tiles + sms))
    used = np.where(is_kept, np.minimum(blocks, sms), sms)
    at_once = np.where(is_kept, blocks, sms)
    waves = np.where(is_split, 1.0, -(-tiles // at_once) * at_once / tiles.astype(np.float64))
    known = complete & fits
    return Use(
        sm_factor=np.where(known, sms / used.astype(np.float64), np.nan),
        quantisation=np.where(known, padding * waves, np.nan),
        is_split=is_split & known,
    )
