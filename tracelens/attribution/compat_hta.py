"""What would HolisticTraceAnalysis say: idle, compute and other time, and how much is overlapped?

HTA's ``get_temporal_breakdown`` and ``get_comm_comp_overlap`` (release 0.5.0), for comparison. The
figures differ from the account of TraceLens by design: HTA counts synchronization records as work,
rounds to whole microseconds and leaves out the last step.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class HtaBreakdown:
    """HTA's figures of one rank; times in whole microseconds.

    Attributes:
        idle_us: nothing with a stream ran.
        compute_us: something that HTA calls computation ran.
        non_compute_us: the rest.
        kernel_us: from the first start to the last end.
        overlap_pct: part of communication that ran under computation; ``None`` without any.
    """

    idle_us: int
    compute_us: int
    non_compute_us: int
    kernel_us: int
    overlap_pct: float | None

    def to_dict(self) -> dict[str, int | float | None]:
        """Return the figures by name."""
        return asdict(self)


def hta_breakdown(start_us: Array, end_us: Array, kind: Array) -> HtaBreakdown | None:
    """Compute HTA's figures; ``None`` when there is no event to compute them from.

    Args:
        start_us: starts of the events that HTA counts as GPU work.
        end_us: their ends; rounding may have put an end before its start.
        kind: what HTA takes each event for.
    """
    if not len(start_us):
        return None
    every = _merged(start_us, end_us)
    compute = _merged(*_of(start_us, end_us, kind == "computation"))
    comm = _merged(*_of(start_us, end_us, kind == "communication"))
    kernel_us = every[1][-1] - every[0][0]
    idle_us = kernel_us - _total(every)
    compute_us = _total(compute)
    comm_us = _total(comm)
    overlap_pct = None
    if comm_us:
        overlap_pct = round(float(100 * _overlap(compute, comm) / comm_us), 2)
    return HtaBreakdown(
        int(idle_us),
        int(compute_us),
        int(kernel_us - compute_us - idle_us),
        int(kernel_us),
        overlap_pct,
    )


def _of(start: Array, end: Array, chosen: Array) -> tuple[Array, Array]:
    return start[chosen], end[chosen]


def _merged(start: Array, end: Array) -> tuple[Array, Array]:
    """Join intervals that touch, as HTA does: one that rounding turned round counts below zero."""
    if not len(start):
        return start, end
    order = np.argsort(start, kind="stable")
    start, end = start[order], end[order]
    reach = np.maximum.accumulate(end)
    first = np.flatnonzero(np.concatenate([[True], start[1:] > reach[:-1]]))
    return start[first], np.maximum.reduceat(end, first)


def _total(intervals: tuple[Array, Array]) -> Any:
    # Lengths, not instants, are summed: instants are too large for binary floating point.
    return (intervals[1] - intervals[0]).sum()


def _overlap(one: tuple[Array, Array], other: tuple[Array, Array]) -> float:
    """Time in which both run; each is a list of disjoint intervals in order."""
    return float((_covered(one, other[1]) - _covered(one, other[0])).sum())


def _covered(intervals: tuple[Array, Array], at: Array) -> Array:
    """Return how much of the intervals lies before each instant."""
    start, end = intervals
    if not len(start):
        return np.zeros(len(at))
    length = np.maximum(end - start, 0)
    before = np.concatenate([[0], np.cumsum(length)])
    place = np.searchsorted(start, at, side="right") - 1
    inside = np.clip(at - start[np.maximum(place, 0)], 0, length[np.maximum(place, 0)])
    covered: Array = np.where(place < 0, 0, before[np.maximum(place, 0)] + inside)
    return covered
