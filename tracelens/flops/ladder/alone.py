"""How long does the same kernel take when no communication or copy runs beside it?

Measured: the median over at least three instances that ran alone. Otherwise fitted within the key:
``duration = alone + slowdown * time beside``, where instances differ enough in the share of their
time beside. Where all run beside something from start to end, the time beside is the duration
itself and explains it perfectly: that is no evidence.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

LEAST_ALONE = 3
_LEAST_FITTED = 5
_LEAST_SPREAD = 0.25
_LEAST_EXPLAINED = 0.5
_MOST_SLOPE = 0.75
"""Four times as long beside others as alone: more was never seen."""


@dataclass(frozen=True)
class Alone:
    """By instance.

    Attributes:
        ns: time alone of its key, whole nanoseconds; ``nan`` where not known.
        count: instances of its key that ran alone.
        is_fitted: whether the time is a fit.
    """

    ns: Floats
    count: Ints
    is_fitted: Flags


def time_alone(key: Ints, owned_ns: Ints, beside_ns: Ints, is_whole: Flags) -> Alone:
    """Return the time alone of the key of every instance.

    Args:
        key: number of the key, 0, 1, 2, ...; equal keys are the same kernel on the same shapes.
        owned_ns: owned time.
        beside_ns: time in which communication or a copy ran too.
        is_whole: whether the instance owned all of its time: the others cannot be compared.
    """
    if not len(key):
        return Alone(np.zeros(0), np.zeros(0, np.int64), np.zeros(0, bool))
    size = int(key.max()) + 1
    alone = is_whole & (beside_ns == 0)
    count = np.bincount(key[alone], minlength=size)
    measured = np.where(count >= LEAST_ALONE, _medians(key[alone], owned_ns[alone], size), np.nan)
    fitted = _fits(key[is_whole], owned_ns[is_whole], beside_ns[is_whole], size)
    by_key = np.rint(np.where(np.isnan(measured), fitted, measured))
    return Alone(by_key[key], count[key], (np.isnan(measured) & ~np.isnan(fitted))[key])


def _medians(key: Ints, value: Ints, size: int) -> Floats:
    order = np.lexsort((value, key))
    key, value = key[order], value[order]
    count = np.bincount(key, minlength=size)
    first = np.cumsum(count) - count
    low, high = first + (count - 1) // 2, first + count // 2
    found = np.full(size, np.nan)
    some = count > 0
    found[some] = (value[low[some]] + value[high[some]]) / 2
    return found


def _fits(key: Ints, value: Ints, beside: Ints, size: int) -> Floats:
    """Least squares of the time against the time beside, one line a key."""
    y, x = value.astype(np.float64), beside.astype(np.float64)
    count = np.bincount(key, minlength=size).astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean_x = np.bincount(key, x, size) / count
        mean_y = np.bincount(key, y, size) / count
        off_x, off_y = x - mean_x[key], y - mean_y[key]
        var_x = np.bincount(key, off_x * off_x, size)
        var_y = np.bincount(key, off_y * off_y, size)
        both = np.bincount(key, off_x * off_y, size)
        slope = both / var_x
        explained = both * both / (var_x * var_y)
        share = x / np.maximum(y, 1.0)
        off_share = share - (np.bincount(key, share, size) / count)[key]
        spread = 2 * np.sqrt(np.bincount(key, off_share * off_share, size) / count)
        intercept = mean_y - slope * mean_x
        fits = (
            (count >= _LEAST_FITTED)
            & (spread >= _LEAST_SPREAD)
            & (slope > 0)
            & (slope <= _MOST_SLOPE)
        )
        fits &= (explained >= _LEAST_EXPLAINED) & (intercept > 0)
    return np.where(fits, intercept, np.nan)
