"""Which executed FLOPs went into rows and columns that the model does not have?

Only what shapes beside a configuration show: a vocabulary padded for the sake of tiles. Padded
sequences and expert capacity leave no trace in the shapes of one operator.
"""

from tracelens.flops.presets import Model
from tracelens.store import Store

_LARGEST_STEP = 1024
"""Vocabularies are padded to multiples of 64 to 1024."""
_SMALLEST_STEP = 8

_PRODUCTS = """
SELECT m, n, k, sum(flop) AS flop
FROM raw.ladder
WHERE part = 'gemm' AND m IS NOT NULL AND batch = 1
GROUP BY m, n, k
"""


def padding_flop(store: Store, model: Model | None) -> float | None:
    """Return FLOPs of the head in columns beyond the vocabulary.

    Args:
        store: with ``raw.ladder``.
        model: the configuration that the user gave.

    Returns:
        ``None`` without a configuration, and where no product of the head is seen whole (its
        vocabulary may be sharded).
    """
    if model is None:
        return None
    found: list[float] = []
    for m, n, k, flop in store.rows(_PRODUCTS):
        sizes = [m, n, k]
        if model.hidden not in sizes:
            continue
        sizes.remove(model.hidden)
        heads = [size for size in sizes if _is_padded(size, model.vocab)]
        if len(heads) == 1:  # with two, tokens and vocabulary look alike
            found.append(flop * (heads[0] - model.vocab) / heads[0])
    return sum(found) if found else None


def _is_padded(size: int, vocab: int) -> bool:
    if size == vocab:
        return True
    return vocab < size < vocab + _LARGEST_STEP and size % _SMALLEST_STEP == 0
