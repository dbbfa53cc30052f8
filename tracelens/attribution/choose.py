"""Which windows are analyzed: what the user asked for, else marks, else the whole trace."""

import re
from dataclasses import dataclass, field
from itertools import pairwise

from tracelens.attribution.activities import Activities
from tracelens.attribution.marks import (
    compiled_in,
    named_marks,
    optimizer_ranges,
    step_marks,
)
from tracelens.attribution.repetition import PARTIAL, optimizer_marks, repeating_windows
from tracelens.attribution.windows import (
    Mark,
    Step,
    Windows,
    given_span,
    range_windows,
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
        source: profiler_step, nvtx, optimizer, autocorrelation, whole_trace or user.
        windows: by GPU.
        confidence: high, medium or low.
        notes: what a reader must know about the choice.
        marks: host marks by GPU; empty when steps do not come from marks.
        are_steps: whether each window is one optimizer step.
    """

    source: str
    windows: dict[int, Windows]
    confidence: str = "high"
    notes: list[str] = field(default_factory=list)
    marks: dict[int, list[Mark]] = field(default_factory=dict)
    are_steps: bool = False


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
        for activities in gpus.values():
            first, last = activities.start_ns.min(), activities.end_ns.max()
            if span[1] <= first or span[0] >= last:
                raise UsageError(
                    f"--window {window}: no GPU activity in it; they lie within {first}-{last} ns"
                )
        return Chosen("user", {gpu: given_span(gpus[gpu], span) for gpu in gpus})
    if kind == "nvtx" and value:
        marks = {gpu: named_marks(store, processes[gpu], value) for gpu in gpus}
        return _projected(store, gpus, marks, window)
    if kind == "steps" and value:
        return _some_steps(store, gpus, processes, window)
    if window != "auto":
        raise UsageError(f"--window {window}: not understood", hint=_HINT)
    return _automatic(store, gpus, processes)


def _projected(
    store: Store, gpus: dict[int, Activities], marks: dict[int, list[Mark]], window: str
) -> Chosen:
    """Windows of a range that the user named: from its first to its last activity on the GPU."""
    ranks = dict(store.rows("SELECT gpu, rank FROM raw.gpu"))
    lacking = sorted(ranks[gpu] for gpu, found in marks.items() if not found)
    if lacking:
        where = ", ".join(map(str, lacking))
        raise UsageError(f"--window {window}: no range of that name on rank {where}")
    windows = {gpu: range_windows(gpus[gpu], marks[gpu]) for gpu in gpus}
    chosen = Chosen("user", windows)
    _same_steps(store, chosen)
    if not _has_steps(chosen):
        raise UsageError(f"--window {window}: nothing was launched inside that range")
    chosen.notes.append(f"window: what was launched inside the range {window.partition(':')[2]!r}")
    return chosen


def _automatic(
    store: Store, gpus: dict[int, Activities], processes: dict[int, int], *, graded: bool = True
) -> Chosen:
    found = {gpu: step_marks(store, processes[gpu]) for gpu in gpus}
    source = next((source for marks, source in found.values() if marks), "")
    marks = {gpu: marks for gpu, (marks, _) in found.items()}
    launched = all(gpus[gpu].launched.any() for gpu in gpus)
    if all(marks.values()) and launched:
        chosen = _from_marks(store, gpus, processes, marks, source)
        if graded:
            _grade(chosen)
        return chosen
    if not any(marks.values()):
        unmarked = _by_optimizer(store, gpus, processes) or _by_repetition(store, gpus)
        if unmarked is not None:
            if graded:
                _grade(unmarked)
            return unmarked
    chosen = Chosen("whole_trace", {gpu: whole_trace(gpus[gpu]) for gpu in gpus}, "medium")
    if any(marks.values()):
        lacking = "launch calls" if all(marks.values()) else "marks on every rank"
        chosen.notes.append(f"steps are marked, but {lacking} are missing: whole trace analyzed")
    else:
        chosen.notes.append("no step marks in the trace: whole trace analyzed, not steps")
    return chosen


def _by_optimizer(
    store: Store, gpus: dict[int, Activities], processes: dict[int, int]
) -> Chosen | None:
    """Steps between runs of the optimizer; the first is cut off by the start of the recording."""
    marks = {
        gpu: optimizer_marks(gpus[gpu], optimizer_ranges(store, processes[gpu])) for gpu in gpus
    }
    if not all(marks.values()):
        return None
    chosen = Chosen("optimizer", {}, "medium", are_steps=True, marks=marks)
    for gpu, activities in gpus.items():
        chosen.windows[gpu] = step_windows(activities, marks[gpu], compiled_first=False)
        first = chosen.windows[gpu].steps[0]
        first.reason = first.reason or PARTIAL
    _same_steps(store, chosen)
    return chosen if _has_steps(chosen) else None


def _by_repetition(store: Store, gpus: dict[int, Activities]) -> Chosen | None:
    """Windows between repetitions of the kernel sequence; whether they are steps is not known.

    Only where something shows training: what repeats in a trace of inference is a layer or a token.
    """
    if not store.scalar("SELECT EXISTS (SELECT 1 FROM raw.host_label WHERE label = 'backward')"):
        return None
    windows = {}
    for gpu, activities in gpus.items():
        found = repeating_windows(activities)
        if found is None:
            return None
        windows[gpu] = found
    chosen = Chosen("autocorrelation", windows, "low")
    chosen.notes.append(
        "no step marks: windows are periods of the kernel sequence, which may be micro-batches"
    )
    _same_steps(store, chosen)
    return chosen if _has_steps(chosen) else None


def _has_steps(chosen: Chosen) -> bool:
    return any(not step.reason for step in next(iter(chosen.windows.values())).steps)


def _some_steps(
    store: Store, gpus: dict[int, Activities], processes: dict[int, int], window: str
) -> Chosen:
    chosen = _automatic(store, gpus, processes, graded=False)
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
        every = {s.step for w in chosen.windows.values() for s in w.steps if s.step is not None}
        known = [str(step) for step in sorted(every)]
        raise UsageError(
            f"--window {window}: no complete step in that range",
            hint=f"marked steps: {', '.join(known)}; the last one has no end on the GPU",
        )
    chosen.source = "user"
    _grade(chosen)
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
    chosen = Chosen(source, windows, are_steps=True)
    _same_steps(store, chosen)
    if not _has_steps(chosen):
        return Chosen(
            "whole_trace",
            {gpu: whole_trace(gpus[gpu]) for gpu in gpus},
            "low",
            ["no marked step is complete on every rank: whole trace analyzed"],
        )
    chosen.marks = marks
    return chosen


def _same_steps(store: Store, chosen: Chosen) -> None:
    """Keep only steps that every rank has: job figures need the same work on each."""
    ranks = dict(store.rows("SELECT gpu, rank FROM raw.gpu"))
    usable = {
        gpu: {step.step for step in windows.steps if not step.reason}
        for gpu, windows in chosen.windows.items()
    }
    reasons = {
        (gpu, step.step): step.reason
        for gpu, windows in chosen.windows.items()
        for step in windows.steps
    }
    common = set.intersection(*usable.values())
    for windows in chosen.windows.values():
        for step in windows.steps:
            if not step.reason and step.step not in common:
                lacking = sorted(
                    (ranks[gpu], reasons.get((gpu, step.step), "not marked there"))
                    for gpu, steps in usable.items()
                    if step.step not in steps
                )
                rank, reason = lacking[0]
                others = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
                step.reason = f"on rank {rank}{others}: {reason}"


def _grade(chosen: Chosen) -> None:
    """Say how far the chosen steps can be trusted; a whole trace has its own grade."""
    if not chosen.marks:
        return
    used = {
        gpu: [step for step in windows.steps if not step.reason]
        for gpu, windows in chosen.windows.items()
    }
    if any(step.open_end for steps in used.values() for step in steps):
        chosen.confidence = "low"
        chosen.notes.append(
            "nothing marks the end of the step: it is taken up to its last activity"
        )
    elif min(len(steps) for steps in used.values()) == 1:
        chosen.confidence = "medium"
        chosen.notes.append("one complete step only: nothing shows how much steps vary")
    for gpu, steps in used.items():
        drift = _drift(steps, chosen.marks[gpu])
        if drift:
            chosen.confidence = "medium"
            chosen.notes.append(drift)
            return


def _drift(steps: list[Step], marks: list[Mark]) -> str:
    lengths = sorted(step.end_ns - step.start_ns for step in steps)
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
