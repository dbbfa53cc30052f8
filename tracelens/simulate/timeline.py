"""What a profiler that missed nothing would have written down: the rows both emitters read."""

from dataclasses import dataclass, field

from tracelens.simulate.actions import Annotation, Event, Op, Work
from tracelens.simulate.recording import COMPLETE, Recording

MARK = "ProfilerStep#"


@dataclass(slots=True, eq=False)
class Call:
    """A CUDA API call on a host thread.

    Attributes:
        recorded: the profiler wrote it down.
        leaf: what idle time under it is charged to; None: it only shows that the thread was busy.
    """

    name: str
    thread: str
    start_ns: int
    end_ns: int
    correlation: int
    parents: tuple["Range", ...]
    recorded: bool = True
    leaf: str | None = None


@dataclass(slots=True, eq=False)
class Range:
    """An operator or annotation on a host thread; ``end_ns`` is -1 while it is open."""

    what: Op | Annotation
    thread: str
    start_ns: int
    id: int
    parents: tuple["Range", ...]
    end_ns: int = -1

    @property
    def is_mark(self) -> bool:
        """Whether it marks a training step."""
        return self.what.name.startswith(MARK)


@dataclass(slots=True, eq=False)
class Activity:
    """Work on a GPU; the times are -1 until they happen.

    Attributes:
        not_before_ns: something held the GPU up until then.
        gap_ns: from the end of what ran before on the stream; None: that of the machine.
        node: position in the CUDA graph that launched it, -1 for none.
        first_of_name: no launch of this kernel came before.
        held: kept waiting by something that leaves no trace.
    """

    id: int
    rank: int
    stream: int
    work: Work
    call: Call
    step: int | None
    start_ns: int = -1
    end_ns: int = -1
    waiting: bool = False
    last_rank: int | None = None
    not_before_ns: int = 0
    gap_ns: int | None = None
    node: int = -1
    first_of_name: bool = False
    held: bool = False


@dataclass(frozen=True, slots=True)
class StreamWait:
    """A stream was told to wait for an event that was recorded on another."""

    call: Call
    stream: int
    event: Event


@dataclass(frozen=True, slots=True)
class EventRecord:
    """An event was recorded on a stream."""

    call: Call
    stream: int
    event_id: int


@dataclass(frozen=True, slots=True)
class HostSync:
    """The host waited for an event, a stream, or (both None) the device."""

    call: Call
    stream: int | None = None
    event: Event | None = None


@dataclass(frozen=True, slots=True)
class OsCall:
    """A call into the operating system that was slow enough to be traced."""

    name: str
    thread: str
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class Overhead:
    """Time that the profiler, or the driver on its behalf, took from the program."""

    name: str
    thread: str
    start_ns: int
    end_ns: int


@dataclass(slots=True)
class Timeline:
    """Everything that was recorded on one rank; ``capture`` is when the profiler was on."""

    rank: int
    pid: int
    threads: dict[str, int]
    recording: Recording = COMPLETE
    capture: tuple[int, int | None] = (0, None)
    calls: list[Call] = field(default_factory=list)
    ranges: list[Range] = field(default_factory=list)
    activities: list[Activity] = field(default_factory=list)
    stream_waits: list[StreamWait] = field(default_factory=list)
    event_records: list[EventRecord] = field(default_factory=list)
    host_syncs: list[HostSync] = field(default_factory=list)
    os_calls: list[OsCall] = field(default_factory=list)
    overheads: list[Overhead] = field(default_factory=list)
    next_correlation: int = 1

    def captured(self, row: "Call | Range | Activity | OsCall | Overhead") -> bool:
        """Whether a row began and ended while the profiler was on."""
        since_ns, until_ns = self.capture
        inside = row.start_ns >= since_ns and (until_ns is None or row.end_ns <= until_ns)
        return inside and row.end_ns >= row.start_ns

    def recorded_calls(self) -> list[Call]:
        """Calls that the trace holds."""
        return [call for call in self.calls if call.recorded and self.captured(call)]

    def recorded_activities(self) -> list[Activity]:
        """Work that the trace holds."""
        return [activity for activity in self.activities if self.captured(activity)]

    def recorded_ranges(self) -> list[Range]:
        """Ranges that the trace holds."""
        return [
            opened
            for opened in self.ranges
            if self.captured(opened) and (self.recording.marks or not opened.is_mark)
        ]
