"""Where did each nanosecond really go? Written while it happens, by the loop that decides it.

No part of the analysis is used or imitated on finished data: the recorder is told of every start
and end, knows what every host thread is doing, and names each interval by the definitions of the
accounting model (precedence flop > compute > comm > copy; causes of idle time).
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from tracelens.simulate.actions import MAIN_STREAM, Event
from tracelens.simulate.gaps import TRUTH, Cause, Gap, Thread, explain
from tracelens.simulate.recording import FAMILIES
from tracelens.simulate.timeline import Activity

_REPEATS = "repeats "


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


@dataclass(slots=True)
class _Run:
    """A stretch of exposed communication, and the work that the kernel after it waited for."""

    end_ns: int | None
    intervals: list[Interval]
    awaited: tuple[Activity, ...]


class Recorder:
    """The account of one GPU."""

    def __init__(self) -> None:
        self.intervals: list[Interval] = []
        self.step_starts: dict[int, int] = {}
        self.seen: dict[str, dict[int, list[Cause]]] = {}
        self.unrecorded_ns: list[int] = []
        self.threads: dict[str, Thread] = {}
        self._running: dict[Activity, None] = {}
        self._since_ns = 0
        self._idle_since_ns: int | None = None
        self._gap: _Gap | None = None
        self._exposed: list[Interval] = []
        self._exposed_runs: list[_Run] = []

    def change(self, now: int) -> None:
        """Close what was going on until ``now``; called before anything changes."""
        if self._gap is not None and now > self._gap.end_ns:
            self._explain(self._gap)
            self._gap = None
        if self._running and now > self._since_ns:
            self._name_busy(self._since_ns, now)
        self._since_ns = now

    def begin(
        self,
        activity: Activity,
        now: int,
        passed: tuple[Event, ...],
        awaited: Iterable[Activity] = (),
    ) -> None:
        """An activity starts, after the events (``awaited``: the work) its stream waited for."""
        self.change(now)
        if self._gap is not None:
            self._gap.enders.append((activity, passed))
        elif not self._running and self._idle_since_ns not in {None, now}:
            self._gap = _Gap(self._idle_since_ns or 0, now, [(activity, passed)])
        if _is_compute(activity):
            if self._exposed:
                self._exposed_runs.append(_Run(now, self._exposed, tuple(awaited)))
                self._exposed = []
            step = activity.step if activity.call.recorded else None
            if activity.stream == MAIN_STREAM and step is not None:
                self.step_starts.setdefault(step, now)
        if not activity.call.recorded:
            self.unrecorded_ns.append(now)
        self._running[activity] = None

    def end(self, activity: Activity, now: int) -> None:
        """An activity ends."""
        self.change(now)
        del self._running[activity]
        if not self._running:
            self._idle_since_ns = now

    def close(self) -> list[Interval]:
        """End of the simulation: settle which collective each exposed stretch was spent on."""
        self._exposed_runs.append(_Run(None, self._exposed, ()))
        for run in self._exposed_runs:
            _settle_exposed(run)
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
            self._add(start_ns, end_ns, _leaf(compute[0]), _busy(compute[0]))
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
            self._add(at_ns, until_ns, _leaf(activity), _busy(activity))
            at_ns = until_ns

    def _explain(self, gap: _Gap) -> None:
        activity, passed = min(gap.enders, key=_launch_order)
        whole = Gap(gap.start_ns, gap.end_ns, activity, passed)
        thread = self.threads[activity.call.thread]
        causes = explain(whole, thread, TRUTH)
        self.intervals += [Interval(*cause) for cause in causes]
        for family in FAMILIES:
            seen = explain(whole, thread, family)
            if [part[:3] for part in seen] != [part[:3] for part in causes]:
                self.seen.setdefault(family, {})[gap.start_ns] = seen


def _launch_order(ender: tuple[Activity, tuple[Event, ...]]) -> tuple[bool, int, int]:
    activity = ender[0]
    return (not activity.call.recorded, activity.call.start_ns, activity.id)


def _leaf(activity: Activity) -> str:
    return activity.work.leaf


def _busy(activity: Activity) -> str:
    return f"{_REPEATS}{activity.work.shape.leaf}" if activity.work.recomputed else "busy"


def _is_compute(activity: Activity) -> bool:
    return _leaf(activity).startswith(("flop.", "compute."))


def _settle_exposed(run: _Run) -> None:
    """The blocker is what the resuming kernel waited for, else what ended last before it."""
    involved = {activity for interval in run.intervals for activity in interval.active}
    ended = [
        activity for activity in involved if run.end_ns is None or activity.end_ns <= run.end_ns
    ]
    awaited = [activity for activity in ended if activity in run.awaited]
    blocker = max(awaited or ended, key=_ending, default=None)
    for interval in run.intervals:
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


def seen_intervals(intervals: list[Interval], gaps: dict[int, list[Cause]]) -> list[Interval]:
    """The account as one family of traces must give it: some gaps are named otherwise."""
    starts = sorted(gaps)
    kept = []
    for interval in intervals:
        place = bisect_right(starts, interval.start_ns) - 1
        if place < 0 or interval.start_ns >= gaps[starts[place]][-1].end_ns:
            kept.append(interval)
    named = [Interval(*cause) for causes in gaps.values() for cause in causes]
    return sorted(kept + named, key=lambda interval: interval.start_ns)


def without_metadata(intervals: list[Interval]) -> list[Interval]:
    """The account without groups and operators: what Nsight's records of a PyTorch job can tell.

    Gradient buckets that are all-reduced are known by what their group does; the dimension of any
    other group is not.
    """
    return [replace(interval, leaf=_anonymous(interval)) for interval in intervals]


def _anonymous(interval: Interval) -> str:
    leaf, cause = interval.leaf, interval.cause
    if not leaf.startswith("comm.") or (leaf.startswith("comm.dp.") and cause == "allreduce"):
        return leaf
    return f"comm.unknown.{leaf.rpartition('.')[2]}"


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
