"""Which generation of a profiler writes the traces: its clock, its fields, its tables?"""

from dataclasses import dataclass
from typing import Literal, get_args

from tracelens.simulate.clock import BASE_NS, origin_ns

KinetoDialect = Literal["ns", "epoch", "us"]
NsysVersion = Literal["2022.4", "2023.4", "2025.5", "2026.2"]
KINETO_DIALECTS: tuple[KinetoDialect, ...] = get_args(KinetoDialect)
NSYS_VERSIONS: tuple[NsysVersion, ...] = get_args(NsysVersion)


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a trace is spelled.

    Attributes:
        kineto: ``ns``: PyTorch 2.6 and later, nanoseconds after a base. ``epoch``: a nightly of
            early 2024, nanoseconds since the epoch. ``us``: PyTorch 1.12 to 2.3, whole
            microseconds since the epoch, ``External id`` a copy of the correlation id, no fields
            of collectives on kernels, no rows of synchronization.
        nsys: release of Nsight Systems whose tables and columns are written.
    """

    kineto: KinetoDialect = "ns"
    nsys: NsysVersion = "2025.5"

    @property
    def old_kineto(self) -> bool:
        """Whether the fields are those of PyTorch before 2.4."""
        return self.kineto == "us"

    def kineto_origin_ns(self, seed: int) -> int:
        """Where the simulation's time 0 lies on the clock of a Kineto file."""
        return origin_ns(seed) + (0 if self.kineto == "ns" else BASE_NS)

    def stamp(self, time_ns: int) -> str:
        """A time of a Kineto file: microseconds, by integer arithmetic."""
        whole, fraction = divmod(time_ns, 1_000)
        return str(whole) if self.old_kineto else f"{whole}.{fraction:03d}"

    def span(self, start_ns: int, end_ns: int) -> str:
        """A duration of a Kineto file; old ones subtract what they have rounded."""
        if self.old_kineto:
            return str(end_ns // 1_000 - start_ns // 1_000)
        return self.stamp(end_ns - start_ns)


CURRENT = Dialect()
