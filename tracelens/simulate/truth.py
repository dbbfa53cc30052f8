"""Where did each nanosecond really go? Written while it happens, by the loop that decides it.

No part of the analysis is used or imitated on finished data: the recorder is told of every start
and end, knows what every host thread is doing, and names each interval by the definitions of the
accounting model (precedence flop > compute > comm > copy; causes of idle time).
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from tracelens.simulate.actions import MAIN_STREAM, Event
from tracelens.simulate.timeline import Activity

SILENT_LIMIT_NS = 200_000


class Thread(Protocol):
    """What the recorder asks of a host thread."""

    def blocked_at(self, time_ns: int) -> bool:
        """Whether it was in a blocking call."""

    def pieces(self, start_ns: int, end_ns: int) -> Iterator[tuple[int, int, str]]:
        """What it did between two instants."""


@dataclass(slots=True)
class Interval:
    """A stretch of one GPU's time; tiles with its neighbors."""

    start_ns: int
    end_ns: int
    leaf: str
    cause: str
    blamed_rank: int | None = None
    active: dict[Activity, bool] = field(default_factory=dict)


@dataclass(slots=True)
class _Gap:
    start_ns: int
    end_ns: int
    enders: list[tuple[Activity, tuple[Event, ...]]]


class Recorder:
    """The account of one GPU."""

    def __init__(self) -> None:
        self.intervals: list[Interval] = []
        self.step_starts: dict[int, int] = {}
        self.threads: dict[str, Thread] = {}
        self._running: dict[Activity, None] = {}
        self._since_ns = 0
        self._idle_since_ns: int | None = None
        self._gap: _Gap | None = None
        self._exposed: list[Interval] = []
        self._exposed_runs: list[tuple[int | None, list[Interval]]] = []

    def change(self, now: int) -> None:
        """Close what was going on until ``now``; called before anything changes."""
        if self._gap is not None and now > self._gap.end_ns:
            self._explain(self._gap)
            self._gap = None
        if self._running and now > self._since_ns:
            self._name_busy(self._since_ns, now)
        self._since_ns = now

    def begin(self, activity: Activity, now: int, passed: tuple[Event, ...]) -> None:
        """An activity starts, after the events that its stream had to wait for."""
        self.change(now)
        if self._gap is not None:
            self._gap.enders.append((activity, passed))
        elif not self._running and self._idle_since_ns not in {None, now}:
            self._gap = _Gap(self._idle_since_ns or 0, now, [(activity, passed)])
        if _is_compute(activity):
            if self._exposed:
                self._exposed_runs.append((now, self._exposed))
                self._exposed = []
            if activity.stream == MAIN_STREAM and activity.step is not None:
                self.step_starts.setdefault(activity.step, now)
        self._running[activity] = None

    def end(self, activity: Activity, now: int) -> None:
        """An activity ends."""
        self.change(now)
        del self._running[activity]
        if not self._running:
            self._idle_since_ns = now

    def close(self) -> list[Interval]:
        """End of the simulation: settle which collective each exposed stretch was spent on."""
        self._exposed_runs.append((None, self._exposed))
        for end_ns, run in self._exposed_runs:
            _settle_exposed(end_ns, run)
        return self.intervals

    def _add(self, start_ns: int, end_ns: int, leaf: str, cause: str) -> Interval:
        interval = Interval(start_ns, end_ns, leaf, cause)
        if end_ns > start_ns:
            self.intervals.append(interval)
        return interval

    def _name_busy(self, start_ns: int, end_ns: int) -> None:
        order = sorted(self._running, key=lambda activity: (activity.start_ns, activity.id))
        flop = [activity for activity in order if _leaf(activity).startswith("flop.")]
        compute = [activity for activity in order if _leaf(activity).startswith("compute.")]
        comm = [activity for activity in order if activity.work.collective is not None]
        if flop:
            self._share(flop, start_ns, end_ns)
        elif compute:
            self._add(start_ns, end_ns, _leaf(compute[0]), "busy")
        elif comm:
            interval = self._add(start_ns, end_ns, "comm", "exposed")
            interval.active = {activity: activity.waiting for activity in comm}
            self._exposed.append(interval)
        else:
            self._add(start_ns, end_ns, _leaf(order[0]), "busy")

    def _share(self, activities: list[Activity], start_ns: int, end_ns: int) -> None:
        """Concurrent FLOP kernels own equal parts; the first also owns the remainder."""
        part_ns, rest_ns = divmod(end_ns - start_ns, len(activities))
        at_ns = start_ns
        for index, activity in enumerate(activities):
            until_ns = at_ns + part_ns + (rest_ns if index == 0 else 0)
            self._add(at_ns, until_ns, _leaf(activity), "busy")
            at_ns = until_ns

    def _explain(self, gap: _Gap) -> None:
        activity, passed = min(gap.enders, key=lambda ender: (ender[0].call.start_ns, ender[0].id))
        call = activity.call
        if call.end_ns <= gap.start_ns:
            waited = any(
                event.time_ns is not None
                and event.time_ns >= gap.start_ns
                and event.producer_stream not in {None, activity.stream}
                for event in passed
            )
            leaf, cause = ("gap.dependency", "event") if waited else ("gap.kernel", "queued")
            self._add(gap.start_ns, gap.end_ns, leaf, cause)
            return
        launch_ns = min(max(call.start_ns, gap.start_ns), gap.end_ns)
        thread = self.threads[call.thread]
        drained = thread.blocked_at(gap.start_ns)
        for start_ns, end_ns, state in _merged(thread.pieces(gap.start_ns, launch_ns)):
            self._add(start_ns, end_ns, *_host_cause(state, end_ns - start_ns, drained))
        self._add(launch_ns, gap.end_ns, "gap.launch_latency", "starved")


