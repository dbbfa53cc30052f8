"""Partition the analysed window of every GPU, check that it sums, and write it to the store."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tracelens.attribution.activities import Activities, load_activities
from tracelens.attribution.awaited import find_awaited
from tracelens.attribution.choose import Chosen, choose_windows
from tracelens.attribution.concurrency import find_concurrency, hidden_time
from tracelens.attribution.everywhere import name_shared_causes
from tracelens.attribution.host import load_host_activity
from tracelens.attribution.identities import check_partition
from tracelens.attribution.idle import (
    BY_SYNC,
    IDLE_LEAVES,
    Evidence,
    IdleCauses,
    IdlePieces,
    calibrate,
    find_enders,
)
from tracelens.attribution.silence import name_silence
from tracelens.attribution.sweep import Awaited, Segments, Sweep, union_gaps
from tracelens.attribution.windows import Step, Windows
from tracelens.errors import AbstainedError
from tracelens.store import Store
from tracelens.taxonomy import kind_of_leaf

Array = np.ndarray[Any, Any]

_GRAPH_LAUNCHES = """
SELECT name_id FROM raw.host_label WHERE target = 'call' AND label = 'graph_launch'
"""


@dataclass(frozen=True)
class _Gpu:
    number: int
    process: int
    activities: Activities


def attribute(store: Store, window: str = "auto") -> None:
    """Fill ``raw.step``, ``raw.activity_step``, ``raw.segment`` and what ran together.

    Args:
        store: ingested, linked and classified.
        window: ``auto``, ``all``, ``steps:A-B``, ``nvtx:NAME`` or ``ns:A-B``.

    Raises:
        IdentityError: if segments do not sum to the window, to the nanosecond.
        UsageError: if the window cannot be understood or matches nothing.
    """
    gpus = [
        _Gpu(number, process, load_activities(store, number))
        for number, process in store.rows("SELECT gpu, process FROM raw.gpu ORDER BY gpu")
    ]
    gpus = [gpu for gpu in gpus if len(gpu.activities.start_ns)]
    chosen = choose_windows(
        store,
        {gpu.number: gpu.activities for gpu in gpus},
        {gpu.number: gpu.process for gpu in gpus},
        window,
    )
    if not any(step.end_ns > step.start_ns for w in chosen.windows.values() for step in w.steps):
        raise AbstainedError("the window holds no time: every GPU activity lasts 0 ns")
    for gpu in gpus:
        windows = chosen.windows[gpu.number]
        _write_steps(store, gpu, windows)
        _partition(store, gpu, [step for step in windows.steps if not step.reason])
    name_silence(store)
    name_shared_causes(store)
    _write_window(store, chosen)
    store.put_result("identities", check_partition(store))


def _partition(store: Store, gpu: _Gpu, steps: list[Step]) -> None:
    causes = _idle_causes(store, gpu)
    awaited = find_awaited(store, gpu.number, gpu.activities)
    for stretch in _stretches(steps):
        _partition_stretch(store, gpu, stretch, causes, awaited)


def _stretches(steps: list[Step]) -> list[list[Step]]:
    """Join steps that follow each other without a gap: idle time may reach across them."""
    stretches: list[list[Step]] = []
    for step in steps:
        if step.end_ns <= step.start_ns:
            continue
        if stretches and stretches[-1][-1].end_ns == step.start_ns:
            stretches[-1].append(step)
        else:
            stretches.append([step])
    return stretches


def _partition_stretch(
    store: Store, gpu: _Gpu, steps: list[Step], causes: IdleCauses, awaited: Awaited
) -> None:
    activities = gpu.activities
    span = (steps[0].start_ns, steps[-1].end_ns)
    cuts = np.array([step.start_ns for step in steps], dtype=np.int64)
    sweep = Sweep(activities.start_ns, activities.end_ns, activities.kind, span, cuts)
    segments = sweep.owners(awaited)
    busy = segments.owner >= 0
    idle = _joined_gaps(segments)
    pieces = causes.split(find_enders(activities, *idle, last_ns=span[1]))
    pieces = _cut_at(pieces, cuts)
    _write_busy(store, gpu, segments, busy, steps, cuts)
    _write_idle(store, gpu, pieces, steps, cuts)
    _write_concurrency(store, gpu, sweep, steps, cuts)


def _joined_gaps(segments: Segments) -> tuple[Array, Array]:
    """Idle segments as whole gaps: a step boundary inside one does not split its cause."""
    idle = segments.owner < 0
    start, end = segments.start_ns[idle], segments.end_ns[idle]
    if not len(start):
        return start, end
    first = np.concatenate([[True], start[1:] != end[:-1]])
    last = np.concatenate([first[1:], [True]])
    return start[first], end[last]


def _cut_at(pieces: IdlePieces, cuts: Array) -> IdlePieces:
    low = np.searchsorted(cuts, pieces.start_ns, side="right")
    high = np.searchsorted(cuts, pieces.end_ns, side="left")
    count = high - low + 1
    source = np.repeat(np.arange(len(count)), count)
    offset = np.cumsum(count) - count
    place = np.arange(len(source)) - np.repeat(offset, count)
    cut = np.append(cuts, cuts[-1])
    start = np.where(place > 0, cut[low[source] + place - 1], pieces.start_ns[source])
    end = np.where(place < count[source] - 1, cut[low[source] + place], pieces.end_ns[source])
    return IdlePieces(start, end, pieces.leaf[source], pieces.ender[source], pieces.by_sync[source])


def _idle_causes(store: Store, gpu: _Gpu) -> IdleCauses:
    activities = gpu.activities
    real = activities.end_ns > activities.start_ns
    whole = union_gaps(activities.start_ns[real], activities.end_ns[real])
    last_ns = int(activities.end_ns.max())
    found = calibrate(activities, find_enders(activities, *whole, last_ns=last_ns))
    threads = [int(thread) for thread in np.unique(activities.thread) if thread >= 0]
    host = load_host_activity(store, gpu.process, threads)
    store.append(
        "calibration",
        {
            "gpu": [gpu.number] * 2,
            "name": ["kappa", "lambda"],
            "value_ns": [found.kappa_ns, found.lambda_ns],
            "samples": [found.kappa_samples, found.lambda_samples],
        },
    )
    return IdleCauses(activities, host, found.kappa_ns, _evidence(store, gpu))


def _evidence(store: Store, gpu: _Gpu) -> Evidence:
    activities = gpu.activities
    graph_names = [name for (name,) in store.rows(_GRAPH_LAUNCHES)]
    graph_call = np.isin(activities.call_name_id, graph_names) & activities.launched
    # Activities are in time order: the first of a call that takes time is its first node. A
    # correlation id would not do as the key, for it may be used again.
    real = np.flatnonzero(activities.end_ns > activities.start_ns)
    first = np.zeros(len(activities.call_id), bool)
    first[real[np.unique(activities.call_id[real], return_index=True)[1]]] = True
    order = np.argsort(activities.launch_start_ns, kind="stable")
    order = order[activities.is_kernel[order]]
    first_of_name = np.zeros(len(first), bool)
    first_of_name[order[np.unique(activities.name_id[order], return_index=True)[1]]] = True
    waits = store.arrays(
        "SELECT stream, start_ns FROM raw.stream_wait "
        "WHERE gpu = ? AND stream IS NOT NULL ORDER BY start_ns",
        [gpu.number],
    )
    return Evidence(
        ~first & activities.launched,
        graph_call,
        first_of_name,
        waits["stream"],
        waits["start_ns"],
    )


def _write_steps(store: Store, gpu: _Gpu, windows: Windows) -> None:
    steps = windows.steps
    store.append(
        "step",
        {
            "gpu": [gpu.number] * len(steps),
            "step": pa.array([step.step for step in steps], pa.int64()),
            "start_ns": [step.start_ns for step in steps],
            "end_ns": [step.end_ns for step in steps],
            "included": [not step.reason for step in steps],
            "reason": pa.array([step.reason or None for step in steps], pa.string()),
        },
    )
    member = windows.activity_step
    numbers = np.array([-1 if step.step is None else step.step for step in steps], np.int64)
    chosen = member >= 0
    store.append(
        "activity_step",
        {
            "activity_id": gpu.activities.activity_id[chosen],
            "step": numbers[member[chosen]],
        },
    )


def _step_numbers(steps: list[Step], cuts: Array, start_ns: Array) -> pa.Array:
    numbers = np.array([-1 if step.step is None else step.step for step in steps], np.int64)
    place = np.searchsorted(cuts, start_ns, side="right") - 1
    values = numbers[place]
    return pa.array(values, mask=values < 0)


def _write_busy(
    store: Store, gpu: _Gpu, segments: Segments, busy: Array, steps: list[Step], cuts: Array
) -> None:
    owner = segments.owner[busy]
    leaf = gpu.activities.leaf[owner]
    store.append(
        "segment",
        {
            "gpu": np.full(len(owner), gpu.number, np.int32),
            "step": _step_numbers(steps, cuts, segments.start_ns[busy]),
            "start_ns": segments.start_ns[busy],
            "end_ns": segments.end_ns[busy],
            "leaf": _texts(leaf, gpu.activities.leaves),
            "activity_id": gpu.activities.activity_id[owner],
        },
    )


def _write_idle(
    store: Store, gpu: _Gpu, pieces: IdlePieces, steps: list[Step], cuts: Array
) -> None:
    ended = pieces.ender >= 0
    ender = np.maximum(pieces.ender, 0)
    call = gpu.activities.call_id[ender]
    store.append(
        "segment",
        {
            "gpu": np.full(len(ender), gpu.number, np.int32),
            "step": _step_numbers(steps, cuts, pieces.start_ns),
            "start_ns": pieces.start_ns,
            "end_ns": pieces.end_ns,
            "leaf": _texts(pieces.leaf, IDLE_LEAVES),
            "activity_id": pa.array(gpu.activities.activity_id[ender], mask=~ended),
            "call_id": pa.array(call, mask=~ended | (call < 0)),
            "detail": pa.array(np.where(pieces.by_sync, BY_SYNC, ""), mask=~pieces.by_sync),
        },
    )


def _write_concurrency(
    store: Store, gpu: _Gpu, sweep: Sweep, steps: list[Step], cuts: Array
) -> None:
    leaves = gpu.activities.leaves
    together = find_concurrency(sweep, gpu.activities.leaf, len(leaves), cuts)
    hidden = hidden_time(together, np.array([int(kind_of_leaf(leaf)) for leaf in leaves]))
    store.append(
        "hidden",
        {
            "gpu": np.full(len(hidden.dur_ns), gpu.number, np.int32),
            "class_leaf": _texts(hidden.loser, leaves),
            "by_leaf": _texts(hidden.winner, leaves),
            "dur_ns": hidden.dur_ns,
        },
    )
    store.append(
        "concurrency",
        {
            "gpu": np.full(len(together.dur_ns), gpu.number, np.int32),
            "step": _step_numbers(steps, cuts, cuts[together.part]),
            "active": pa.array(
                [sorted(np.array(leaves)[row].tolist()) for row in together.active],
                pa.list_(pa.string()),
            ),
            "owner_leaf": pa.array(
                [leaves[code] if code >= 0 else None for code in together.owner], pa.string()
            ),
            "dur_ns": together.dur_ns,
        },
    )


def _texts(code: Array, names: tuple[str, ...]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(
        pa.array(code, pa.int32()), pa.array(names, pa.string())
    ).cast(pa.string())


def _write_window(store: Store, chosen: Chosen) -> None:
    every = [step for windows in chosen.windows.values() for step in windows.steps]
    steps = sorted({s.step for s in every if s.step is not None and not s.reason})
    excluded: dict[int, str] = {}
    for step in every:
        # What a rank says of its own step beats what others say of that rank.
        if step.step is not None and step.reason:
            known = excluded.get(step.step, "on rank")
            excluded[step.step] = step.reason if known.startswith("on rank") else known
    store.put_result(
        "window",
        {
            "source": chosen.source,
            "steps": steps,
            "excluded_steps": [
                {"step": step, "reason": excluded[step]} for step in sorted(excluded)
            ],
            "confidence": chosen.confidence,
            "note": "; ".join(chosen.notes) or None,
            "are_steps": chosen.are_steps,
        },
    )
    for note in chosen.notes:
        store.append("note", {"severity": ["warning"], "text": [note]})
