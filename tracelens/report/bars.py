"""How does the waterfall become bars: rounded so that the column adds up, with a level each?"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tracelens.report.rounding import to_tenths
from tracelens.report.sections.waterfall import (
    TIME_ITEMS,
    label_of,
    merged_ends,
    slice_of_loss,
    title,
)
from tracelens.taxonomy import GROUP_COLORS

_ENDS = frozenset({"peak", "mfu", "flop_bearing"})
_NEUTRAL, _RESULT, _CREDIT = "#6b7684", GROUP_COLORS["matmul"], "#3f7cac"
_COLORS = {
    **GROUP_COLORS,
    "peak": _NEUTRAL,
    "mfu": _RESULT,
    "flop_bearing": _RESULT,
    "idle": GROUP_COLORS["launch_gap"],
    "below_peak": "#88b99a",
    "recompute_flop": GROUP_COLORS["recompute"],
    "attention_backward_recompute": GROUP_COLORS["recompute"],
    "padding": GROUP_COLORS["recompute"],
    "convention_credit": _CREDIT,
    "residual": GROUP_COLORS["idle_unknown"],
}


Part = tuple[str, str, int]
"""Id, words and signed tenths of what a bar consists of."""


@dataclass(frozen=True)
class Bar:
    """One bar.

    Attributes:
        item: id in the waterfall.
        label: words.
        tenths: signed change in tenths of a point; the whole height for the first and last bar.
        level: height in tenths after the bar.
        is_end: whether it is the whole or the result rather than a step between them.
        parts: what it consists of, largest first.
    """

    item: str
    label: str
    tenths: int
    level: int
    is_end: bool
    parts: tuple[Part, ...] = ()

    @property
    def color(self) -> str:
        """Color of the bar, the same in every output."""
        return _COLORS.get(self.item, _NEUTRAL)


def bars(document: dict[str, Any]) -> list[Bar]:
    """Return the bars of the waterfall; steps that round to nothing are left out."""
    waterfall = document["waterfall"]
    if not waterfall:
        return []
    first, last = waterfall[0], _last(waterfall)
    level = round(first["points"] * 10)
    drawn = [Bar(first["id"], label_of(first), level, level, is_end=True)]
    for step, change, parts in _rounded(document):
        level += change
        if change:
            seen = tuple(part for part in parts if part[2])
            drawn.append(Bar(step["id"], label_of(step), change, level, is_end=False, parts=seen))
    if last is not None:
        height = round(last["points"] * 10)
        seen = tuple(part for part in _parts(last, height, []) if part[2])
        drawn.append(Bar(last["id"], label_of(last), height, height, is_end=True, parts=seen))
    return drawn


def scale_of(drawn: list[Bar]) -> int:
    """Return the height in tenths that fits every bar: 100 points, more where a peak is beaten."""
    return max([1000, *(max(bar.level, bar.level - bar.tenths) for bar in drawn)])


def printed_shares(document: dict[str, Any]) -> dict[str, int]:
    """Return the tenths to print for every loss: the same ones as within its bar."""
    shares = {loss["id"]: round(loss["share_points"] * 10) for loss in document["losses"]}
    for step, change, parts in _rounded(document):
        for item, _, tenths in parts or ((step["id"], "", change),):
            if item in shares:
                shares[item] = abs(tenths)
    return shares


def _last(waterfall: list[dict[str, Any]]) -> dict[str, Any] | None:
    return waterfall[-1] if len(waterfall) > 1 and waterfall[-1]["id"] in _ENDS else None


def _rounded(document: dict[str, Any]) -> list[tuple[dict[str, Any], int, tuple[Part, ...]]]:
    """Round the steps between whole and result so that they add up, and their parts likewise."""
    waterfall = document["waterfall"]
    if not waterfall:
        return []
    last = _last(waterfall)
    steps = waterfall[1:] if last is None else waterfall[1:-1]
    total = (
        None if last is None else round(last["points"] * 10) - round(waterfall[0]["points"] * 10)
    )
    tenths = to_tenths([float(step["points"]) for step in steps], total)
    losses = _losses_by_item(document)
    return [
        (step, change, _parts(step, change, losses.get(step["id"], [])))
        for step, change in zip(steps, tenths, strict=True)
    ]


def _parts(step: Mapping[str, Any], tenths: int, losses: list[dict[str, Any]]) -> tuple[Part, ...]:
    """Divide a step: by its losses where time alone decides, else by its own children."""
    own = str(step["id"])
    divided = [(loss["id"], loss["label"], -loss["share_points"]) for loss in losses]
    if not divided:
        found = [end for end in merged_ends(step) if end.loss != own]
        divided = [(end.loss, end.label or title(end.loss), end.points) for end in found]
    rounded = to_tenths([float(points) for _, _, points in divided], tenths)
    named = [
        (str(item), str(label), change)
        for (item, label, _), change in zip(divided, rounded, strict=True)
    ]
    return tuple(sorted(named, key=lambda part: (-abs(part[2]), part[0])))


def _losses_by_item(document: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    single_rank = len(document["run"]["ranks"]) == 1
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for loss in document["losses"]:
        item = slice_of_loss(loss["id"], single_rank=single_rank)
        if item in TIME_ITEMS:
            found[item].append(loss)
    return dict(found)
