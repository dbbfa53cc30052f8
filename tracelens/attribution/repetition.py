"""Steps of a trace without marks: between optimizer runs, or where the kernel sequence repeats.

An optimizer runs once a step, so its ranges or its kernels bound steps. Where neither is known, the
sequence of kernel names on the main stream repeats with the period of a step: a kernel that occurs
once a period marks it. Layers repeat too, but less exactly than steps: of the periods that fit, the
smallest that fits nearly as well as the best is taken.
"""

from itertools import pairwise
from typing import Any

import numpy as np

from tracelens.attribution.activities import Activities
from tracelens.attribution.windows import NO_NEXT, Mark, Step, Windows, main_stream
from tracelens.taxonomy import Kind

Array = np.ndarray[Any, Any]

LEAST_MATCH_FRAC = 0.9
NEARLY_BEST_FRAC = 0.005
LEAST_RUNS = 2
LEAST_OCCURRENCES = 3
LEAST_PERIOD = 2
LEAST_COVERED_FRAC = 0.5
PARTIAL = "the recording began inside it"
_ANCHORS_TRIED = 32
_OPTIMIZER = "compute.optimizer"


def optimizer_marks(activities: Activities, ranges: list[tuple[int, int]]) -> list[Mark]:
    """Return host marks that end with each run of the optimizer.

    Args:
        activities: of one GPU.
        ranges: (start, end) of optimizer ranges on the host, ascending; may be empty.

    Returns:
        Marks that tile host time: what lies before the first run ended is step 0. Fewer than two
        runs give an empty list.
    """
    ends = _range_runs(activities, ranges) or _kernel_runs(activities)
    if len(ends) < LEAST_RUNS:
        return []
    launched = activities.launch_start_ns[activities.launched]
    edges = [int(launched.min()), *ends]
    if launched.max() >= ends[-1]:
        edges.append(int(launched.max()) + 1)
    return [Mark(step, low, high) for step, (low, high) in enumerate(pairwise(edges))]


def _range_runs(activities: Activities, ranges: list[tuple[int, int]]) -> list[int]:
    """Ends of runs; ranges without a FLOP kernel launched between them are one run."""
    launches = np.sort(activities.launch_start_ns[_launched_flop(activities)])
    ends: list[int] = []
    for start, end in ranges:
        if ends and not _any_between(launches, ends[-1], start):
            ends[-1] = max(ends[-1], end)
        else:
            ends.append(end)
    return ends


def _kernel_runs(activities: Activities) -> list[int]:
    """Ends of the launches of runs of optimizer kernels, FLOP kernels between them."""
    if _OPTIMIZER not in activities.leaves:
        return []
    optimizer = (activities.leaf == activities.leaves.index(_OPTIMIZER)) & activities.launched
    order = np.argsort(activities.launch_start_ns[optimizer], kind="stable")
    starts = activities.launch_start_ns[optimizer][order]
    ends = activities.launch_end_ns[optimizer][order]
    return _range_runs(activities, list(zip(starts.tolist(), ends.tolist(), strict=True)))


def _launched_flop(activities: Activities) -> Array:
    chosen: Array = (activities.kind == Kind.FLOP) & activities.launched
    return chosen


def _any_between(launches: Array, low: int, high: int) -> bool:
    return bool(np.searchsorted(launches, low) < np.searchsorted(launches, high))


def repeating_windows(activities: Activities) -> Windows | None:
    """Return windows between occurrences of a kernel that comes once a period; ``None`` if none."""
    stream = main_stream(activities)
    compute = (activities.stream == stream) & (activities.kind <= Kind.COMPUTE)
    position = np.flatnonzero(compute & (activities.end_ns > activities.start_ns))
    names = activities.name_id[position]
    anchor = _anchor(names)
    if anchor is None:
        return None
    starts = activities.start_ns[position[names == anchor]].tolist()
    whole_ns = int(activities.end_ns.max() - activities.start_ns.min())
    if starts[-1] - starts[0] < LEAST_COVERED_FRAC * whole_ns:
        return None
    steps = [Step(number, low, high) for number, (low, high) in enumerate(pairwise(starts))]
    last_ns = int(activities.end_ns.max())
    steps.append(Step(len(steps), starts[-1], last_ns, NO_NEXT))
    return Windows(steps, np.full(len(activities.start_ns), -1, np.int64))


def _anchor(names: Array) -> int | None:
    """Return the name whose occurrences are one true period apart."""
    found = [
        (period, match, name)
        for period, name in _candidates(names)
        if (match := _match(names, period)) >= LEAST_MATCH_FRAC
    ]
    if not found:
        return None
    best = max(match for _, match, _ in found)
    return min(item for item in found if item[1] >= best - NEARLY_BEST_FRAC)[2]


def _candidates(names: Array) -> list[tuple[int, int]]:
    """(period, name) of rare names that come at equal distances."""
    values, first, count = np.unique(names, return_index=True, return_counts=True)
    repeated = count >= LEAST_OCCURRENCES
    values, first, count = values[repeated], first[repeated], count[repeated]
    found = []
    for index in np.lexsort((first, count))[:_ANCHORS_TRIED]:
        distance = np.diff(np.flatnonzero(names == values[index]))
        period = int(np.median(distance))
        steady = (np.abs(distance - period) <= 0.1 * period).all()
        if steady and period >= LEAST_PERIOD:
            found.append((period, int(values[index])))
    return found


def _match(names: Array, period: int) -> float:
    return float((names[period:] == names[:-period]).mean())
