"""How much of an interval do other intervals cover?"""

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


def covered_ns(start_ns: Ints, end_ns: Ints, by_start_ns: Ints, by_end_ns: Ints) -> Ints:
    """Return for every interval how much of it the union of the others covers.

    Args:
        start_ns: starts of the intervals asked for.
        end_ns: their ends, not before the starts.
        by_start_ns: starts of the covering intervals, in any order; they may overlap.
        by_end_ns: their ends.
    """
    lasting = by_end_ns > by_start_ns
    first, last = by_start_ns[lasting], by_end_ns[lasting]
    if not len(first):
        return np.zeros(len(start_ns), np.int64)
    order = np.argsort(first, kind="stable")
    first, reach = first[order], np.maximum.accumulate(last[order])
    begins = np.concatenate([[True], first[1:] > reach[:-1]])
    ends = np.concatenate([begins[1:], [True]])
    first, last = first[begins], reach[ends]
    before = np.concatenate([[0], np.cumsum(last - first)])
    found: Ints = _up_to(end_ns, first, last, before) - _up_to(start_ns, first, last, before)
    return found


def _up_to(at_ns: Ints, first: Ints, last: Ints, before: Ints) -> Ints:
    """Covered time before an instant."""
    index = np.searchsorted(first, at_ns, side="right") - 1
    inside = np.minimum(at_ns, last[np.maximum(index, 0)]) - first[np.maximum(index, 0)]
    found: Ints = np.where(index >= 0, before[np.maximum(index, 0)] + inside, 0)
    return found
