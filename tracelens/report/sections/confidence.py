"""How well founded is a loss: its tag (measured, derived, inferred, assumed) and its grade?

Tags and grades are those of the accounting model: a slice inherits the weakest tag of its inputs,
and its grade is the least of what tag, coverage and repeatability allow.
"""

import statistics
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tracelens.report.sections.account import Account
from tracelens.store import Store

GRADES = ("low", "medium", "high")
_REPEATS = 3
_SPREAD = 0.10
_DILATION = 1.05
_RECONCILE_OK = 1.0
_RECONCILE_FAILED = 3.0

# How the dimension of a process group was found; what is not listed counts as a guess.
_DECLARED = frozenset({"description", "mesh"})
_CHECKED = frozenset({"mix"})
_MICROSECOND_NS = 1000
_CHECKED_LOSSES = frozenset(
    {
        "compute.recompute",
        "recompute_flop",
        "pp.bubble.structural",
        "ineff.quantisation",
        "ineff.sm_reserved",
        "ineff.contention",
    }
)
"""Inferred, and checked: tiles that the grid contradicts are not used."""


@dataclass(frozen=True)
class Grounds:
    """What the grades of all losses rest on."""

    per_step: Mapping[str, list[int]]
    segments: Mapping[str, int]
    dimension_sources: Mapping[str, set[str]]
    defaults: frozenset[str]
    single_rank: bool
    coarse_clock: bool
    graphs_by_node: bool
    dilated: bool
    residual_points: float | None
    has_two_counts: bool = True
    item_tags: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, store: Store, account: Account, sections: Mapping[str, Any]) -> "Grounds":
        """Gather the grounds from the store and from finished sections."""
        dilation = sections["workload"]["log"]["dilation"]
        return cls(
            per_step=_per_step(account),
            segments=dict(store.rows("SELECT leaf, count(*) FROM segment GROUP BY leaf")),
            dimension_sources=_dimension_sources(store),
            defaults=frozenset(
                name for (name,) in store.rows("SELECT name FROM raw.calibration WHERE samples = 0")
            ),
            single_rank=account.single_rank,
            coarse_clock=bool(
                store.scalar("SELECT max(resolution_ns) >= ? FROM input", [_MICROSECOND_NS])
            ),
            graphs_by_node=bool(
                store.scalar("SELECT coalesce(bool_or(format LIKE 'nsys%'), FALSE) FROM input")
            ),
            dilated=dilation is not None and dilation > _DILATION,
            residual_points=sections["flops"]["reconciliation"]["residual_points"],
            has_two_counts=sections["flops"]["source"] in {"config", "user"},
        )


def tag_of(loss: str, grounds: Grounds, given: str | None = None) -> str:
    """Return the tag of a loss; an item of the FLOP account brings its own."""
    root, _, rest = loss.partition(".")
    if root == "comm":
        dimension, _, part = rest.partition(".")
        split_by_guess = part != "undivided" and grounds.single_rank
        sources = grounds.dimension_sources.get(dimension, set())
        declared = bool(sources) and sources <= _DECLARED
        return "I" if split_by_guess or (dimension != "unknown" and not declared) else "M"
    if root == "pp" or loss in {"host.unlabelled", "host.compile", "compute.recompute"}:
        return "I"
    if root in {"compute", "opaque", "mem", "gap", "host", "idle"}:
        return "M"
    return given or "D"


def grade_of(loss: str, tag: str, grounds: Grounds) -> str:
    """Return high, medium or low."""
    ceilings = [_by_tag(loss, tag, grounds), _by_coverage(loss, grounds)]
    if loss in grounds.segments:
        ceilings.append(_by_repeats(loss, grounds))
    else:
        ceilings.append(_by_reconciliation(grounds))
    return min(ceilings, key=GRADES.index)


def _by_tag(loss: str, tag: str, grounds: Grounds) -> str:
    if tag in {"M", "D"}:
        return "high"
    if tag == "A":
        return "low"
    if loss.startswith("comm."):
        sources = grounds.dimension_sources.get(loss.split(".")[1], set())
        return "medium" if sources and sources <= _DECLARED | _CHECKED else "low"
    return "medium" if loss in _CHECKED_LOSSES else "low"


def _by_coverage(loss: str, grounds: Grounds) -> str:
    resolution_noise = grounds.coarse_clock and loss.startswith("gap.")
    default_threshold = (loss == "gap.kernel" and "kappa" in grounds.defaults) or (
        loss == "gap.launch_latency" and "lambda" in grounds.defaults
    )
    inflated = loss == "gap.graph" and grounds.graphs_by_node
    host_slowed = grounds.dilated and loss.startswith("host.")
    return "low" if resolution_noise or default_threshold or inflated or host_slowed else "high"


def _by_repeats(loss: str, grounds: Grounds) -> str:
    if grounds.segments[loss] <= 1:
        return "low"
    steps = grounds.per_step.get(loss, [])
    if len(steps) < _REPEATS or not sum(steps):
        return "medium"
    return "high" if statistics.pstdev(steps) / statistics.fmean(steps) < _SPREAD else "medium"


def _by_reconciliation(grounds: Grounds) -> str:
    residual = grounds.residual_points
    if residual is None or abs(residual) > _RECONCILE_FAILED:
        return "low"
    steps = max((len(series) for series in grounds.per_step.values()), default=0)
    # With shapes alone the residual is 0 by construction: nothing was checked against them.
    checked = grounds.has_two_counts and abs(residual) <= _RECONCILE_OK
    return "high" if checked and steps >= _REPEATS else "medium"


def _per_step(account: Account) -> dict[str, list[int]]:
    """Return, by leaf, its time in each step over all ranks; steps without it count as 0."""
    steps = {step for _, step, _, _ in account.rows}
    position = {step: index for index, step in enumerate(steps)}
    series: dict[str, list[int]] = defaultdict(lambda: [0] * len(steps))
    for _, step, leaf, dur_ns in account.rows:
        series[leaf][position[step]] += dur_ns
    return dict(series)


def _dimension_sources(store: Store) -> dict[str, set[str]]:
    sources: dict[str, set[str]] = defaultdict(set)
    for dimension, source in store.rows(
        "SELECT DISTINCT dimension, coalesce(source, 'none') FROM raw.activity_dimension"
    ):
        sources[dimension].add(source)
    return dict(sources)