def _leaf(activity: Activity) -> str:
    return activity.work.shape.leaf


def _is_compute(activity: Activity) -> bool:
    return _leaf(activity).startswith(("flop.", "compute."))


def _host_cause(state: str, dur_ns: int, drained: bool) -> tuple[str, str]:
    if state.startswith("host."):
        return state, "enabled_by=sync" if drained else "starved"
    if state == "silent" and dur_ns > SILENT_LIMIT_NS:
        return "host.unlabelled", "enabled_by=sync" if drained else "starved"
    return ("host.sync", "drained") if drained else ("host.dispatch", "starved")


def _merged(pieces: Iterator[tuple[int, int, str]]) -> Iterator[tuple[int, int, str]]:
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


def _settle_exposed(run_end_ns: int | None, run: list[Interval]) -> None:
    """The blocker is the instance that ends last before compute resumes, where it is active."""
    involved = {activity for interval in run for activity in interval.active}
    ended = [
        activity for activity in involved if run_end_ns is None or activity.end_ns <= run_end_ns
    ]
    blocker = max(ended, key=_ending, default=None)
    for interval in run:
        owner = max(interval.active, key=_ending)
        if blocker is not None and blocker in interval.active:
            owner = blocker
        if owner.work.collective is None:
            raise ValueError("an exposed stretch without a collective")
        part = "wait" if interval.active[owner] else "transfer"
        interval.leaf = f"comm.{owner.work.collective.group.dim}.{part}"
        interval.cause = owner.work.collective.op
        interval.blamed_rank = owner.last_rank if part == "wait" else None


def _ending(activity: Activity) -> tuple[int, int]:
    return (activity.end_ns, activity.start_ns)


def merge(intervals: list[Interval]) -> list[Interval]:
    """Join neighbors that say the same."""
    merged: list[Interval] = []
    for interval in intervals:
        last = merged[-1] if merged else None
        same = last is not None and (last.leaf, last.cause, last.blamed_rank) == (
            interval.leaf,
            interval.cause,
            interval.blamed_rank,
        )
        if last is not None and same and last.end_ns == interval.start_ns:
            last.end_ns = interval.end_ns
        else:
            merged.append(
                Interval(
                    interval.start_ns,
                    interval.end_ns,
                    interval.leaf,
                    interval.cause,
                    interval.blamed_rank,
                )
            )
    return merged


def leaf_sums(intervals: list[Interval]) -> dict[str, int]:
    """Nanoseconds of each leaf, largest first."""
    sums: Counter[str] = Counter()
    for interval in intervals:
        sums[interval.leaf] += interval.end_ns - interval.start_ns
    return dict(sorted(sums.items(), key=lambda item: (-item[1], item[0])))
