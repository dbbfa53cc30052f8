"""What does a host thread do at each instant? Runs a program action by action and keeps a log."""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from tracelens.simulate import actions as act
from tracelens.simulate.device import Gate, Gpu, Marker
from tracelens.simulate.engine import Loop, Machine
from tracelens.simulate.timeline import (
    Activity,
    Call,
    EventRecord,
    HostSync,
    Range,
    StreamWait,
    Timeline,
)

RECORDED = "recorded"
SILENT = "silent"


@dataclass(slots=True)
class Piece:
    """A stretch of a thread's time.

    Attributes:
        state: the leaf of a labelled range, or RECORDED (inside an operator or a CUDA call), or
            SILENT (nothing that a profiler would show).
        blocking: the thread waits for the GPU.
        waits_for: the thread that this one waits for.
    """

    start_ns: int
    end_ns: int | None
    state: str
    blocking: bool = False
    waits_for: "HostThread | None" = None


class RankHost:
    """What the threads of a rank share: its GPU, its log, the step that is open."""

    def __init__(self, loop: Loop, machine: Machine, gpu: Gpu, timeline: Timeline) -> None:
        self.loop = loop
        self.machine = machine
        self.gpu = gpu
        self.timeline = timeline
        self.step: int | None = None
        self.threads = {name: HostThread(self, name) for name in timeline.threads}
        self.threads["autograd"].sleep(self.threads["main"])


