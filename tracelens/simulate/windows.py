"""Which steps of a run can be analyzed from what was recorded of it?

A step runs from the first main-stream kernel launched in it to that of the next step. The last step
that is marked has no end; the first is not one of many when work queued before the capture ran in
it, or when code was compiled in it.
"""

from itertools import pairwise

from tracelens.simulate.actions import Annotation
from tracelens.simulate.timeline import MARK, Timeline
from tracelens.simulate.truth import Interval, Recorder

LAST = "last"
PRIMED = "primed"
COMPILED = "compiled"
Steps = list[tuple[int | None, int, int]]


def analyzed_steps(
    timeline: Timeline, recorder: Recorder, intervals: list[Interval]
) -> tuple[Steps, dict[int, str]]:
    """The steps that can be analyzed, and why the others cannot.

    Args:
        timeline: of the rank.
        recorder: of its GPU.
        intervals: all of its time.
    """
    marks = _recorded_marks(timeline)
    if not marks:
        return [(None, intervals[0].start_ns, intervals[-1].end_ns)], {}
    starts = [(step, recorder.step_starts[step]) for step in marks]
    steps: Steps = [
        (step, start_ns, next_ns) for (step, start_ns), (_, next_ns) in pairwise(starts)
    ]
    excluded = {starts[-1][0]: LAST}
    first = starts[0][0]
    reason = _first_step(timeline, recorder, marks[first])
    if reason:
        excluded[first] = reason
        del steps[0]
    return steps, excluded


def _recorded_marks(timeline: Timeline) -> dict[int, tuple[int, int]]:
    return {
        int(opened.what.name.removeprefix(MARK)): (opened.start_ns, opened.end_ns)
        for opened in timeline.recorded_ranges()
        if opened.is_mark
    }


def _first_step(timeline: Timeline, recorder: Recorder, mark: tuple[int, int]) -> str:
    if any(mark[0] <= time_ns < mark[1] for time_ns in recorder.unrecorded_ns):
        return PRIMED
    compiling = [call.start_ns for call in timeline.calls if call.leaf == "host.compile"]
    compiling += [
        opened.start_ns
        for opened in timeline.ranges
        if isinstance(opened.what, Annotation) and opened.what.leaf == "host.compile"
    ]
    return COMPILED if any(mark[0] <= time_ns < mark[1] for time_ns in compiling) else ""
