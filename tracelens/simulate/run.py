"""How does a simulated job run, and what is the truth about it?"""

from dataclasses import dataclass, field

from tracelens.errors import UsageError
from tracelens.simulate.device import Gpu, Network
from tracelens.simulate.engine import Loop
from tracelens.simulate.host import RankHost
from tracelens.simulate.jitter import Jitter
from tracelens.simulate.job import Job
from tracelens.simulate.recording import COMPLETE, Recording
from tracelens.simulate.scenario import Scenario
from tracelens.simulate.scenarios import SCENARIOS
from tracelens.simulate.timeline import Activity, Timeline
from tracelens.simulate.truth import (
    Interval,
    Recorder,
    leaf_sums,
    merge,
    seen_intervals,
    without_metadata,
)
from tracelens.simulate.windows import analyzed_steps

_FIRST_PID = 4_200
_PID_STRIDE = 131
_AUTOGRAD_TID_OFFSET = 88


@dataclass(slots=True)
class RankTruth:
    """The account of one rank: intervals that tile the analyzed steps.

    Attributes:
        steps: step, start, end; no number where steps are not marked.
        intervals: what really was.
        seen: what a family of traces must say, where it cannot know what really was.
        excluded: steps that are not analyzed, and why.
    """

    rank: int
    steps: list[tuple[int | None, int, int]]
    intervals: list[Interval]
    seen: dict[str, list[Interval]] = field(default_factory=dict)
    excluded: dict[int, str] = field(default_factory=dict)

    @property
    def window(self) -> tuple[int, int]:
        """First and last instant of the analyzed steps."""
        return self.steps[0][1], self.steps[-1][2]


@dataclass(slots=True)
class Run:
    """A finished simulation; times are ns since the simulation began, on one clock."""

    scenario: str
    seed: int
    job: Job
    timelines: list[Timeline]
    truths: list[RankTruth]
    details: Scenario
    without: dict[str, int]

    @property
    def window_ns(self) -> int:
        """Analyzed time, summed over ranks."""
        return sum(truth.window[1] - truth.window[0] for truth in self.truths)

    def leaves(self) -> dict[str, int]:
        """Nanoseconds of each leaf, summed over ranks."""
        return leaf_sums([item for truth in self.truths for item in truth.intervals])


def simulate(scenario: str, seed: int = 0, jitter: float = 0.0) -> Run:
    """Simulate a scenario.

    Args:
        scenario: a key of ``SCENARIOS``.
        seed: shifts process ids, correlation ids and the clock; a duration only where jitter is.
        jitter: standard deviation of the logarithm of every duration on a GPU or a host.
    """
    if scenario not in SCENARIOS:
        known = ", ".join(SCENARIOS)
        raise UsageError(f"unknown scenario {scenario!r}", hint=f"one of: {known}")
    details = SCENARIOS[scenario]
    timelines, truths = _execute(details.job, seed, jitter, details.recording)
    without = {
        loss.id: _duration_ns(loss.without(details.job), seed, jitter) for loss in details.losses
    }
    return Run(scenario, seed, details.job, timelines, truths, details, without)


def _duration_ns(job: Job, seed: int, jitter: float) -> int:
    _, truths = _execute(job, seed, jitter)
    return sum(truth.window[1] - truth.window[0] for truth in truths)


def _execute(
    job: Job, seed: int, jitter: float, recording: Recording = COMPLETE
) -> tuple[list[Timeline], list[RankTruth]]:
    loop = Loop()
    network = Network(loop)
    recorders: list[Recorder] = []
    timelines: list[Timeline] = []
    for rank in range(job.world_size):
        pid = _FIRST_PID + rank * _PID_STRIDE + seed % 1_000
        threads = {"main": pid, "autograd": pid + _AUTOGRAD_TID_OFFSET}
        first = 1_000 + 17 * (seed % 1_000)
        timeline = Timeline(rank, pid, threads, recording, next_correlation=first)
        recorder = Recorder()
        gpu = Gpu(rank, loop, job.machine, network, recorder)
        host = RankHost(loop, job.machine, gpu, timeline, Jitter(jitter, seed, rank))
        recorder.threads.update(host.threads)
        host.threads["main"].start(job.script(rank).main())
        recorders.append(recorder)
        timelines.append(timeline)
    loop.run()
    truths = [
        _account(timeline, recorder, loop.now)
        for timeline, recorder in zip(timelines, recorders, strict=True)
    ]
    return timelines, truths


def _account(timeline: Timeline, recorder: Recorder, end_ns: int) -> RankTruth:
    recorder.change(end_ns + 1)
    intervals = recorder.close()
    steps, excluded = analyzed_steps(timeline, recorder, intervals)
    span = (steps[0][1], steps[-1][2])
    named = {
        family: _inside(seen_intervals(intervals, gaps), span)
        for family, gaps in recorder.seen.items()
    }
    really = leaf_sums(_inside(intervals, span))
    seen = {family: items for family, items in named.items() if leaf_sums(items) != really}
    anonymous = without_metadata(seen.get("nsys", _inside(intervals, span)))
    if leaf_sums(anonymous) != leaf_sums(seen.get("nsys", _inside(intervals, span))):
        seen["nsys"] = merge(anonymous)
    return RankTruth(timeline.rank, steps, _inside(intervals, span), seen, excluded)


def _inside(intervals: list[Interval], span: tuple[int, int]) -> list[Interval]:
    first_ns, last_ns = span
    return merge(
        [item for item in intervals if item.start_ns >= first_ns and item.end_ns <= last_ns]
    )


def flop_of_step(activities: list[Activity], step: int | None) -> dict[str, int]:
    """FLOPs of the kernels that a step (None: any) launched on one rank."""
    flops = [activity.work.flop for activity in activities if step in {None, activity.step}]
    return {
        "executed_flop": sum(flop.executed for flop in flops),
        "model_flop_causal": sum(flop.causal for flop in flops),
        "model_flop_full": sum(flop.full for flop in flops),
    }
