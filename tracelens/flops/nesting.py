"""Which operator encloses which, on one thread?"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

_TOLERANCE_NS = 1_000
"""Old traces round to whole microseconds: a child may seem to outlive its parent by that much."""


def parents(group: Ints, start_ns: Ints, end_ns: Ints) -> Ints:
    """Return for every interval the index of the smallest one around it in its group, or -1.

    Intervals of one thread nest, because calls do. Where two merely overlap, the later one gets
    the next interval outwards that does enclose it.

    Args:
        group: number of the thread.
        start_ns: starts; among equal intervals the first is the outer one.
        end_ns: ends.
    """
    order = np.lexsort((np.arange(len(group)), -end_ns, start_ns, group))
    found = np.full(len(group), -1, dtype=np.int64)
    stack: list[tuple[int, int]] = []  # (index, end), outermost first
    current = None
    rows = zip(
        order.tolist(),
        group[order].tolist(),
        start_ns[order].tolist(),
        end_ns[order].tolist(),
        strict=True,
    )
    for index, thread, start, end in rows:
        if thread != current:
            stack.clear()
            current = thread
        while stack and (stack[-1][1] <= start or stack[-1][1] + _TOLERANCE_NS < end):
            stack.pop()
        if stack:
            found[index] = stack[-1][0]
        stack.append((index, end))
    return found


def innermost(
    parent: Ints, group: Ints, start_ns: Ints, end_ns: Ints, at: tuple[Ints, Ints]
) -> Ints:
    """Return the innermost interval around each instant of a thread, or -1.

    Args:
        parent: as ``parents`` found it.
        group: number of the thread of every interval.
        start_ns: starts.
        end_ns: ends; an interval does not contain its end.
        at: thread and instant of each question.
    """
    thread, at_ns = at
    found = np.full(len(at_ns), -1, np.int64)
    if not len(group):
        return found
    order = np.lexsort((np.arange(len(group)), -end_ns, start_ns, group))
    for number in np.unique(thread):
        low, high = np.searchsorted(group[order], [number, number + 1])
        here = np.flatnonzero(thread == number)
        if low == high:
            continue
        last = np.searchsorted(start_ns[order[low:high]], at_ns[here], side="right") - 1
        candidate = np.where(last >= 0, order[low + np.maximum(last, 0)], -1)
        while True:  # what began last may have ended: then the one around it
            over = (candidate >= 0) & (end_ns[candidate] <= at_ns[here])
            if not over.any():
                break
            candidate = np.where(over, parent[candidate], candidate)
        found[here] = candidate
    return found


def ancestors(index: int, parent: Ints) -> Iterator[int]:
    """Yield an interval and all around it, innermost first."""
    while index >= 0:
        yield index
        index = int(parent[index])
