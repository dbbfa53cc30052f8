"""What may go wrong on the host of a training job? Programs that are planted between its passes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from tracelens.simulate import actions as act
from tracelens.simulate import kernels
from tracelens.simulate.actions import Work
from tracelens.simulate.job import Job, Script

SIDE_STREAM = 13
Place = Literal["mark", "start", "forward", "backward", "optimizer"]
NewEvent = Callable[[], act.Event]


@dataclass(frozen=True, slots=True)
class Plant:
    """A program that runs at one place of the step.

    Attributes:
        place: see ``Script._at``.
        program: makes the program; takes what makes events.
        steps: only in these steps; empty: in all.
        ranks: only on these ranks; empty: on all.
    """

    place: Place
    program: Callable[[NewEvent], act.Program]
    steps: tuple[int, ...] = ()
    ranks: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class HostJob(Job):
    """A job whose host does something else as well.

    Attributes:
        plants: what, and where.
        graph_gap_ns: the step is one CUDA graph whose nodes are so far apart; 0: no graph.
    """

    plants: tuple[Plant, ...] = ()
    graph_gap_ns: int = 0

    def script(self, rank: int) -> Script:
        """The host programs of one rank."""
        return HostScript(self, rank)


class HostScript(Script):
    """The host programs of one rank, with what was planted."""

    def __init__(self, job: HostJob, rank: int) -> None:
        super().__init__(job, rank)
        self._plants = [plant for plant in job.plants if not plant.ranks or rank in plant.ranks]
        self._graph_gap_ns = job.graph_gap_ns

    def _at(self, place: str) -> act.Program:
        for plant in self._plants:
            if plant.place == place and (not plant.steps or self._number in plant.steps):
                yield from plant.program(self._event)

    def _step(self) -> act.Program:
        if not self._graph_gap_ns:
            yield from super()._step()
            return
        yield act.GraphLaunch(tuple(self._graph_works()), self._graph_gap_ns)

    def _graph_works(self) -> list[Work]:
        job = self._job
        calls = [node.forward for node in job.nodes if node.forward is not None]
        calls += [call for node in reversed(job.nodes) for call in node.backward]
        works = [work for call in calls for work in call.works] * job.micro_batches
        return [*works, *(Work(kernels.adam(), dur) for dur in self._optimizer_durations())]
