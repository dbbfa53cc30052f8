"""Why was a GPU idle? Told by what the simulator knows of the launch that ended the gap.

The rules are those of the accounting model. A profiler does not see everything: what it cannot know
is named as that profiler must name it (a view), beside what really was.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

from tracelens.simulate.actions import Event
from tracelens.simulate.recording import FAMILIES
from tracelens.simulate.timeline import Activity

TRUTH = "truth"
VIEWS = (TRUTH, *FAMILIES)
RECORDED = "recorded"
SILENT = "silent"
SILENT_LIMIT_NS = 200_000
CALL_LIMIT_NS = 100_000
ORDINARY_NS = 20_000
"""No gap between queued kernels that lasts longer is ordinary."""


class Cause(NamedTuple):
    """A part of a gap and what it is charged to."""

    start_ns: int
    end_ns: int
    leaf: str
    cause: str


class Gap(NamedTuple):
    """Idle time, the activity that ended it, and the events that its stream waited for."""

    start_ns: int
    end_ns: int
    activity: Activity
    passed: tuple[Event, ...]


class Thread(Protocol):
    """What is asked of a host thread."""

    def blocked_at(self, time_ns: int) -> bool:
        """Whether it was in a blocking call."""

    def pieces(self, start_ns: int, end_ns: int, view: str) -> Iterator[tuple[int, int, str]]:
        """What it did between two instants, as far as a view shows it."""


def explain(gap: Gap, thread: Thread, view: str) -> list[Cause]:
    """Split a gap into causes.

    Args:
        gap: a whole stretch without any activity.
        thread: the one that launched the activity.
        view: ``TRUTH`` or a family of traces.
    """
    return [part for part in _parts(gap, thread, view) if part.end_ns > part.start_ns]


def _parts(gap: Gap, thread: Thread, view: str) -> Iterator[Cause]:
    start_ns, end_ns, activity, _ = gap
    call = activity.call
    if not call.recorded:
        yield Cause(start_ns, end_ns, "idle.unknown", "launch not recorded")
        return
    if call.end_ns <= start_ns:
        yield _queued(gap)
        return
    launch_ns = min(max(call.start_ns, start_ns), end_ns)
    yield from _host(gap, launch_ns, thread, view)
    since_ns = launch_ns
    returned_ns = min(call.end_ns, end_ns)
    if returned_ns - launch_ns > CALL_LIMIT_NS and activity.node < 0:
        leaf = "host.compile" if activity.first_of_name else "host.cuda_api"
        yield Cause(launch_ns, returned_ns, leaf, "in the launch call")
        since_ns = returned_ns
    if end_ns - returned_ns > CALL_LIMIT_NS:
        yield Cause(since_ns, returned_ns, "gap.launch_latency", "starved")
        yield _queued(gap._replace(start_ns=returned_ns))
    else:
        yield Cause(since_ns, end_ns, "gap.launch_latency", "starved")


def _queued(gap: Gap) -> Cause:
    activity = gap.activity
    released = any(
        event.time_ns is not None
        and event.time_ns >= gap.start_ns
        and event.producer_stream not in {None, activity.stream}
        for event in gap.passed
    )
    if activity.node > 0:
        leaf, cause = "gap.graph", "queued"
    elif released:
        leaf, cause = "gap.dependency", "event"
    elif activity.held and gap.end_ns - gap.start_ns > ORDINARY_NS:
        leaf, cause = "idle.unknown", "held"
    else:
        leaf, cause = "gap.kernel", "queued"
    return Cause(gap.start_ns, gap.end_ns, leaf, cause)


def _host(gap: Gap, until_ns: int, thread: Thread, view: str) -> Iterator[Cause]:
    """The host's part; how long a silence lasts is measured beyond the gap."""
    drained = thread.blocked_at(gap.start_ns)
    since_ns = max(0, gap.start_ns - SILENT_LIMIT_NS - 1)
    for start_ns, end_ns, state in _merged(thread.pieces(since_ns, until_ns, view)):
        if end_ns > gap.start_ns:
            leaf, cause = _host_cause(state, end_ns - start_ns, drained)
            yield Cause(max(start_ns, gap.start_ns), end_ns, leaf, cause)


def _host_cause(state: str, dur_ns: int, drained: bool) -> tuple[str, str]:
    if state.startswith("host."):
        return state, "enabled_by=sync" if drained else "starved"
    if state == SILENT and dur_ns > SILENT_LIMIT_NS:
        return "host.unlabelled", "enabled_by=sync" if drained else "starved"
    return ("host.sync", "drained") if drained else ("host.dispatch", "starved")


def _merged(pieces: Iterable[tuple[int, int, str]]) -> Iterator[tuple[int, int, str]]:
    held: tuple[int, int, str] | None = None
    for start_ns, end_ns, state in pieces:
        if held is not None and held[2] == state and held[1] == start_ns:
            held = (held[0], end_ns, state)
            continue
        if held is not None:
            yield held
        held = (start_ns, end_ns, state)
    if held is not None:
        yield held
