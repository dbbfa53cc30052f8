"""What a profiler that missed nothing would have written down: the rows both emitters read."""

from dataclasses import dataclass, field

from tracelens.simulate.actions import Annotation, Event, Op, Work


@dataclass(slots=True, eq=False)
class Call:
    """A CUDA API call on a host thread."""

    name: str
    thread: str
    start_ns: int
    end_ns: int
    correlation: int
    parents: tuple["Range", ...]


@dataclass(slots=True, eq=False)
class Range:
    """An operator or annotation on a host thread; ``end_ns`` is -1 while it is open."""

    what: Op | Annotation
    thread: str
    start_ns: int
    id: int
    parents: tuple["Range", ...]
    end_ns: int = -1


@dataclass(slots=True, eq=False)
class Activity:
    """Work on a GPU; the times are -1 until they happen."""

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


@dataclass(slots=True)
class Timeline:
    """Everything that was recorded on one rank."""

    rank: int
    pid: int
    threads: dict[str, int]
    calls: list[Call] = field(default_factory=list)
    ranges: list[Range] = field(default_factory=list)
    activities: list[Activity] = field(default_factory=list)
    stream_waits: list[StreamWait] = field(default_factory=list)
    event_records: list[EventRecord] = field(default_factory=list)
    host_syncs: list[HostSync] = field(default_factory=list)
    next_correlation: int = 1
