"""When does work that was submitted run? Streams, events, and collectives that need every rank."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from tracelens.simulate.actions import Event
from tracelens.simulate.contention import Contention
from tracelens.simulate.engine import Loop, Machine
from tracelens.simulate.timeline import Activity
from tracelens.simulate.truth import Recorder


@dataclass(frozen=True, slots=True)
class Marker:
    """The place in a stream where an event completes."""

    event: Event


@dataclass(frozen=True, slots=True)
class Gate:
    """The place in a stream that is not passed before an event has completed."""

    event: Event


@dataclass(slots=True)
class Stream:
    """First in, first out; one activity at a time."""

    id: int
    queue: deque[Activity | Marker | Gate] = field(default_factory=deque)
    occupied: bool = False
    last_end_ns: int | None = None
    passed: list[Event] = field(default_factory=list)
    last: Activity | None = None

    submitted: int = 0
    finished: int = 0

    def held_by(self) -> tuple[Event, ...]:
        """The events that came later than the end of its own last work."""
        since_ns = -1 if self.last_end_ns is None else self.last_end_ns
        return tuple(event for event in self.passed if (event.time_ns or 0) > since_ns)


_Channel = tuple[str, tuple[int, ...]]


class Network:
    """Lets the n-th exchanges of the same ranks of a group find each other."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._arrived: dict[tuple[_Channel, int], list[tuple[Gpu, Activity]]] = {}
        self._count: dict[tuple[_Channel, int], int] = {}

    def arrive(self, gpu: "Gpu", activity: Activity) -> None:
        """A member starts: it waits, and the last one lets all of them transfer."""
        collective = activity.work.collective
        if collective is None:
            raise ValueError("only collectives meet")
        channel = (collective.group.name, collective.members)
        member = (channel, gpu.rank)
        instance = self._count.get(member, 0)
        self._count[member] = instance + 1
        present = self._arrived.setdefault((channel, instance), [])
        present.append((gpu, activity))
        activity.waiting = True
        if len(present) < len(collective.members):
            return
        del self._arrived[channel, instance]
        done_ns = self._loop.now + max(other.work.dur_ns for _, other in present)
        for member_gpu, other in present:
            member_gpu.recorder.change(self._loop.now)
            other.waiting = False
            other.last_rank = gpu.rank
            member_gpu.contention.transfers(1)
            self._loop.at(done_ns, partial(member_gpu.finish, other))


class Gpu:
    """One device: its streams, and the recorder that is told of every change."""

    def __init__(
        self, rank: int, loop: Loop, machine: Machine, network: Network, recorder: Recorder
    ) -> None:
        self.rank = rank
        self.recorder = recorder
        self._loop = loop
        self._machine = machine
        self._network = network
        self._streams: dict[int, Stream] = {}
        self._gated: dict[int, list[Callable[[], None]]] = {}
        self._producers: dict[int, Activity] = {}
        self.contention = Contention(loop, machine.contention_permille, self.finish)
        self._pending = 0
        self._space_waiters: deque[Callable[[], None]] = deque()
        self._drain_waiters: list[tuple[dict[int, int], Callable[[], None]]] = []

    def submit(self, stream_id: int, item: Activity | Marker | Gate) -> None:
        """Append to a stream."""
        stream = self._streams.setdefault(stream_id, Stream(stream_id))
        stream.queue.append(item)
        if isinstance(item, Activity):
            stream.submitted += 1
            self._pending += 1
        self._advance(stream)

    def has_space(self) -> bool:
        """Whether another launch fits the queue."""
        return self._pending < self._machine.queue_depth

    def when_space(self, callback: Callable[[], None]) -> None:
        """Call back once a queued activity has started."""
        self._space_waiters.append(callback)

    def when_drained(self, stream_id: int | None, callback: Callable[[], None]) -> None:
        """Call back once all that was submitted so far (to one stream, or to all) has ended."""
        targets = {
            stream.id: stream.submitted
            for stream in self._streams.values()
            if stream_id in {None, stream.id}
        }
        self._drain_waiters.append((targets, callback))
        self._check_drains()

    def when_complete(self, event: Event, callback: Callable[[], None]) -> None:
        """Call back once an event that has not completed yet has."""
        self._gated.setdefault(event.id, []).append(callback)

    def finish(self, activity: Activity) -> None:
        """An activity ends."""
        self.recorder.end(activity, self._loop.now)
        if activity.work.collective is not None:
            self.contention.transfers(-1)
        stream = self._streams[activity.stream]
        activity.end_ns = stream.last_end_ns = self._loop.now
        stream.last = activity
        stream.occupied = False
        stream.finished += 1
        self._advance(stream)
        self._check_drains()

    def _check_drains(self) -> None:
        waiting, self._drain_waiters = self._drain_waiters, []
        for targets, callback in waiting:
            if all(self._streams[key].finished >= count for key, count in targets.items()):
                callback()
            else:
                self._drain_waiters.append((targets, callback))

    def _advance(self, stream: Stream) -> None:
        while stream.queue and not stream.occupied:
            item = stream.queue[0]
            if isinstance(item, Gate):
                if item.event.time_ns is None:
                    self.when_complete(item.event, partial(self._advance, stream))
                    return
                stream.passed.append(item.event)
            elif isinstance(item, Marker):
                self._complete(item.event, stream)
            else:
                stream.occupied = True
                self._loop.at(self._start_ns(stream, item), partial(self._start, stream, item))
            stream.queue.popleft()

    def _complete(self, event: Event, stream: Stream) -> None:
        """The stream reached an event: behind its own last work, or what it had to wait for."""
        event.time_ns = self._loop.now
        producer = stream.last
        for passed in stream.passed:
            other = self._producers.get(passed.id)
            if other is not None and (producer is None or other.end_ns > producer.end_ns):
                producer = other
        if producer is not None:
            event.producer_stream = producer.stream
            self._producers[event.id] = producer
        for callback in self._gated.pop(event.id, []):
            self._loop.at(self._loop.now, callback)

    def _start_ns(self, stream: Stream, activity: Activity) -> int:
        gap_ns = self._machine.stream_gap_ns if activity.gap_ns is None else activity.gap_ns
        launched_ns = activity.call.start_ns + self._machine.latency_ns
        earliest = max(launched_ns, activity.not_before_ns)
        if stream.last_end_ns is not None:
            earliest = max(earliest, stream.last_end_ns + gap_ns)
        times = [event.time_ns for event in stream.passed if event.time_ns is not None]
        return max([earliest, self._loop.now, *(time_ns + gap_ns for time_ns in times)])

    def _start(self, stream: Stream, activity: Activity) -> None:
        now = self._loop.now
        activity.start_ns = now
        producers = (self._producers.get(event.id) for event in stream.passed)
        awaited = [producer for producer in producers if producer is not None]
        self.recorder.begin(activity, now, stream.held_by(), awaited)
        stream.passed.clear()
        self._pending -= 1
        if activity.work.collective is None:
            self.contention.begin(activity)
        else:
            self._network.arrive(self, activity)
        if self._space_waiters:
            self._space_waiters.popleft()()
