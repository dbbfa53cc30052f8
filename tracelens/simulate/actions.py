"""What can a simulated host thread do, and what can it hand to a GPU?"""

from collections.abc import Generator
from dataclasses import dataclass

MAIN_STREAM = 7
COMM_STREAM = 23


@dataclass(frozen=True, slots=True)
class Arg:
    """One argument of an operator as ``record_shapes`` writes it."""

    dims: tuple[int, ...] = ()
    type: str = "c10::BFloat16"
    concrete: str = ""
    transposed: bool = False

    @property
    def strides(self) -> tuple[int, ...]:
        """Strides of a contiguous tensor, or of the transpose of a contiguous matrix."""
        if self.transposed:
            return (1, self.dims[0])
        strides, step = [], 1
        for extent in reversed(self.dims):
            strides.append(step)
            step *= extent
        return tuple(reversed(strides))


def scalar(text: str) -> Arg:
    """An argument that is a number or a flag, not a tensor."""
    return Arg(type="Scalar" if text else "", concrete=text)


@dataclass(frozen=True, slots=True)
class Group:
    """A process group; ``dim`` is the parallel dimension it serves."""

    name: str
    description: str
    dim: str
    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Collective:
    """What is exchanged, by whom."""

    op: str
    group: Group
    elems: int
    dtype: str
    elem_bytes: int

    @property
    def bytes(self) -> int:
        """Size of the message of one rank."""
        return self.elems * self.elem_bytes


@dataclass(frozen=True, slots=True)
class Flop:
    """FLOPs of one kernel: run, and credited under the two conventions for causal attention."""

    executed: int = 0
    causal: int = 0
    full: int = 0


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel as it looks in a profile, without its duration."""

    leaf: str
    name: str
    nsys_name: str
    grid: tuple[int, int, int] = (132, 1, 1)
    block: tuple[int, int, int] = (128, 1, 1)
    registers: int = 32
    shared_bytes: int = 0
    api: str = "cudaLaunchKernel"


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy between host and device."""

    leaf: str
    name: str
    copy_kind: int
    src_kind: int
    dst_kind: int
    bytes: int
    api: str = "cudaMemcpyAsync"


@dataclass(frozen=True, slots=True)
class Work:
    """Something a GPU does once: ``dur_ns`` alone, or the transfer part of a collective."""

    shape: Kernel | Copy
    dur_ns: int
    flop: Flop = Flop()
    collective: Collective | None = None


@dataclass(frozen=True, slots=True)
class Op:
    """A framework operator; opens a range that profilers record as such."""

    name: str
    args: tuple[Arg, ...] = ()
    sequence: int | None = None
    fwd_thread: int | None = None
    collective: Collective | None = None


@dataclass(frozen=True, slots=True)
class Annotation:
    """A user range.

    Attributes:
        nsys_name: how it is called under Nsight, where that differs.
        leaf: what idle time under it is charged to; None: it only names time.
        domain: NVTX domain of a library; Kineto does not see these.
        payload: NVTX payload, JSON.
    """

    name: str
    nsys_name: str = ""
    leaf: str | None = None
    domain: str = ""
    payload: str | None = None


@dataclass(slots=True)
class Event:
    """A CUDA event; the device fills in when it completed and after which activity."""

    id: int
    time_ns: int | None = None
    producer_stream: int | None = None
    record_correlation: int = 0
    record_stream: int = 0


@dataclass(frozen=True, slots=True)
class Cpu:
    """The thread computes for a while."""

    dur_ns: int


@dataclass(frozen=True, slots=True)
class Push:
    """Open a range."""

    range: Op | Annotation


@dataclass(frozen=True, slots=True)
class Pop:
    """Close the range opened last."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Step ``step`` begins; None: no step is open."""

    step: int | None


@dataclass(frozen=True, slots=True)
class Launch:
    """Submit work to a stream."""

    work: Work
    stream: int = MAIN_STREAM


@dataclass(frozen=True, slots=True)
class Record:
    """Record an event on a stream."""

    event: Event
    stream: int


@dataclass(frozen=True, slots=True)
class Await:
    """Let a stream wait for an event; the host does not wait."""

    event: Event
    stream: int


@dataclass(frozen=True, slots=True)
class Sync:
    """Block the thread until a stream (None: the device) has drained."""

    stream: int | None


@dataclass(frozen=True, slots=True)
class EventSync:
    """Block the thread until an event has completed."""

    event: Event


@dataclass(frozen=True, slots=True)
class Handoff:
    """Run a program on another thread of the rank and wait for its end."""

    thread: str
    program: "Program"


Action = Cpu | Push | Pop | Mark | Launch | Record | Await | Sync | EventSync | Handoff
Program = Generator[Action, None, None]
