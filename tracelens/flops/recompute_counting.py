"""Which kernels run forward work again, when nothing but kernels was recorded?

Every forward of attention has one backward. Twice as many forward as backward attention kernels in
every step mean that each layer runs again before its backward; the backward then follows the run
that it uses, so that the forward nearest before it is the repeated one. What surrounds it in the
same order as in the first forward is repeated too. Any other ratio says that some layers run again,
but not which: nothing is named.
"""

from collections import Counter

import numpy as np
import numpy.typing as npt

from tracelens.store import Store

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_SEQUENCE = """
SELECT a.activity_id, c.class = 'optimizer' AS is_optimizer,
    c.class = 'attention' AND NOT coalesce(k.is_backward, FALSE) AS is_forward,
    c.class = 'attention' AND coalesce(k.is_backward, FALSE) AS is_backward,
    (hash(a.name_id, a.grid_x, a.grid_y, a.grid_z, a.block_x, a.block_y, a.block_z) >> 1)::BIGINT
        AS token,
    a.name_id::BIGINT AS name_id
FROM raw.activity AS a
JOIN raw.activity_class AS c USING (activity_id)
LEFT JOIN raw.kernel_tiling AS k USING (name_id)
WHERE a.gpu = ? AND a.kind = 'kernel' AND a.name_id IS NOT NULL
    AND NOT starts_with(c.class, 'collective:') AND c.class <> 'p2p:sendrecv'
ORDER BY a.start_ns, a.activity_id
"""
_HAS_BACKWARD = """
SELECT EXISTS (
    SELECT 1 FROM raw.activity AS a
    JOIN raw.activity_class AS c USING (activity_id)
    JOIN raw.kernel_tiling AS k USING (name_id)
    WHERE a.gpu = ? AND c.class = 'attention' AND k.is_backward
)
"""
_FURTHEST = 256
"""Kernels of one layer; a longer match is no layer."""


def count_again(store: Store, gpu: int) -> Ints:
    """Return the kernels of a GPU that run forward work again; none where counts do not say.

    Args:
        store: classified.
        gpu: number of the GPU.
    """
    if not store.scalar(_HAS_BACKWARD, [gpu]):
        return np.empty(0, np.int64)
    columns = store.arrays(_SEQUENCE, [gpu])
    ids: Ints = columns["activity_id"]
    token: Ints = columns["token"]
    names: Ints = columns["name_id"]
    forward, backward, optimizer = (
        columns[f"is_{what}"].astype(bool) for what in ("forward", "backward", "optimizer")
    )
    backward &= names == _most_common(names[backward])
    if not _twice_in_every_step(forward, backward, optimizer):
        return np.empty(0, np.int64)
    again, first = _repeated(forward, backward)
    found: Ints = ids[_spread(token, forward | backward | optimizer, again, first)]
    return found


def _most_common(names: Ints) -> int:
    """One backward may be several kernels: that of the most common name stands for it."""
    return Counter(names.tolist()).most_common(1)[0][0] if len(names) else -1


def _twice_in_every_step(forward: Flags, backward: Flags, optimizer: Flags) -> bool:
    """Steps lie between runs of the optimizer; what is cut off at the ends does not count."""
    if not backward.any():
        return False
    step = np.cumsum(np.diff(optimizer.astype(np.int8), prepend=0) == 1)
    last = int(step.max())
    whole = (step >= 1) & (step < last) if last >= 2 else np.ones(len(step), bool)
    forwards = np.bincount(step[forward & whole], minlength=last + 1)
    backwards = np.bincount(step[backward & whole], minlength=last + 1)
    some = (forwards > 0) | (backwards > 0)
    return bool(some.any() and (forwards[some] == 2 * backwards[some]).all())


def _repeated(forward: Flags, backward: Flags) -> tuple[list[int], list[int]]:
    """Positions of repeated and of first forwards: a backward uses the last one not yet used."""
    waiting: list[int] = []
    again: list[int] = []
    for at in np.flatnonzero(forward | backward).tolist():
        if forward[at]:
            waiting.append(at)
        elif waiting:
            again.append(waiting.pop())
    return sorted(again), waiting


def _spread(token: Ints, is_anchor: Flags, again: list[int], first: list[int]) -> Ints:
    """Add the neighbours of repeated forwards that repeat those of a first forward.

    Only what lies between two first forwards is surely forward work, so that each side is compared
    with such a stretch. How far a layer reaches is what most of them agree on: a neighbour may look
    alike by chance.
    """
    anchors = np.flatnonzero(is_anchor)
    is_first = np.isin(anchors, first)
    pairs = is_first[:-1] & is_first[1:]
    before, after = anchors[1:][pairs], anchors[:-1][pairs]
    lefts = [_reach(token, is_anchor, (at, before), -1) for at in again]
    rights = [_reach(token, is_anchor, (at, after), 1) for at in again]
    left, right = _usual(lefts), _usual(rights)
    spans = [
        np.arange(at - min(own_left, left), at + min(own_right, right) + 1)
        for at, own_left, own_right in zip(again, lefts, rights, strict=True)
    ]
    # The end of the last first layer lies before the first repeated one and looks like its start.
    firsts = np.array(first, np.int64)
    kept = (firsts[:, None] + np.arange(right + 1)).ravel()
    return np.setdiff1d(np.concatenate([*spans, np.empty(0, np.int64)]), kept).astype(np.int64)


def _usual(reaches: list[int]) -> int:
    """The most common one, of equally common ones the shortest."""
    counts = Counter(reaches)
    return min(counts, key=lambda reach: (-counts[reach], reach), default=0)


def _reach(token: Ints, is_anchor: Flags, pair: tuple[int, Ints], step: int) -> int:
    """Neighbours that a repeated forward shares with the first, middle or last candidate."""
    at, candidates = pair
    if not len(candidates):
        return 0
    chosen = {int(candidates[index]) for index in (0, len(candidates) // 2, -1)}
    return max(_alike(token, is_anchor, at, other, step) for other in chosen)


def _alike(token: Ints, is_anchor: Flags, at: int, other: int, step: int) -> int:
    """How many neighbours of two kernels are the same, in one direction, up to attention."""
    room = min(at, other) if step < 0 else len(token) - 1 - max(at, other)
    reach = np.arange(1, min(room, _FURTHEST) + 1) * step
    same: Flags = (token[at + reach] == token[other + reach]) & ~is_anchor[at + reach]
    return len(same) if bool(same.all()) else int(np.argmin(same))
