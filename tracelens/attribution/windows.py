"""Which stretch of GPU time is a step.

Marks on the host say which kernels belong to a step: those whose launch call began inside the mark.
On the GPU a step runs from the first main-stream compute kernel launched in it to that of the next
step. These windows tile, hold exactly one step of work each, and do not care how far the host runs
ahead.
"""

from bisect import bisect_left
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from tracelens.attribution.activities import Activities
from tracelens.taxonomy import Kind

Array = np.ndarray[Any, Any]

NO_NEXT = "last marked step: its end is not marked on the GPU"
NO_KERNEL = "no compute kernel was launched in it"
PRIMED = "first step: kernels queued before the capture ran in it"
COMPILED = "first step: compilation or module loading in it"
OUT_OF_ORDER = "its first kernel is out of order with those of other steps"


@dataclass(frozen=True)
class Mark:
    """A step as the host saw it.

    Attributes:
        step: number of the step.
        start_ns: start on the host.
        end_ns: end on the host.
    """

    step: int
    start_ns: int
    end_ns: int


@dataclass
class Step:
    """A step on one GPU.

    Attributes:
        step: its number; ``None`` for a window that is no step.
        start_ns: start on the GPU.
        end_ns: end on the GPU.
        reason: why it is not part of the account; empty when it is.
        open_end: whether nothing marks its end and its last activity stands for it.
    """

    step: int | None
    start_ns: int
    end_ns: int
    reason: str = ""
    open_end: bool = False


@dataclass
class Windows:
    """Steps of one GPU and which step each activity was launched in.

    Attributes:
        steps: in order; those without a reason are candidates for the account.
        activity_step: position in ``marks`` of each activity, -1 for none.
    """

    steps: list[Step]
    activity_step: Array = field(default_factory=lambda: np.empty(0, np.int64))


def whole_trace(activities: Activities) -> Windows:
    """One window from the first start to the last end."""
    start, end = int(activities.start_ns.min()), int(activities.end_ns.max())
    return Windows([Step(None, start, end)], np.full(len(activities.start_ns), -1, np.int64))


def given_span(activities: Activities, span: tuple[int, int]) -> Windows:
    """One window that the user chose in nanoseconds."""
    return Windows([Step(None, *span)], np.full(len(activities.start_ns), -1, np.int64))


def step_windows(activities: Activities, marks: list[Mark], compiled_first: bool) -> Windows:
    """Turn host marks into tiling GPU windows.

    Args:
        activities: of one GPU.
        marks: in order, disjoint.
        compiled_first: whether the first mark holds compilation.

    Returns:
        One step per mark, with the reason where it cannot be part of the account.
    """
    member = _members(activities, marks)
    boundary = _boundaries(activities, member, len(marks))
    steps = _tile(marks, boundary, activities, member)
    usable = [step for step in steps if not step.reason]
    if usable and usable[0].step == marks[0].step and len(usable) > 1:
        usable[0].reason = _first_step_reason(activities, marks[0], compiled_first)
    return Windows(steps, member)


def range_windows(activities: Activities, marks: list[Mark]) -> Windows:
    """Project host ranges onto the GPU: from the first to the last activity launched in each.

    A window that reaches into the next one ends where that begins, so that windows stay disjoint.
    """
    member = _members(activities, marks)
    steps: list[Step] = []
    for position, mark in enumerate(marks):
        own = member == position
        if not own.any():
            steps.append(Step(mark.step, mark.start_ns, mark.end_ns, NO_KERNEL))
            continue
        start = int(activities.start_ns[own].min())
        if steps and not steps[-1].reason:
            steps[-1].end_ns = min(steps[-1].end_ns, start)
        steps.append(Step(mark.step, start, int(activities.end_ns[own].max())))
    return Windows(steps, member)


def _members(activities: Activities, marks: list[Mark]) -> Array:
    """Return the mark in which each activity was launched, -1 for none."""
    starts = np.array([mark.start_ns for mark in marks], dtype=np.int64)
    ends = np.array([mark.end_ns for mark in marks], dtype=np.int64)
    launch = activities.launch_start_ns
    member = np.searchsorted(starts, launch, side="right") - 1
    inside = (member >= 0) & activities.launched
    inside[inside] = launch[inside] < ends[member[inside]]
    return np.where(inside, member, -1)


def _boundaries(activities: Activities, member: Array, count: int) -> list[int | None]:
    """First start of a main-stream compute kernel launched in each mark."""
    compute = activities.kind <= Kind.COMPUTE
    stream = main_stream(activities)
    boundary: list[int | None] = []
    for mark in range(count):
        chosen = compute & (member == mark)
        on_main = chosen & (activities.stream == stream)
        pool = on_main if on_main.any() else chosen
        boundary.append(int(activities.start_ns[pool].min()) if pool.any() else None)
    return boundary


def main_stream(activities: Activities) -> int:
    """Return the stream with the most FLOP time; without FLOPs, the most compute time."""
    dur = activities.end_ns - activities.start_ns
    for kinds in ((Kind.FLOP,), (Kind.FLOP, Kind.COMPUTE), tuple(Kind)):
        chosen = np.isin(activities.kind, kinds)
        if dur[chosen].sum() > 0:
            streams, where = np.unique(activities.stream[chosen], return_inverse=True)
            total = np.zeros(len(streams), np.int64)
            np.add.at(total, where, dur[chosen])
            return int(streams[int(total.argmax())])
    return int(activities.stream[0])


def _tile(
    marks: list[Mark], boundary: list[int | None], activities: Activities, member: Array
) -> list[Step]:
    kept = _ascending(boundary)
    end_of = {position: end_ns for (position, _), (_, end_ns) in pairwise(kept)}
    steps = []
    for position, mark in enumerate(marks):
        start = boundary[position]
        if start is None:
            steps.append(Step(mark.step, mark.start_ns, mark.end_ns, NO_KERNEL))
        elif position in end_of:
            steps.append(Step(mark.step, start, end_of[position]))
        elif position == kept[-1][0]:
            own = activities.end_ns[member == position]
            reason = NO_NEXT if any(not step.reason for step in steps) else ""
            steps.append(Step(mark.step, start, int(own.max()), reason, open_end=True))
        else:
            steps.append(Step(mark.step, start, start, OUT_OF_ORDER))
    return steps


def _ascending(boundary: list[int | None]) -> list[tuple[int, int]]:
    """Return (position, boundary) of as many as can be in order, for windows must not overlap."""
    last: list[int] = []  # boundary that ends the best choice of each length, and its position
    where: list[int] = []
    before: dict[int, int] = {}
    for position, value in enumerate(boundary):
        if value is None:
            continue
        length = bisect_left(last, value)
        last[length : length + 1] = [value]
        where[length : length + 1] = [position]
        if length:
            before[position] = where[length - 1]
    kept = where[-1:]
    while kept and kept[-1] in before:
        kept.append(before[kept[-1]])
    return [
        (position, value)
        for position in reversed(kept)
        if (value := boundary[position]) is not None
    ]


def _first_step_reason(activities: Activities, mark: Mark, compiled_first: bool) -> str:
    ran_inside = (activities.start_ns >= mark.start_ns) & (activities.start_ns < mark.end_ns)
    if (ran_inside & ~activities.launched).any():
        return PRIMED
    return COMPILED if compiled_first else ""
