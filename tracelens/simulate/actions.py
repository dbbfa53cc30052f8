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
    """What is exchanged, by whom; ``elems`` are those that each rank contributes.

    Attributes:
        peers: sender and receiver, where only these two meet.
    """

    op: str
    group: Group
    elems: int
    dtype: str
    elem_bytes: int
    peers: tuple[int, int] | None = None

    @property
    def out_elems(self) -> int:
        """Elements that each rank holds afterwards."""
        size = len(self.group.ranks)
        if self.op == "_reduce_scatter_base":
            return self.elems // size
        return self.elems * size if self.op == "_allgather_base" else self.elems

    @property
    def members(self) -> tuple[int, ...]:
        """The ranks that meet."""
        return self.group.ranks if self.peers is None else self.peers

    @property
    def direction(self) -> str:
        """What PyTorch appends to the range of a message between two ranks."""
        if self.peers is None:
            return ""
        sender, receiver = (self.group.ranks.index(rank) for rank in self.peers)
        sends = self.op == "send"
        return f" {sender}->{receiver}" if sends else f" {receiver}<-{sender}"

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
    """Something a GPU does once: ``dur_ns`` alone, or the transfer part of a collective.

    Attributes:
        recomputed: it repeats forward work during backward.
    """

    shape: Kernel | Copy
    dur_ns: int
    flop: Flop = Flop()
    collective: Collective | None = None
    recomputed: bool = False

    @property
    def leaf(self) -> str:
        """What its time is charged to; repeated forward work has leaves of its own."""
        if not self.recomputed:
            return self.shape.leaf
        root, _, kind = self.shape.leaf.partition(".")
        return f"flop.recompute.{kind}" if root == "flop" else "compute.recompute"


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
    """Submit work to a stream.

    Attributes:
        call_ns: how long the call takes; 0: as long as calls take on this machine.
        held_ns: how long after its return the work still cannot start, for no visible reason.
        returns_when_done: the call blocks until the work has ended, as for pageable memory.
    """

    work: Work
    stream: int = MAIN_STREAM
    call_ns: int = 0
    held_ns: int = 0
    returns_when_done: bool = False


@dataclass(frozen=True, slots=True)
class GraphLaunch:
    """Submit a CUDA graph: one call, a chain of works ``gap_ns`` apart."""

    works: tuple[Work, ...]
    gap_ns: int
    stream: int = MAIN_STREAM


@dataclass(frozen=True, slots=True)
class Api:
    """A CUDA call that puts no work on a GPU.

    Attributes:
        leaf: what idle time under it is charged to; None: it explains nothing.
        waits: it returns only after the device has drained.
        overhead: what the profiler reports under it, if anything.
    """

    name: str
    dur_ns: int
    leaf: str | None = None
    waits: bool = False
    overhead: str = ""


@dataclass(frozen=True, slots=True)
class _Pause:
    """The thread does not go on for a while."""

    name: str
    dur_ns: int


class OsCall(_Pause):
    """Block in the operating system: Nsight sees it, Kineto does not."""


class Overhead(_Pause):
    """The profiler stops the thread to do work of its own."""


@dataclass(frozen=True, slots=True)
class Capture:
    """Turn the profiler on or off."""

    on: bool


@dataclass(frozen=True, slots=True)
class _OnStream:
    """What a stream is told of an event."""

    event: Event
    stream: int


class Record(_OnStream):
    """Record an event on a stream."""


class Await(_OnStream):
    """Let a stream wait for an event; the host does not wait."""


@dataclass(frozen=True, slots=True)
class Sync:
    """Block the thread until a stream (None: the device) has drained.

    Attributes:
        leaf: what idle time under it is charged to; None: to the synchronization.
    """

    stream: int | None
    leaf: str | None = None


@dataclass(frozen=True, slots=True)
class EventSync:
    """Block the thread until an event has completed."""

    event: Event


@dataclass(frozen=True, slots=True)
class Handoff:
    """Run a program on another thread of the rank and wait for its end."""

    thread: str
    program: "Program"


Action = (
    Cpu
    | Push
    | Pop
    | Mark
    | Launch
    | GraphLaunch
    | Record
    | Await
    | Sync
    | EventSync
    | Api
    | OsCall
    | Overhead
    | Capture
    | Handoff
)
Program = Generator[Action, None, None]