class HostThread:
    """A thread that runs one program at a time."""

    def __init__(self, host: RankHost, name: str) -> None:
        self.name = name
        self._host = host
        self._loop = host.loop
        self._log: list[Piece] = []
        self._stack: list[Range] = []
        self._program: act.Program | None = None
        self._on_end: Callable[[], None] | None = None
        self._perform: dict[type, Callable[..., int | None]] = {
            act.Cpu: self._cpu,
            act.Push: self._push,
            act.Pop: self._pop,
            act.Mark: self._mark,
            act.Launch: self._launch,
            act.Record: self._record,
            act.Await: self._await,
            act.Sync: self._sync,
            act.EventSync: self._event_sync,
            act.Handoff: self._handoff,
        }

    def start(self, program: act.Program, on_end: Callable[[], None] | None = None) -> None:
        """Begin a program now."""
        if self._log and self._log[-1].end_ns is None:
            self._log[-1].end_ns = self._loop.now
        self._program, self._on_end = program, on_end
        self._resume()

    def sleep(self, until_told_by: "HostThread") -> None:
        """Wait, from now on, for another thread."""
        self._note(None, waits_for=until_told_by)

    def blocked_at(self, time_ns: int) -> bool:
        """Whether the thread, or the one it waits for, was in a blocking call."""
        piece = self._log[bisect_right(self._log, time_ns, key=_start_ns) - 1]
        if piece.waits_for is not None:
            return piece.waits_for.blocked_at(time_ns)
        return piece.blocking

    def pieces(self, start_ns: int, end_ns: int) -> Iterator[tuple[int, int, str]]:
        """What the thread, or the one it waits for, did between two instants."""
        first = bisect_right(self._log, start_ns, key=_start_ns) - 1
        for piece in self._log[max(first, 0) :]:
            low = max(piece.start_ns, start_ns)
            high = end_ns if piece.end_ns is None else min(piece.end_ns, end_ns)
            if low >= end_ns:
                return
            if low < high and piece.waits_for is not None:
                yield from piece.waits_for.pieces(low, high)
            elif low < high:
                yield low, high, piece.state

    def _resume(self) -> None:
        if self._program is None:
            raise RuntimeError(f"thread {self.name} has no program")
        for action in self._program:
            delay_ns = self._perform[type(action)](action)
            if delay_ns is None:
                return
            if delay_ns:
                self._loop.at(self._loop.now + delay_ns, self._resume)
                return
        self._program = None
        if self._on_end is not None:
            self._on_end()

    def _note(
        self,
        end_ns: int | None,
        *,
        blocking: bool = False,
        in_call: bool = False,
        waits_for: "HostThread | None" = None,
    ) -> Piece:
        what = [opened.what for opened in self._stack]
        labels = [item.leaf for item in what if isinstance(item, act.Annotation) and item.leaf]
        in_op = any(isinstance(item, act.Op) for item in what)
        state = labels[0] if labels else RECORDED if in_op or in_call else SILENT
        piece = Piece(self._loop.now, end_ns, state, blocking, waits_for)
        self._log.append(piece)
        return piece

    def _cpu(self, action: act.Cpu) -> int:
        self._note(self._loop.now + action.dur_ns)
        return action.dur_ns

    def _push(self, action: act.Push) -> int:
        ranges = self._host.timeline.ranges
        opened = Range(action.range, self.name, self._loop.now, len(ranges) + 1, tuple(self._stack))
        ranges.append(opened)
        self._stack.append(opened)
        return 0

    def _pop(self, _: act.Pop) -> int:
        self._stack.pop().end_ns = self._loop.now
        return 0

    def _mark(self, action: act.Mark) -> int:
        self._host.step = action.step
        return 0

    def _call(self, name: str, start_ns: int, end_ns: int) -> Call:
        timeline = self._host.timeline
        parents = tuple(self._stack)
        call = Call(name, self.name, start_ns, end_ns, timeline.next_correlation, parents)
        timeline.next_correlation += 1
        timeline.calls.append(call)
        return call

    def _launch(self, action: act.Launch, since_ns: int | None = None) -> int | None:
        host, now = self._host, self._loop.now
        if since_ns is None and not host.gpu.has_space():
            piece = self._note(None, in_call=True)
            host.gpu.when_space(partial(self._launch_late, action, piece))
            return None
        start_ns = now if since_ns is None else since_ns
        end_ns = now + host.machine.api_ns
        if since_ns is None:
            self._note(end_ns, in_call=True)
        call = self._call(action.work.shape.api, start_ns, end_ns)
        activity = Activity(
            id=len(host.timeline.activities),
            rank=host.timeline.rank,
            stream=action.stream,
            work=action.work,
            call=call,
            step=host.step,
        )
        host.timeline.activities.append(activity)
        host.gpu.submit(action.stream, activity)
        return host.machine.api_ns

    def _launch_late(self, action: act.Launch, piece: Piece) -> None:
        self._launch(action, since_ns=piece.start_ns)
        piece.end_ns = self._loop.now + self._host.machine.api_ns
        self._loop.at(piece.end_ns, self._resume)

    def _light_call(self, name: str) -> Call:
        end_ns = self._loop.now + self._host.machine.light_api_ns
        self._note(end_ns, in_call=True)
        return self._call(name, self._loop.now, end_ns)

    def _record(self, action: act.Record) -> int:
        call = self._light_call("cudaEventRecord")
        action.event.record_correlation = call.correlation
        action.event.record_stream = action.stream
        self._host.timeline.event_records.append(EventRecord(call, action.stream, action.event.id))
        self._host.gpu.submit(action.stream, Marker(action.event))
        return self._host.machine.light_api_ns

    def _await(self, action: act.Await) -> int:
        call, event = self._light_call("cudaStreamWaitEvent"), action.event
        self._host.timeline.stream_waits.append(StreamWait(call, action.stream, event))
        self._host.gpu.submit(action.stream, Gate(event))
        return self._host.machine.light_api_ns

    def _sync(self, action: act.Sync) -> None:
        name = "cudaDeviceSynchronize" if action.stream is None else "cudaStreamSynchronize"
        piece = self._note(None, blocking=True, in_call=True)
        call = self._call(name, self._loop.now, -1)
        self._host.timeline.host_syncs.append(HostSync(call, action.stream))
        self._host.gpu.when_drained(action.stream, partial(self._synced, call, piece))

    def _event_sync(self, action: act.EventSync) -> None:
        piece = self._note(None, blocking=True, in_call=True)
        call = self._call("cudaEventSynchronize", self._loop.now, -1)
        self._host.timeline.host_syncs.append(HostSync(call, event=action.event))
        if action.event.time_ns is None:
            self._host.gpu.when_complete(action.event, partial(self._synced, call, piece))
        else:
            self._synced(call, piece)

    def _synced(self, call: Call, piece: Piece) -> None:
        machine = self._host.machine
        end_ns = max(call.start_ns + machine.api_ns, self._loop.now + machine.sync_return_ns)
        call.end_ns = piece.end_ns = end_ns
        self._loop.at(end_ns, self._resume)

    def _handoff(self, action: act.Handoff) -> None:
        other = self._host.threads[action.thread]
        handoff_ns = self._host.machine.handoff_ns
        self._note(self._loop.now + handoff_ns)
        self._loop.at(self._loop.now + handoff_ns, partial(self._wait_for, other, action.program))

    def _wait_for(self, other: "HostThread", program: act.Program) -> None:
        piece = self._note(None, waits_for=other)
        other.start(program, partial(self._handed_back, other, piece))

    def _handed_back(self, other: "HostThread", piece: Piece) -> None:
        piece.end_ns = self._loop.now
        other.sleep(self)
        self._note(self._loop.now + self._host.machine.handoff_ns)
        self._loop.at(self._loop.now + self._host.machine.handoff_ns, self._resume)


def _start_ns(piece: Piece) -> int:
    return piece.start_ns
