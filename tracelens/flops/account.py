"""Do the books close: from 100 % of peak, through every loss, down to MFU?

The identity is ``P T = F_model + losses``: time outside FLOP-bearing kernels is charged at the
peak, FLOP-bearing time by what it fell short of it, and FLOPs executed beyond the model's by cause.
The remainder that no cause explains is printed as ``residual``, never hidden.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import fsum
from typing import Any

from tracelens.errors import IdentityError
from tracelens.taxonomy import (
    GROUP_TITLES,
    INEFFICIENCY_TITLES,
    LEAF_TITLES,
    group_of_leaf,
)

TOLERANCE_REL = 1e-9
_IDLE_GROUPS = ("launch_gap", "host", "pipeline_bubble", "idle_unknown")
_FLOP_PARTS = {"flop.gemm": "gemm", "flop.conv": "conv", "flop.attn": "attention"}
_FLOP_TITLES = {
    "gemm": "matmul below peak",
    "conv": "convolution below peak",
    "attention": "attention below peak",
    "recompute": "recomputed kernels below peak",
}
_TAGS = {"pipeline_bubble": "I"}
LADDER_TAGS = {
    "ineff.sm_reserved": "I",
    "ineff.quantisation": "I",
    "ineff.ceiling": "A",
    "ineff.contention": "I",
    "ineff.sharing": "I",
}
"""Tags of what is not derived from measured time, FLOPs and rates alone."""

Item = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Books:
    """Everything that the account is made of, summed over the selected ranks and steps.

    Attributes:
        leaves: time by leaf; sums to ``total_ns``.
        total_ns: analyzed time.
        single_rank: whether only one rank was recorded.
        peak_flop_per_s: peak of one GPU.
        model_flop: FLOPs that the model needs.
        executed_flop: FLOPs that ran, by FLOP leaf; ``None`` when not all kernels have shapes.
        recompute_flop: part of them that activation recompute ran.
        recompute_is_inferred: whether counting kernels, not their operators, told which.
        attention_backward_flop: part of them that attention backward recomputed in itself.
        optimizer_flop: part of them that the optimizer's own matmuls ran.
        credit_flop: model FLOPs that the convention credits, but the mask never needs.
        padding_flop: part of the executed FLOPs spent on padding; ``None`` when not known.
        executed_is_inferred: whether equal launches lent some of the executed FLOPs.
        ladder: by part of the FLOP-bearing time, what it loses below the peak, in ns by id;
            ``None`` where there is none.
    """

    leaves: Mapping[str, int]
    total_ns: int
    single_rank: bool = False
    peak_flop_per_s: float | None = None
    model_flop: float | None = None
    executed_flop: Mapping[str, float] | None = None
    recompute_flop: float = 0.0
    recompute_is_inferred: bool = False
    executed_is_inferred: bool = False
    attention_backward_flop: float = 0.0
    optimizer_flop: float = 0.0
    credit_flop: float = 0.0
    padding_flop: float | None = None
    ladder: Mapping[str, Mapping[str, float]] | None = None

    @property
    def capacity_flop(self) -> float | None:
        """FLOPs that the GPUs could have done in the time."""
        if self.peak_flop_per_s is None:
            return None
        return self.peak_flop_per_s * self.total_ns / 1e9

    @property
    def executed_total_flop(self) -> float | None:
        """FLOPs that ran."""
        return None if self.executed_flop is None else fsum(self.executed_flop.values())

    @property
    def residual_flop(self) -> float | None:
        """Executed FLOPs that neither the model nor a known cause explains; signed."""
        executed = self.executed_total_flop
        if executed is None or self.model_flop is None:
            return None
        known = (
            self.recompute_flop,
            self.attention_backward_flop,
            self.optimizer_flop,
            self.padding_flop or 0.0,
        )
        return fsum([executed, -self.model_flop, self.credit_flop, *(-flop for flop in known)])


@dataclass(frozen=True)
class Closed:
    """The closed account.

    Attributes:
        mfu: model FLOPs over capacity; ``None`` without a peak or model FLOPs.
        hfu: executed FLOPs over capacity.
        residual_points: what does not reconcile, in points.
        waterfall: bars from the peak to MFU, or to FLOP-bearing time.
        capacity_residual_rel: how far the identity is from holding; ``None`` without a peak.
    """

    mfu: float | None
    hfu: float | None
    residual_points: float | None
    waterfall: list[Item]
    capacity_residual_rel: float | None


def close_books(books: Books) -> Closed:
    """Close the account.

    Raises:
        IdentityError: if time or capacity does not add up.
    """
    if sum(books.leaves.values()) != books.total_ns or books.total_ns <= 0:
        raise IdentityError(
            f"leaves hold {sum(books.leaves.values())} ns of a window of {books.total_ns} ns"
        )
    capacity = books.capacity_flop
    executed = books.executed_total_flop
    hfu = None if executed is None or not capacity else executed / capacity
    time_items = [item for item in _time_items(books) if item["children"]]
    if books.model_flop is None or not capacity:
        bearing = _bearing(books)
        return Closed(None, hfu, None, [_whole("all GPU time"), *time_items, bearing], None)
    mfu = books.model_flop / capacity
    residual = books.residual_flop
    losses = [*time_items, *_flop_items(books, capacity)]
    last: Item = {"id": "mfu", "label": "MFU", "points": 100 * mfu, "tag": "D"}
    error = abs(fsum([100.0, *(item["points"] for item in losses), -last["points"]])) / 100
    scale = max(1.0, *(abs(item["points"]) / 100 for item in losses))
    if error > TOLERANCE_REL * scale:
        raise IdentityError(f"capacity does not add up: relative error {error:.3g}")
    points = None if residual is None else 100 * residual / capacity
    return Closed(mfu, hfu, points, [_whole("peak"), *losses, last], error)


def _whole(label: str) -> Item:
    return {"id": "peak", "label": label, "points": 100.0}


# --- time --------------------------------------------------------------------------------------


def _time_items(books: Books) -> list[Item]:
    groups: dict[str, list[str]] = {}
    for leaf in LEAF_TITLES:
        if books.leaves.get(leaf):
            groups.setdefault(_group(leaf, books), []).append(leaf)
    idle = [
        _parent(group, GROUP_TITLES[group], _leaves(groups[group], books), _TAGS.get(group))
        for group in _IDLE_GROUPS
        if group in groups
    ]
    return [
        _parent("idle", "idle and host", idle, "M"),
        _parent("exposed_copy", "exposed copies", _leaves(groups.get("exposed_copy"), books), "M"),
        _parent(
            "exposed_communication",
            "exposed communication",
            _by_dimension(groups.get("exposed_communication", []), books),
            "M",
        ),
        _parent(
            "other_compute", "non-matmul compute", _leaves(groups.get("other_compute"), books), "M"
        ),
        _parent("opaque", "opaque CUDA graphs", _leaves(groups.get("opaque"), books), "M"),
    ]


def _group(leaf: str, books: Books) -> str:
    if leaf.startswith("compute."):
        return "other_compute"
    return group_of_leaf(leaf, single_rank=books.single_rank)


def _by_dimension(leaves: Iterable[str], books: Books) -> list[Item]:
    dimensions: dict[str, list[str]] = {}
    for leaf in leaves:
        dimensions.setdefault(leaf.split(".")[1], []).append(leaf)
    return [
        _parent(dimension, f"exposed {dimension.upper()} communication", _leaves(members, books))
        for dimension, members in dimensions.items()
    ]


def _leaves(leaves: Iterable[str] | None, books: Books) -> list[Item]:
    return [
        {
            "id": leaf,
            "label": LEAF_TITLES[leaf],
            "points": -100 * books.leaves[leaf] / books.total_ns,
        }
        for leaf in leaves or ()
    ]


def _parent(item: str, label: str, children: list[Item], tag: str | None = None) -> Item:
    points = fsum(child["points"] for child in children)
    found: Item = {"id": item, "label": label, "points": points}
    if tag:
        found["tag"] = tag
    return found | {"children": children}


def _flop_time(books: Books) -> dict[str, int]:
    """FLOP-bearing time by part: gemm, conv, attention, recompute."""
    found: dict[str, int] = {}
    for leaf, dur_ns in books.leaves.items():
        if leaf.startswith("flop."):
            part = _FLOP_PARTS.get(leaf, "recompute")
            found[part] = found.get(part, 0) + dur_ns
    return found


def _bearing(books: Books) -> Item:
    bearing = [leaf for leaf in LEAF_TITLES if leaf.startswith("flop.") and books.leaves.get(leaf)]
    children: list[Item] = [{**item, "points": -item["points"]} for item in _leaves(bearing, books)]
    return _parent("flop_bearing", "FLOP-bearing time", children, "M")


# --- FLOPs -------------------------------------------------------------------------------------


def _flop_items(books: Books, capacity: float) -> list[Item]:
    model = books.model_flop or 0.0
    time = _flop_time(books)
    executed, residual = books.executed_total_flop, books.residual_flop
    if books.executed_flop is None or executed is None or residual is None:
        share = fsum([sum(time.values()) / books.total_ns, -model / capacity])
        label = "FLOP-bearing time below peak, recompute and credit included"
        return [{"id": "below_peak", "label": label, "points": -100 * share, "tag": "D"}]
    below = _below_peak(books, time, capacity)
    items = [
        (
            "recompute_flop",
            "recomputed FLOPs",
            -books.recompute_flop,
            "I" if books.recompute_is_inferred else "D",
        ),
        (
            "attention_backward_recompute",
            "recompute inside attention backward",
            -books.attention_backward_flop,
            "D",
        ),
        ("optimizer_flop", "matmuls of the optimizer", -books.optimizer_flop, "D"),
        ("padding", "padding", -(books.padding_flop or 0.0), "D"),
        (
            "convention_credit",
            "credited, not executed (convention)",
            books.credit_flop,
            "A",
        ),
        ("residual", "FLOPs that do not reconcile", -residual, "D"),
    ]
    return [
        below,
        *(
            {"id": item, "label": label, "points": 100 * flop / capacity + 0.0, "tag": tag}
            for item, label, flop, tag in items
            if not (item == "padding" and books.padding_flop is None)
            and not (item == "optimizer_flop" and not books.optimizer_flop)
        ),
    ]


def _below_peak(books: Books, time: Mapping[str, int], capacity: float) -> Item:
    flop: dict[str, float] = {}
    for leaf, executed in (books.executed_flop or {}).items():
        part = _FLOP_PARTS.get(leaf, "recompute")
        flop[part] = flop.get(part, 0.0) + executed
    children = [
        _part(part, time.get(part, 0) / books.total_ns - flop.get(part, 0.0) / capacity, books)
        for part in _FLOP_TITLES
        if time.get(part) or flop.get(part)
    ]
    tag = "I" if books.executed_is_inferred else "D"
    return _parent("below_peak", "FLOP-bearing time below peak", children, tag)


def _part(part: str, lost_frac: float, books: Books) -> Item:
    """One part of the FLOP-bearing time, divided by the ladder where there is one.

    Raises:
        IdentityError: if the steps of the ladder do not sum to what the part lost.
    """
    item: Item = {"id": part, "label": _FLOP_TITLES[part], "points": -100 * lost_frac}
    losses = (books.ladder or {}).get(part)
    if losses is None:
        return item
    item["children"] = [
        {
            "id": step,
            "label": INEFFICIENCY_TITLES[step],
            "points": -100 * losses[step] / books.total_ns + 0.0,
            "tag": LADDER_TAGS.get(step, "D"),
        }
        for step in INEFFICIENCY_TITLES
        if step in losses
    ]
    error = abs(fsum(child["points"] for child in item["children"]) - item["points"]) / 100
    if error > TOLERANCE_REL * max(1.0, abs(lost_frac)):
        raise IdentityError(
            f"the ladder of {part} does not add up: off by {error:.3g} of the window",
            hint="this is a bug of TraceLens: please report it with the trace",
        )
    return item
