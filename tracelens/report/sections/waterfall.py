"""Which items has the waterfall, what are they called, and which losses are part of which?

Ids are those of the JSON contract; the FLOPs stage draws up the items.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import fsum
from typing import Any

from tracelens.taxonomy import (
    GROUP_TITLES,
    INEFFICIENCY_TITLES,
    LEAF_TITLES,
    group_of_leaf,
    kind_of_leaf,
)

FLOP_BEARING = "flop_bearing"
LADDER = ("ineff.", "anomaly.")
"""Beginnings of the ids of what FLOP-bearing kernels lose below the peak."""
TIME_ITEMS = frozenset(
    {
        "peak",
        "idle",
        "exposed_copy",
        "exposed_communication",
        "other_compute",
        "opaque",
        "mfu",
        FLOP_BEARING,
    }
)
"""Items that time alone decides; the others are about FLOPs."""

_IDLE_GROUPS = ("launch_gap", "host", "pipeline_bubble", "idle_unknown")


def slice_of_loss(loss: str, *, single_rank: bool) -> str:
    """Return the id of the waterfall item that a loss is part of."""
    if loss.startswith(LADDER):
        return "below_peak"
    root = loss.partition(".")[0]
    if root not in {"comm", "compute", "opaque", "mem", "pp", "gap", "host", "idle", "flop"}:
        return root
    group = group_of_leaf(loss, single_rank=single_rank)
    if group in _IDLE_GROUPS:
        return "idle"
    return "other_compute" if group == "recompute" else group


def title(item: str) -> str:
    """Return the words for a leaf or a group; the id itself when it is new."""
    titles = (LEAF_TITLES, INEFFICIENCY_TITLES, GROUP_TITLES)
    return next((words[item] for words in titles if item in words), item)


def label_of(item: Mapping[str, Any], parent: str = "") -> str:
    """Return the words for an item of the waterfall."""
    own = str(item["id"])
    return str(item.get("label") or title(full_id(own, parent)))


def full_id(own: str, parent: str) -> str:
    """Qualify the id of a child of a FLOP item: ``gemm`` below ``below_peak``.

    Steps of the ladder keep their ids: matmul and attention lose to the same causes.
    """
    if not parent or parent in TIME_ITEMS or own.startswith((f"{parent}.", *LADDER)):
        return own
    return f"{parent}.{own}"


def ends(item: Mapping[str, Any], parent: str = "") -> list[tuple[str, Mapping[str, Any]]]:
    """Return the deepest descendants of an item with their qualified ids; itself if childless."""
    own = full_id(str(item["id"]), parent)
    children = item.get("children") or []
    if not children:
        return [(own, item)]
    return [end for child in children for end in ends(child, own)]


@dataclass(frozen=True)
class End:
    """What one id stands for below an item: its points, and those of each part that has it.

    Attributes:
        loss: qualified id.
        label: words; ``None`` where the id has its own.
        points: signed points.
        tag: measured, derived, inferred or assumed.
        parts: points by part (gemm, attention, ...); empty for what is no step of the ladder.
    """

    loss: str
    label: str | None
    points: float
    tag: str | None
    parts: Mapping[str, float]


def merged_ends(item: Mapping[str, Any]) -> list[End]:
    """Return the deepest descendants of an item, those of one id as one."""
    found: dict[str, list[tuple[str, Mapping[str, Any]]]] = {}
    for part in item.get("children") or [item]:
        parent = "" if part is item else str(item["id"])
        for loss, end in ends(part, parent):
            found.setdefault(loss, []).append((str(part["id"]), end))
    return [
        End(
            loss,
            members[0][1].get("label"),
            fsum(float(end["points"]) for _, end in members),
            members[0][1].get("tag") or item.get("tag"),
            {part: float(end["points"]) for part, end in members}
            if loss.startswith(LADDER)
            else {},
        )
        for loss, members in found.items()
    ]


def is_flop_bearing(leaf: str) -> bool:
    """Return whether the time of a leaf is not a loss by itself."""
    return kind_of_leaf(leaf) == 0
