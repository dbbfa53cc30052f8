"""Which bars lead from the whole down to MFU, or, without FLOPs, to FLOP-bearing time?

Ids and their order are those of the JSON contract.
"""

from collections.abc import Mapping
from typing import Any

from tracelens.taxonomy import GROUP_TITLES, LEAF_TITLES, group_of_leaf, kind_of_leaf

FLOP_BEARING = "flop_bearing"
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
_TITLES = {
    "peak": "peak",
    "idle": "idle and host",
    "exposed_copy": "exposed copies",
    "exposed_communication": "exposed communication",
    "other_compute": "non-matmul compute",
    "opaque": "opaque CUDA graphs",
    "below_peak": "FLOP-bearing time below peak",
    "below_peak.gemm": "matmul below peak",
    "below_peak.conv": "convolution below peak",
    "below_peak.attention": "attention below peak",
    "below_peak.recompute": "recomputed kernels below peak",
    "recompute_flop": "recomputed FLOPs",
    "attention_backward_recompute": "recompute inside attention backward",
    "padding": "padding",
    "convention_credit": "credited, not executed (convention)",
    "residual": "FLOPs that do not reconcile",
    "mfu": "MFU",
    FLOP_BEARING: "FLOP-bearing time",
}


def waterfall_of_time(leaves: Mapping[str, int], *, single_rank: bool) -> list[dict[str, Any]]:
    """Build the waterfall that needs timestamps only, in shares of time."""
    total_ns = sum(leaves.values())
    if not total_ns:
        return []
    parts: dict[str, dict[str, dict[str, int]]] = {}
    bearing: dict[str, int] = {}
    for leaf, dur_ns in leaves.items():
        if leaf.startswith("flop."):
            bearing[leaf] = dur_ns
            continue
        item = slice_of_loss(leaf, single_rank=single_rank)
        group = group_of_leaf(leaf, single_rank=single_rank) if item == "idle" else ""
        parts.setdefault(item, {}).setdefault(group, {})[leaf] = dur_ns
    items: list[dict[str, Any]] = [{"id": "peak", "label": "all GPU time", "points": 100.0}]
    items += [
        _time_item(item, parts[item], total_ns)
        for item in ("idle", "exposed_copy", "exposed_communication", "other_compute", "opaque")
        if item in parts
    ]
    last = {
        "id": FLOP_BEARING,
        "label": _TITLES[FLOP_BEARING],
        "points": 100 * sum(bearing.values()) / total_ns,
        "children": _leaf_nodes(bearing, total_ns, sign=1),
    }
    return [*items, last]


def _time_item(item: str, groups: dict[str, dict[str, int]], total_ns: int) -> dict[str, Any]:
    children = (
        [_node(group, groups[group], total_ns) for group in _IDLE_GROUPS if group in groups]
        if item == "idle"
        else _leaf_nodes(groups[""], total_ns)
    )
    sum_ns = sum(ns for leaves in groups.values() for ns in leaves.values())
    points = -100 * sum_ns / total_ns
    return {"id": item, "label": _TITLES[item], "points": points, "tag": "M", "children": children}


def _node(group: str, leaves: dict[str, int], total_ns: int) -> dict[str, Any]:
    return {
        "id": group,
        "label": GROUP_TITLES[group],
        "points": -100 * sum(leaves.values()) / total_ns,
        "children": _leaf_nodes(leaves, total_ns),
    }


def _leaf_nodes(leaves: dict[str, int], total_ns: int, *, sign: int = -1) -> list[dict[str, Any]]:
    return [
        {"id": leaf, "label": title(leaf), "points": sign * 100 * dur_ns / total_ns}
        for leaf, dur_ns in leaves.items()
    ]


def slice_of_loss(loss: str, *, single_rank: bool) -> str:
    """Return the id of the waterfall item that a loss is part of."""
    root = loss.partition(".")[0]
    if root not in {"comm", "compute", "opaque", "mem", "pp", "gap", "host", "idle", "flop"}:
        return root
    group = group_of_leaf(loss, single_rank=single_rank)
    if group in _IDLE_GROUPS:
        return "idle"
    return "other_compute" if group == "recompute" else group


def title(item: str) -> str:
    """Return the words for a leaf, a group or a waterfall item; the id itself when it is new."""
    return _TITLES.get(item) or LEAF_TITLES.get(item) or GROUP_TITLES.get(item) or item


def label_of(item: Mapping[str, Any], parent: str = "") -> str:
    """Return the words for an item of the waterfall."""
    own = str(item["id"])
    return str(item.get("label") or title(full_id(own, parent)))


def full_id(own: str, parent: str) -> str:
    """Qualify the id of a child of a FLOP item: ``gemm`` below ``below_peak``."""
    if not parent or parent in TIME_ITEMS or own.startswith(f"{parent}."):
        return own
    return f"{parent}.{own}"


def ends(item: Mapping[str, Any], parent: str = "") -> list[tuple[str, Mapping[str, Any]]]:
    """Return the deepest descendants of an item with their qualified ids; itself if childless."""
    own = full_id(str(item["id"]), parent)
    children = item.get("children") or []
    if not children:
        return [(own, item)]
    return [end for child in children for end in ends(child, own)]


def is_flop_bearing(leaf: str) -> bool:
    """Return whether the time of a leaf is not a loss by itself."""
    return kind_of_leaf(leaf) == 0
