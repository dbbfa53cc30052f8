"""What does a host thread do at each instant? Runs a program action by action and keeps a log."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from tracelens.simulate import actions as act
from tracelens.simulate.device import Gate, Gpu, Marker
from tracelens.simulate.engine import Loop, Machine
from tracelens.simulate.jitter import Jitter
from tracelens.simulate.threadlog import COMPUTING, OS_VIEWS, Doing, Piece, ThreadLog
from tracelens.simulate.timeline import (
    Activity,
    Call,
    EventRecord,
    HostSync,
    OsCall,
    Overhead,
    Range,
    StreamWait,
    Timeline,
)

_IN_CALL = Doing(recorded=True)
_BLOCKED_IN_CALL = Doing(recorded=True, blocking=True)
_UNSEEN_CALL = Doing()
_OPEN_NS = 1 << 62
"""End of a call that has not returned."""


class RankHost:
    """What the threads of a rank share: its GPU, its log, the step that is open."""

    def __init__(
        self,
        loop: Loop,
        machine: Machine,
        gpu: Gpu,
        timeline: Timeline,
        jitter: Jitter | None = None,
    ) -> None:
        self.loop = loop
        self.machine = machine
        self.gpu = gpu
        self.timeline = timeline
        self.jitter = jitter or Jitter()
        self.step: int | None = None
        self.capturing = True
        self.launched_names: set[str] = set()
        self._first_correlation = timeline.next_correlation
        self.threads = {name: HostThread(self, name) for name in timeline.threads}
        self.threads["autograd"].sleep(self.threads["main"])

    def call(self, call: Call, *, launching: bool = False) -> Call:
        """Give a call its correlation id, decide whether it is recorded, and keep it."""
        timeline = self.timeline
        number = timeline.next_correlation
        timeline.next_correlation += 1
        lost = launching and timeline.recording.loses(number)
        call.correlation = timeline.recording.correlation(number, self._first_correlation)
        call.recorded = self.capturing and not lost
        timeline.calls.append(call)
        return call


class HostThread:
    """A thread that runs one program at a time."""

    def __init__(self, host: RankHost, name: str) -> None:
        self.name = name
        self.log = ThreadLog()
        self._host = host
        self._loop = host.loop
        self._stack: list[Range] = []
        self._program: act.Program | None = None
        self._on_end: Callable[[], None] | None = None
        self._perform: dict[type, Callable[..., int | None]] = {
            act.Cpu: self._cpu,
            act.Push: self._push,
            act.Pop: self._pop,
            act.Mark: self._mark,
            act.Launch: self._launch,
            act.GraphLaunch: self._launch,
            act.Record: self._record,
            act.Await: self._await,
            act.Sync: self._sync,
            act.EventSync: self._event_sync,
            act.Api: self._api,
            act.OsCall: self._os_call,
            act.Overhead: self._overhead,
            act.Capture: self._capture,
            act.Handoff: self._handoff,
        }

    def start(self, program: act.Program, on_end: Callable[[], None] | None = None) -> None:
        """Begin a program now."""
        self._wake()
        self._program, self._on_end = program, on_end
        self._resume()

    def sleep(self, until_told_by: "HostThread") -> None:
        """Wait, from now on, for another thread."""
        self.log.wait(self._loop.now, until_told_by.log)

    def blocked_at(self, time_ns: int) -> bool:
        """Whether the thread, or the one it waits for, was in a blocking call."""
        return self.log.blocked_at(time_ns)

    def pieces(self, start_ns: int, end_ns: int, view: str) -> Iterator[tuple[int, int, str]]:
        """What the thread, or the one it waits for, did between two instants."""
        return self.log.pieces(start_ns, end_ns, view)

    def _wake(self) -> None:
        slept_since_ns = self.log.close(self._loop.now)
        if slept_since_ns is not None and self._host.timeline.recording.os_joins:
            self._traced_wait("pthread_cond_wait", slept_since_ns, self._loop.now)

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

    def _note(self, end_ns: int | None, doing: Doing = COMPUTING) -> Piece:
        return self.log.note(self._loop.now, end_ns, self._stack, doing)

    def _cpu(self, action: act.Cpu) -> int:
        dur_ns = self._host.jitter.on_host(action.dur_ns)
        self._note(self._loop.now + dur_ns)
        return dur_ns

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

    def _call(self, name: str, start_ns: int, end_ns: int, *, launching: bool = False) -> Call:
        call = Call(name, self.name, start_ns, end_ns, 0, tuple(self._stack))
        return self._host.call(call, launching=launching)

    def _launch(
        self, action: act.Launch | act.GraphLaunch, since_ns: int | None = None
    ) -> int | None:
        host, now = self._host, self._loop.now
        if since_ns is None and not host.gpu.has_space():
            piece = self._note(None, _IN_CALL)
            host.gpu.when_space(partial(self._launch_late, action, piece))
            return None
        call_ns = host.machine.api_ns
        if isinstance(action, act.Launch) and action.call_ns:
            call_ns = action.call_ns
        name = "cudaGraphLaunch"
        if isinstance(action, act.Launch):
            name = action.work.shape.api
        start_ns = now if since_ns is None else since_ns
        call = self._call(name, start_ns, now + call_ns, launching=True)
        if isinstance(action, act.Launch) and action.returns_when_done:
            self._submit(action, call)
            self._return_when_done(action, call)
            return None
        if since_ns is None:
            self._note(call.end_ns, _IN_CALL if call.recorded else _UNSEEN_CALL)
        self._submit(action, call)
        return call_ns

    def _submit(self, action: act.Launch | act.GraphLaunch, call: Call) -> None:
        machine = self._host.machine
        if isinstance(action, act.GraphLaunch):
            for node, work in enumerate(action.works):
                activity = self._activity(work, action.stream, call)
                activity.node = node
                activity.gap_ns = action.gap_ns if node else None
                self._host.gpu.submit(action.stream, activity)
            return
        activity = self._activity(action.work, action.stream, call)
        if action.call_ns:
            activity.not_before_ns = call.end_ns + machine.latency_ns - machine.api_ns
        if action.held_ns:
            activity.held = True
            activity.not_before_ns = call.end_ns + action.held_ns
        self._host.gpu.submit(action.stream, activity)

    def _activity(self, work: act.Work, stream: int, call: Call) -> Activity:
        host = self._host
        is_kernel = isinstance(work.shape, act.Kernel)
        activity = Activity(
            id=len(host.timeline.activities),
            rank=host.timeline.rank,
            stream=stream,
            work=replace(work, dur_ns=host.jitter.on_gpu(work.dur_ns)),
            call=call,
            step=host.step,
            first_of_name=is_kernel and work.shape.name not in host.launched_names,
        )
        host.launched_names.add(work.shape.name)
        host.timeline.activities.append(activity)
        return activity

    def _launch_late(self, action: act.Launch | act.GraphLaunch, piece: Piece) -> None:
        self._launch(action, since_ns=piece.start_ns)
        piece.end_ns = self._loop.now + self._host.machine.api_ns
        self._loop.at(piece.end_ns, self._resume)

    def _return_when_done(self, action: act.Launch, call: Call) -> None:
        piece = self._note(None, _BLOCKED_IN_CALL)
        call.end_ns = _OPEN_NS
        done = act.Event(-len(self._host.timeline.activities))
        self._host.gpu.submit(action.stream, Marker(done))
        self._host.gpu.when_complete(done, partial(self._synced, call, piece))

    def _light_call(self, name: str) -> Call:
        end_ns = self._loop.now + self._host.machine.light_api_ns
        call = self._call(name, self._loop.now, end_ns)
        self._note(end_ns, _IN_CALL if call.recorded else _UNSEEN_CALL)
        return call

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
        piece = self._note(None, Doing(recorded=True, leaf=action.leaf, blocking=True))
        call = self._call(name, self._loop.now, -1)
        self._host.timeline.host_syncs.append(HostSync(call, action.stream))
        self._host.gpu.when_drained(action.stream, partial(self._synced, call, piece))

    def _event_sync(self, action: act.EventSync) -> None:
        piece = self._note(None, _BLOCKED_IN_CALL)
        call = self._call("cudaEventSynchronize", self._loop.now, -1)
        self._host.timeline.host_syncs.append(HostSync(call, event=action.event))
        if action.event.time_ns is None:
            self._host.gpu.when_complete(action.event, partial(self._synced, call, piece))
        else:
            self._synced(call, piece)

    def _synced(self, call: Call, piece: Piece) -> None:
        machine = self._host.machine
        self._return(call, piece, self._loop.now + machine.sync_return_ns)
        if self._host.timeline.recording.os_in_calls:
            self._traced_wait("poll", call.start_ns + 500, call.end_ns - 500)

    def _return(self, call: Call, piece: Piece, end_ns: int) -> None:
        end_ns = max(call.start_ns + self._host.machine.api_ns, end_ns)
        call.end_ns = piece.end_ns = end_ns
        self._loop.at(end_ns, self._resume)

    def _traced_wait(self, name: str, start_ns: int, end_ns: int) -> None:
        self._host.timeline.os_calls.append(OsCall(name, self.name, start_ns, end_ns))

    def _api(self, action: act.Api) -> None:
        now = self._loop.now
        piece = self._note(None, Doing(recorded=True, leaf=action.leaf))
        call = self._call(action.name, now, -1)
        call.leaf = action.leaf
        returned = partial(self._api_returned, action, call, piece)
        if action.waits:
            self._host.gpu.when_drained(None, returned)
        else:
            returned()

    def _api_returned(self, action: act.Api, call: Call, piece: Piece) -> None:
        end_ns = self._loop.now + self._host.jitter.on_host(action.dur_ns)
        if action.overhead:
            row = Overhead(action.overhead, self.name, self._loop.now, end_ns)
            self._host.timeline.overheads.append(row)
        self._return(call, piece, end_ns)

    def _os_call(self, action: act.OsCall) -> int:
        dur_ns = self._host.jitter.on_host(action.dur_ns)
        end_ns = self._loop.now + dur_ns
        self._note(end_ns, Doing(recorded=True, leaf="host.blocked", views=OS_VIEWS))
        self._traced_wait(action.name, self._loop.now, end_ns)
        return dur_ns

    def _overhead(self, action: act.Overhead) -> int:
        dur_ns = self._host.jitter.on_host(action.dur_ns)
        end_ns = self._loop.now + dur_ns
        self._note(end_ns, Doing(leaf="host.profiler"))
        row = Overhead(action.name, self.name, self._loop.now, end_ns)
        self._host.timeline.overheads.append(row)
        return dur_ns

    def _capture(self, action: act.Capture) -> int:
        host, now = self._host, self._loop.now
        since_ns, _ = host.timeline.capture
        host.timeline.capture = (now, None) if action.on else (since_ns, now)
        host.capturing = action.on
        return 0

    def _handoff(self, action: act.Handoff) -> None:
        other = self._host.threads[action.thread]
        handoff_ns = self._host.machine.handoff_ns
        self._note(self._loop.now + handoff_ns)
        self._loop.at(self._loop.now + handoff_ns, partial(self._wait_for, other, action.program))

    def _wait_for(self, other: "HostThread", program: act.Program) -> None:
        self.log.wait(self._loop.now, other.log)
        other.start(program, partial(self._handed_back, other))

    def _handed_back(self, other: "HostThread") -> None:
        self._wake()
        other.sleep(self)
        self._note(self._loop.now + self._host.machine.handoff_ns)
        self._loop.at(self._loop.now + self._host.machine.handoff_ns, self._resume)
