"""Which windows are analysed: what the user asked for, else marks, else the whole trace."""

import re
from dataclasses import dataclass, field
from itertools import pairwise

from tracelens.attribution.activities import Activities
from tracelens.attribution.marks import compiled_in, named_marks, step_marks
from tracelens.attribution.windows import (
    Mark,
    Step,
    Windows,
    given_span,
    step_windows,
    whole_trace,
)
from tracelens.errors import UsageError
from tracelens.store import Store

_SPAN = re.compile(r"(-?\d+)(?:\.\.|-)(-?\d+)")
_HINT = "one of: auto, all, steps:A-B, nvtx:NAME, ns:A-B"
_DRIFT_FRAC = 0.02
_STEPS_TO_COMPARE = 3


@dataclass
class Chosen:
    """Windows of every GPU.

    Attributes:
        source: profiler_step, nvtx, whole_trace or user.
        windows: by GPU.
        confidence: high, medium or low.
        notes: what a reader must know about the choice.
    """

    source: str
    windows: dict[int, Windows]
    confidence: str = "high"
    notes: list[str] = field(default_factory=list)


def choose_windows(
    store: Store, gpus: dict[int, Activities], processes: dict[int, int], window: str
) -> Chosen:
    """Choose the windows.

    Args:
        store: the run.
        gpus: activities by GPU.
        processes: process by GPU.
        window: the user's choice, ``auto`` for none.

    Raises:
        UsageError: if the choice cannot be understood or matches nothing.
    """
    kind, _, value = window.partition(":")
    if kind == "all" and not value:
        return Chosen("whole_trace", {gpu: whole_trace(gpus[gpu]) for gpu in gpus})
    if kind == "ns" and value:
        span = _span(value, window)
        return Chosen("user", {gpu: given_span(gpus[gpu], span) for gpu in gpus})
    if kind == "nvtx" and value:
        marks = {gpu: named_marks(store, processes[gpu], value) for gpu in gpus}
        if not any(marks.values()):
            raise UsageError(f"--window {window}: no range of that name in the trace")
        return _from_marks(store, gpus, processes, marks, "user")
    if kind == "steps" and value:
        return _some_steps(store, gpus, processes, window)
    if window != "auto":
        raise UsageError(f"--window {window}: not understood", hint=_HINT)
    return _automatic(store, gpus, processes)


def _automatic(store: Store, gpus: dict[int, Activities], processes: dict[int, int]) -> Chosen:
    found = {gpu: step_marks(store, processes[gpu]) for gpu in gpus}
    source = next((source for marks, source in found.values() if marks), "")
    marks = {gpu: marks for gpu, (marks, _) in found.items()}
    launched = all(gpus[gpu].launched.any() for gpu in gpus)
    if all(marks.values()) and launched:
        return _from_marks(store, gpus, processes, marks, source)
    chosen = Chosen("whole_trace", {gpu: whole_trace(gpus[gpu]) for gpu in gpus}, "medium")
    if any(marks.values()):
        lacking = "launch calls" if all(marks.values()) else "marks on every rank"
        chosen.notes.append(f"steps are marked, but {lacking} are missing: whole trace analysed")
    else:
        chosen.notes.append("no step marks in the trace: whole trace analysed, not steps")
    return chosen


def _some_steps(
    store: Store, gpus: dict[int, Activities], processes: dict[int, int], window: str
) -> Chosen:
    chosen = _automatic(store, gpus, processes)
    first, last = _span(window.partition(":")[2], window)
    if chosen.source == "whole_trace":
        raise UsageError(
            f"--window {window}: no steps are marked", hint="use --window all or ns:A-B"
        )
    for windows in chosen.windows.values():
        for step in windows.steps:
            if step.step is None or not first <= step.step <= last:
                step.reason = step.reason or "not asked for"
    usable = {
        step.step
        for windows in chosen.windows.values()
        for step in windows.steps
        if not step.reason
    }
    if not usable:
        known = sorted({str(s.step) for w in chosen.windows.values() for s in w.steps})
        raise UsageError(
            f"--window {window}: no complete step in that range",
            hint=f"marked steps: {', '.join(known)}; the last one has no end on the GPU",
        )
    chosen.source = "user"
    return chosen


def _from_marks(
    store: Store,
    gpus: dict[int, Activities],
    processes: dict[int, int],
    marks: dict[int, list[Mark]],
    source: str,
) -> Chosen:
    windows = {}
    for gpu, activities in gpus.items():
        first = marks[gpu][0]
        compiled = len(marks[gpu]) > 1 and compiled_in(store, processes[gpu], first)
        windows[gpu] = step_windows(activities, marks[gpu], compiled)
    chosen = Chosen(source, windows)
    _same_steps(store, chosen)
    if not any(not step.reason for step in next(iter(windows.values())).steps):
        return Chosen(
            "whole_trace",
            {gpu: whole_trace(gpus[gpu]) for gpu in gpus},
            "low",
            ["no marked step is complete on every rank: whole trace analysed"],
        )
    _grade(chosen, marks)
    return chosen


def _same_steps(store: Store, chosen: Chosen) -> None:
    """Keep only steps that every rank has: job figures need the same work on each."""
    ranks = dict(store.rows("SELECT gpu, rank FROM raw.gpu"))
    usable = {
        gpu: {step.step for step in windows.steps if not step.reason}
        for gpu, windows in chosen.windows.items()
    }
    common = set.intersection(*usable.values())
    for windows in chosen.windows.values():
        for step in windows.steps:
            if not step.reason and step.step not in common:
                lacking = sorted(
                    ranks[gpu] for gpu, steps in usable.items() if step.step not in steps
                )
                step.reason = f"not complete on rank {', '.join(map(str, lacking[:4]))}"


def _grade(chosen: Chosen, marks: dict[int, list[Mark]]) -> None:
    counts = [sum(not step.reason for step in w.steps) for w in chosen.windows.values()]
    if min(len(found) for found in marks.values()) == 1:
        chosen.confidence = "low"
        chosen.notes.append("one marked step only: it is taken up to its last activity")
    elif min(counts) == 1:
        chosen.confidence = "medium"
        chosen.notes.append("one complete step only: nothing shows how much steps vary")
    for gpu, windows in chosen.windows.items():
        drift = _drift(windows.steps, marks[gpu])
        if drift:
            chosen.confidence = "medium"
            chosen.notes.append(drift)
            return


def _drift(steps: list[Step], marks: list[Mark]) -> str:
    lengths = sorted(step.end_ns - step.start_ns for step in steps if not step.reason)
    starts = [mark.start_ns for mark in marks]
    periods = sorted(after - before for before, after in pairwise(starts))
    if len(lengths) < _STEPS_TO_COMPARE:
        return ""
    window_ns, period_ns = lengths[len(lengths) // 2], periods[len(periods) // 2]
    if abs(window_ns - period_ns) <= _DRIFT_FRAC * period_ns:
        return ""
    return (
        f"steps take {window_ns / 1e6:.3f} ms on the GPU but are {period_ns / 1e6:.3f} ms apart on "
        "the host (medians): the profile perturbs the run, or the marks are not steps"
    )


def _span(value: str, window: str) -> tuple[int, int]:
    found = _SPAN.fullmatch(value)
    numbers = [int(found.group(1)), int(found.group(2))] if found else []
    if not found and value.lstrip("-").isdecimal():
        numbers = [int(value), int(value)]
    if len(numbers) != 2 or numbers[0] > numbers[1] or max(map(abs, numbers)) >= 2**62:
        raise UsageError(f"--window {window}: not a range", hint=_HINT)
    return numbers[0], numbers[1]
