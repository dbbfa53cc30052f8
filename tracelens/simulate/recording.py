"""What does a profiler fail to write down, or write down wrong?"""

from dataclasses import dataclass

FAMILIES = ("kineto", "nsys")
_MULTIPLIER = 2_654_435_761  # Knuth's multiplicative hash: spreads the losses over the launches


@dataclass(frozen=True, slots=True)
class ClockError:
    """How the clock of one rank differs from the true one."""

    offset_ns: int = 0
    drift_ppm: int = 0

    def read(self, time_ns: int) -> int:
        """What the clock shows at a true time."""
        return time_ns + self.offset_ns + time_ns * self.drift_ppm // 1_000_000


@dataclass(frozen=True, slots=True)
class Recording:
    """What a capture holds of a run.

    Attributes:
        missing_ranks: ranks that left no trace.
        clocks: rank and error of its clock; such runs span nodes, one Nsight file a rank.
        marks: whether steps are marked.
        lost_permille: launches, in thousandths, whose call was not recorded.
        correlation_period: correlation ids repeat after so many calls; 0: they never do.
        os_in_calls: system calls are traced inside the CUDA calls that wait for the GPU.
        os_joins: system calls are traced in which a thread waits for another.
    """

    missing_ranks: tuple[int, ...] = ()
    clocks: tuple[tuple[int, ClockError], ...] = ()
    marks: bool = True
    lost_permille: int = 0
    correlation_period: int = 0
    os_in_calls: bool = False
    os_joins: bool = False

    @property
    def file_per_rank(self) -> bool:
        """Whether ranks are captured apart from each other."""
        return bool(self.missing_ranks or self.clocks)

    def clock(self, rank: int) -> ClockError:
        """The clock of a rank."""
        return dict(self.clocks).get(rank, ClockError())

    def correlation(self, number: int, first: int) -> int:
        """The correlation id of a call that would have ``number`` if ids never repeated."""
        if not self.correlation_period:
            return number
        return first + (number - first) % self.correlation_period

    def loses(self, number: int) -> bool:
        """Whether the call with this number is missing from the trace."""
        return (number * _MULTIPLIER >> 12) % 1_000 < self.lost_permille


COMPLETE = Recording()
