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


def ancestors(index: int, parent: Ints) -> Iterator[int]:
    """Yield an interval and all around it, innermost first."""
    while index >= 0:
        yield index
        index = int(parent[index])
