"""How does a simulated job run, and what is the truth about it?"""

from dataclasses import dataclass
from itertools import pairwise

from tracelens.errors import UsageError
from tracelens.simulate.device import Gpu, Network
from tracelens.simulate.engine import Loop
from tracelens.simulate.host import RankHost
from tracelens.simulate.job import Job, Script
from tracelens.simulate.scenarios import SCENARIOS, Loss, Scenario
from tracelens.simulate.timeline import Activity, Timeline
from tracelens.simulate.truth import Interval, Recorder, leaf_sums, merge

_FIRST_PID = 4_200
_PID_STRIDE = 131
_AUTOGRAD_TID_OFFSET = 88


@dataclass(slots=True)
class RankTruth:
    """The account of one rank: intervals that tile the analyzed steps."""

    rank: int
    steps: list[tuple[int, int, int]]
    intervals: list[Interval]

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


def simulate(scenario: str, seed: int = 0) -> Run:
    """Simulate a scenario.

    Args:
        scenario: a key of ``SCENARIOS``.
        seed: shifts process ids, correlation ids and the clock; never a duration.
    """
    if scenario not in SCENARIOS:
        known = ", ".join(SCENARIOS)
        raise UsageError(f"unknown scenario {scenario!r}", hint=f"one of: {known}")
    details = SCENARIOS[scenario]
    timelines, truths = _execute(details.job, seed)
    without = {loss.id: _duration_without(details.job, loss) for loss in details.losses}
    return Run(scenario, seed, details.job, timelines, truths, details, without)


def _duration_without(job: Job, loss: Loss) -> int:
    _, truths = _execute(loss.without(job), 0)
    return sum(truth.window[1] - truth.window[0] for truth in truths)


def _execute(job: Job, seed: int) -> tuple[list[Timeline], list[RankTruth]]:
    loop = Loop()
    network = Network(loop)
    recorders: list[Recorder] = []
    timelines: list[Timeline] = []
    for rank in range(job.world_size):
        pid = _FIRST_PID + rank * _PID_STRIDE + seed % 1_000
        threads = {"main": pid, "autograd": pid + _AUTOGRAD_TID_OFFSET}
        timeline = Timeline(rank, pid, threads, next_correlation=1_000 + 17 * (seed % 1_000))
        recorder = Recorder()
        gpu = Gpu(rank, loop, job.machine, network, recorder)
        host = RankHost(loop, job.machine, gpu, timeline)
        recorder.threads.update(host.threads)
        host.threads["main"].start(Script(job, rank).main())
        recorders.append(recorder)
        timelines.append(timeline)
    loop.run()
    truths = [_account(rank, recorder, loop.now) for rank, recorder in enumerate(recorders)]
    return timelines, truths


def _account(rank: int, recorder: Recorder, end_ns: int) -> RankTruth:
    """The last step is open: only the start of a next one would close it."""
    recorder.change(end_ns + 1)
    starts = sorted(recorder.step_starts.items())
    steps = [(step, start_ns, next_ns) for (step, start_ns), (_, next_ns) in pairwise(starts)]
    first_ns, last_ns = steps[0][1], steps[-1][2]
    inside = [
        interval
        for interval in recorder.close()
        if interval.start_ns >= first_ns and interval.end_ns <= last_ns
    ]
    return RankTruth(rank, steps, merge(inside))


def flop_of_step(activities: list[Activity], step: int) -> dict[str, int]:
    """FLOPs of the kernels that a step launched on one rank."""
    flops = [activity.work.flop for activity in activities if activity.step == step]
    return {
        "executed_flop": sum(flop.executed for flop in flops),
        "model_flop_causal": sum(flop.causal for flop in flops),
        "model_flop_full": sum(flop.full for flop in flops),
    }
