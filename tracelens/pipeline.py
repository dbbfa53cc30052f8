"""The order of the stages, and nothing else."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tracelens.attribution import attribute as partition
from tracelens.attribution import charge_waits
from tracelens.attribution.compat_hta import HtaBreakdown, hta_breakdown
from tracelens.classify import classify
from tracelens.classify.hta import hta_class
from tracelens.comm import compare_ranks, describe_collectives, summarize_collectives
from tracelens.flops import (
    FlopsOptions,
    assign_flops,
    borrow_flops,
    close_account,
    find_recompute,
    place_activities,
)
from tracelens.ingest import ImportOptions, find_inputs, link_activities, load, passed_over
from tracelens.ingest.chrome.hta_events import read_hta_events
from tracelens.store import Store


def _silent(_stage: str) -> None:
    """Tell nobody which stage runs."""


@dataclass(frozen=True)
class Options:
    """What a user may say about an analysis; every field has a default.

    Attributes:
        window: ``auto``, ``all``, ``steps:A-B``, ``nvtx:NAME`` or ``ns:A-B``.
        rank_pattern: regular expression with one group that finds the rank in a path.
        reading: how files are read.
        flops: what is known of the model and the device.
        gpu_hour_price: money for an hour of one GPU, in any currency.
        on_stage: called with the name of each stage as it begins.
    """

    window: str = "auto"
    rank_pattern: str | None = None
    reading: ImportOptions = field(default_factory=ImportOptions)
    flops: FlopsOptions = field(default_factory=FlopsOptions)
    gpu_hour_price: float | None = None
    on_stage: Callable[[str], None] = _silent


def analyze(paths: Sequence[str | Path], store: Store, options: Options | None = None) -> None:
    """Take the files of one run from bytes to a closed account.

    Args:
        paths: files, folders or globs; several files are the ranks of one run.
        store: empty; holds everything afterwards.
        options: what the user said.

    Raises:
        TraceLensError: of the kind that says what is wrong and what to do.
    """
    options = options or Options()
    options.on_stage("reading")
    found = find_inputs(paths)
    load(found, store, options.reading, rank_pattern=options.rank_pattern)
    for remark in passed_over(paths, found):
        store.append("note", {"severity": ["warning"], "text": [remark]})
    options.on_stage("linking")
    link_activities(store)
    options.on_stage("classifying")
    classify(store)
    describe_collectives(store)
    options.on_stage("counting FLOPs")
    assign_flops(store)
    find_recompute(store)
    borrow_flops(store)
    options.on_stage("attributing")
    partition(store, options.window)
    options.on_stage("comparing ranks")
    compare_ranks(store)
    charge_waits(store)
    summarize_collectives(store)
    place_activities(store)
    options.on_stage("closing the account")
    close_account(store, options.flops)
    if options.gpu_hour_price is not None:
        store.put_result("price", {"gpu_hour_price": options.gpu_hour_price})


def compare_with_hta(paths: Sequence[str | Path]) -> dict[Path, HtaBreakdown | None]:
    """Return the figures that HolisticTraceAnalysis gives for Chrome traces, file by file.

    Nothing of it enters an account: HTA looks at other events, and rounds.

    Args:
        paths: files, folders or globs; several files are the ranks of one run.

    Raises:
        TraceLensError: of the kind that says what is wrong and what to do.
    """
    traces = [read_hta_events(path) for path in find_inputs(paths)]
    steps = set().union(*(trace.step_names for trace in traces))
    found = {}
    for trace in traces:
        kept = trace.kept(drop_last_step=len(steps) > 1)
        start_us, end_us = trace.times_us()
        kind = np.array([hta_class(name) for name in trace.names], str)
        found[trace.path] = hta_breakdown(start_us[kept], end_us[kept], kind[kept])
    return found
