"""What is a scenario: a job, what was planted in it, and how would it run without that?"""

from collections.abc import Callable
from dataclasses import dataclass

from tracelens.simulate.job import Job
from tracelens.simulate.model import Shape
from tracelens.simulate.recording import COMPLETE, Recording


@dataclass(frozen=True, slots=True)
class Loss:
    """A loss that was planted.

    Attributes:
        leaves: where its time must be charged.
        words: what was done to the job.
        without: the same job with the loss removed.
        cause: ``global`` where it holds up all ranks at once.
    """

    id: str
    leaves: tuple[str, ...]
    words: str
    without: Callable[[Job], Job]
    cause: str = ""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A job, what was planted in it, and the model as the ``model`` option takes it.

    Attributes:
        recording: what the profiler fails to record of it.
    """

    title: str
    job: Job
    losses: tuple[Loss, ...] = ()
    shape: Shape | None = None
    recording: Recording = COMPLETE
