"""Which leaves were active together, for how long, and which of them owned the GPU?

One row for every set of leaves that ever ran together: the overlap of any leaves with any others is
a sum of rows, and all rows together are the window.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tracelens.attribution.sweep import Array, Sweep
from tracelens.taxonomy import Kind

_LOW_BITS = 20
_LOW = (1 << _LOW_BITS) - 1


@dataclass(frozen=True)
class Concurrency:
    """Sets of leaves that ran together; the first dimension of all arrays is the set.

    Attributes:
        active: (set, leaf code) whether the leaf ran.
        owner: leaf code that the time was charged to, -1 for idle time.
        part: stretch between two cuts, from 0.
        dur_ns: time.
    """

    active: Array
    owner: Array
    part: Array
    dur_ns: Array


@dataclass(frozen=True)
class Hidden:
    """Time in which one leaf was active but another owned the GPU.

    Attributes:
        loser: leaf codes.
        winner: leaf codes.
        dur_ns: time.
    """

    loser: Array
    winner: Array
    dur_ns: Array


def find_concurrency(sweep: Sweep, leaf: Array, leaves: int, cuts: Array) -> Concurrency:
    """Group the elementary segments of a sweep whose owners are settled.

    Args:
        sweep: of one GPU and span.
        leaf: leaf code of each activity.
        leaves: number of leaf codes.
        cuts: starts of the parts that time is told apart by, ascending; the first is the start of
            the span.
    """
    owner = sweep.elementary_owner
    owner_leaf = np.where(owner >= 0, leaf[np.maximum(owner, 0)], -1) if len(leaf) else owner
    part = np.searchsorted(cuts, sweep.edges[:-1], side="right") - 1
    group = np.zeros(len(owner), np.int64)
    traits: list[Array] = []  # of each group: a leaf each, then owner and part
    for code in range(leaves):
        group = _refined(group, traits, sweep.active(leaf == code) > 0, 2)
    group = _refined(group, traits, owner_leaf + 1, leaves + 1)
    group = _refined(group, traits, part, len(cuts))
    active = np.array(traits[:leaves], bool).reshape(leaves, -1).T
    return Concurrency(active, traits[-2] - 1, traits[-1], _sums(group, sweep.edges))


def hidden_time(together: Concurrency, kind: Array) -> Hidden:
    """Return for each leaf how long it ran while another leaf owned the GPU.

    Args:
        together: what ran together.
        kind: ``taxonomy.Kind`` of each leaf code. Leaves that bear FLOPs share the time of their
            like and never lose it.
    """
    total: dict[tuple[int, int], int] = {}
    for row, winner in enumerate(together.owner.tolist()):
        for loser in np.flatnonzero(together.active[row] & (kind != Kind.FLOP)).tolist():
            if winner not in {loser, -1}:
                pair = (loser, winner)
                total[pair] = total.get(pair, 0) + int(together.dur_ns[row])
    pairs = sorted(total)
    losers, winners = (np.array([pair[side] for pair in pairs], np.int64) for side in (0, 1))
    return Hidden(losers, winners, np.array([total[pair] for pair in pairs], np.int64))


def _refined(group: Array, traits: list[Array], value: Any, values: int) -> Array:
    """Split groups by a further value in [0, values); numbers stay dense without a sort."""
    groups = len(traits[0]) if traits else 1
    finer = group * values + value
    present = np.flatnonzero(np.bincount(finer, minlength=groups * values))
    number = np.zeros(groups * values, np.int64)
    number[present] = np.arange(len(present))
    parent, own = np.divmod(present, values)
    traits[:] = [*(trait[parent] for trait in traits), own]
    split: Array = number[finer]
    return split


def _sums(group: Array, edges: Array) -> Array:
    """Sum durations by group: in two halves, for bincount adds floats, exact below 2**53."""
    dur = np.diff(edges)
    high = np.bincount(group, weights=dur >> _LOW_BITS).astype(np.int64)
    low = np.bincount(group, weights=dur & _LOW).astype(np.int64)
    total: Array = (high << _LOW_BITS) + low
    return total
