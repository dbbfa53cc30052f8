"""Do the scenarios really hold the rules? Each broken rule must be caught by a named scenario."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from laboratory import Laboratory, attributed, expected, folded

from tracelens.attribution import (
    activities,
    choose,
    host,
    idle,
    marks,
    stage,
    sweep,
    windows,
)
from tracelens.taxonomy import Kind, kind_of_leaf

Patch = Callable[[Any, str, Any], None]


def always(value: Any) -> Callable[..., Any]:
    return lambda *_args, **_kwargs: value


# Precedence.


def communication_before_compute(patch: Patch) -> None:
    def swapped(leaf: str) -> Kind:
        kind = kind_of_leaf(leaf)
        return {Kind.COMM: Kind.COMPUTE, Kind.COMPUTE: Kind.COMM, Kind.FLOP: Kind.COMM}.get(
            kind, kind
        )

    patch(activities, "kind_of_leaf", swapped)


def copies_do_not_count(patch: Patch) -> None:
    patch(
        activities,
        "kind_of_leaf",
        lambda leaf: Kind.IDLE if leaf.startswith("mem.") else kind_of_leaf(leaf),
    )


def shared_time_is_given_to_nobody(patch: Patch) -> None:
    original = sweep.Sweep._share

    def lost(self: Any, segments: Any, owner: Any) -> Any:
        found = original(self, segments, owner)
        return dataclasses.replace(found, owner=np.full_like(found.owner, -1))

    patch(sweep.Sweep, "_share", lost)


def recompute_is_ignored(patch: Patch) -> None:
    original = activities.leaf_of
    patch(
        activities,
        "leaf_of",
        lambda name, dimension, *, recomputed: original(name, dimension, recomputed=False),
    )


# Windows.


def the_last_step_counts(patch: Patch) -> None:
    patch(windows, "NO_NEXT", "")


def steps_are_what_the_host_marks(patch: Patch) -> None:
    def tile(found: Any, *_: Any) -> Any:
        return [windows.Step(mark.step, mark.start_ns, mark.end_ns) for mark in found]

    patch(windows, "_tile", tile)


def windows_are_off_by_one_step(patch: Patch) -> None:
    original = windows._boundaries
    patch(windows, "_boundaries", lambda *args: [None, *original(*args)[:-1]])


def copies_begin_steps(patch: Patch) -> None:
    original = windows._boundaries

    def any_activity(found: Any, member: Any, count: int) -> Any:
        everything = dataclasses.replace(found, kind=np.zeros_like(found.kind))
        return original(everything, member, count)

    patch(windows, "_boundaries", any_activity)


def a_primed_first_step_counts(patch: Patch) -> None:
    patch(windows, "_first_step_reason", always(""))


# Idle.


def relabel(patch: Patch, old: str, new: str) -> None:
    code = dict(idle._CODE)
    code[old] = code[new]
    patch(idle, "_CODE", code)


def launch_latency_is_dispatch(patch: Patch) -> None:
    relabel(patch, "gap.launch_latency", "host.dispatch")


def nobody_waits_for_the_gpu(patch: Patch) -> None:
    patch(host.HostActivity, "drained_at", lambda _self, _thread, at_ns: np.zeros(len(at_ns), bool))


def the_launching_thread_alone_can_wait(patch: Patch) -> None:
    def own(self: Any, thread: int, at_ns: Any) -> Any:
        return host._inside(self.blocking.get(thread, host._NO_SPANS), at_ns)

    patch(host.HostActivity, "drained_at", own)


def no_gap_is_ordinary(patch: Patch) -> None:
    original = idle.calibrate
    patch(
        stage,
        "calibrate",
        lambda *args: dataclasses.replace(original(*args), kappa_ns=0),
    )


def evidence(patch: Patch, **changed: Callable[[Any], Any]) -> None:
    original = stage._evidence

    def broken(*args: Any) -> Any:
        found = original(*args)
        return dataclasses.replace(
            found, **{name: change(getattr(found, name)) for name, change in changed.items()}
        )

    patch(stage, "_evidence", broken)


def graphs_have_no_followers(patch: Patch) -> None:
    evidence(patch, graph_follower=np.zeros_like)


def no_stream_waits(patch: Patch) -> None:
    evidence(patch, wait_stream=lambda _: np.empty(0, np.int64))


def no_launch_is_the_first(patch: Patch) -> None:
    evidence(patch, first_of_name=np.zeros_like)


def correlation_ids_are_keys(patch: Patch) -> None:
    original = stage.load_activities

    def merged(store: Any, gpu: int) -> Any:
        found = original(store, gpu)
        rows = dict(
            store.rows(
                "SELECT activity_id, min(call_id) OVER (PARTITION BY a.process, a.correlation) "
                "FROM raw.activity AS a JOIN raw.link USING (activity_id)"
            )
        )
        call = np.array([rows[int(activity)] for activity in found.activity_id])
        return dataclasses.replace(found, call_id=np.where(found.call_id >= 0, call, -1))

    patch(stage, "load_activities", merged)


def long_calls_are_latency(patch: Patch) -> None:
    patch(idle, "IN_CALL_NS", 2**60)


def silence_is_dispatch(patch: Patch) -> None:
    patch(idle, "UNRECORDED_NS", 2**60)


def missing_launches_are_queued(patch: Patch) -> None:
    original = stage.load_activities

    def launched(store: Any, gpu: int) -> Any:
        found = original(store, gpu)
        return dataclasses.replace(found, call_id=np.maximum(found.call_id, 0))

    patch(stage, "load_activities", launched)


def without_label(patch: Patch, label: str) -> None:
    names = tuple(name if name != label else f"no {label}" for name in host.LABELS)
    patch(host, "LABELS", names)


def no_slow_calls(patch: Patch) -> None:
    patch(host, "_SLOW_CALL_NS", 2**60)


def calls_in_calls_count(patch: Patch) -> None:
    patch(host, "_inside_calls", lambda start, *_: np.zeros(len(start), bool))


def compilation_is_nowhere(patch: Patch) -> None:
    patch(choose, "compiled_in", always(False))
    patch(marks, "compiled_in", always(False))


def no_loader(patch: Patch) -> None:
    without_label(patch, "dataloader")


def no_garbage(patch: Patch) -> None:
    without_label(patch, "gc")


def no_allocator(patch: Patch) -> None:
    without_label(patch, "alloc")


def no_checkpoint(patch: Patch) -> None:
    without_label(patch, "ckpt")


def no_profiler(patch: Patch) -> None:
    without_label(patch, "profiler")


MUTATIONS = [
    (communication_before_compute, "S09", "kineto"),
    (copies_do_not_count, "single_gpu", "kineto"),
    (shared_time_is_given_to_nobody, "S38", "kineto"),
    (recompute_is_ignored, "S22", "kineto"),
    (the_last_step_counts, "S02", "kineto"),
    (steps_are_what_the_host_marks, "S06", "kineto"),
    (windows_are_off_by_one_step, "host_gc", "kineto"),
    (copies_begin_steps, "host_slow_copy", "kineto"),
    (a_primed_first_step_counts, "S42", "kineto"),
    (launch_latency_is_dispatch, "S02", "nsys"),
    (nobody_waits_for_the_gpu, "S05", "kineto"),
    (the_launching_thread_alone_can_wait, "host_sync_before_backward", "kineto"),
    (no_gap_is_ordinary, "S02", "kineto"),
    (graphs_have_no_followers, "S34", "kineto"),
    (no_stream_waits, "host_dependency", "kineto"),
    (no_launch_is_the_first, "host_lazy_loading", "kineto"),
    (correlation_ids_are_keys, "S43_repeated_ids", "kineto"),
    (long_calls_are_latency, "host_lazy_loading", "nsys"),
    (silence_is_dispatch, "host_pause", "kineto"),
    (missing_launches_are_queued, "S43", "kineto"),
    (no_slow_calls, "host_slow_api", "kineto"),
    (calls_in_calls_count, "host_os_in_calls", "nsys"),
    (compilation_is_nowhere, "host_compile", "kineto"),
    (no_loader, "S07", "kineto"),
    (no_garbage, "host_gc", "nsys"),
    (no_allocator, "S35", "kineto"),
    (no_checkpoint, "S36", "kineto"),
    (no_profiler, "S37", "kineto"),
]


@pytest.mark.parametrize(
    ("mutate", "scenario", "family"),
    MUTATIONS,
    ids=[f"{mutate.__name__}-{scenario}" for mutate, scenario, _ in MUTATIONS],
)
def test_a_broken_rule_is_caught(
    lab: Laboratory,
    monkeypatch: pytest.MonkeyPatch,
    mutate: Callable[[Patch], None],
    scenario: str,
    family: str,
) -> None:
    """What is right without the mutation and wrong with it, the mutated code decided."""
    made = lab.made(scenario, family)
    truth = folded(expected(made.truth, family))
    assert folded(lab.answer(scenario, family)["time"]["leaves"]) == truth
    mutate(monkeypatch.setattr)
    assert folded(attributed(*made.traces)["time"]["leaves"]) != truth
