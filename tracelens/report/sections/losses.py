"""What costs how much, how sure is that, and what would one do about it?"""

from collections.abc import Mapping
from typing import Any

from tracelens.report.sections.account import Account
from tracelens.report.sections.confidence import Grounds, grade_of, tag_of
from tracelens.report.sections.evidence import evidence_of, largest
from tracelens.report.sections.waterfall import (
    TIME_ITEMS,
    End,
    is_flop_bearing,
    merged_ends,
    title,
)
from tracelens.store import Store


def losses(store: Store, account: Account, sections: dict[str, Any]) -> list[dict[str, Any]]:
    """Return one row a loss, largest first; no two rows speak of the same nanosecond.

    Advice is given later, by rules that see all rows.
    """
    grounds = Grounds.of(store, account, sections)
    by_leaf = largest(store, sections["peak"]["flop_per_s"])
    rows = []
    for loss, label, points, given_tag in _of_time(account):
        tag = tag_of(loss, grounds, given_tag)
        rows.append(_row(loss, label, points, (tag, grade_of(loss, tag, grounds)), by_leaf))
    for end in _of_flops(sections["waterfall"]):
        tag = tag_of(end.loss, grounds, end.tag)
        found = (tag, grade_of(end.loss, tag, grounds))
        row = _row(end.loss, end.label or title(end.loss), -end.points, found, by_leaf, end.parts)
        rows.append(row)
    return sorted(rows, key=lambda row: (-row["share_points"], row["id"]))


def _row(
    loss: str,
    label: str,
    points: float,
    found: tuple[str, str],
    by_leaf: Mapping[str, list[dict[str, Any]]],
    parts: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    tag, confidence = found
    row = {
        "id": loss,
        "label": label,
        "share_points": points,
        "low_points": points,
        "high_points": points,
        "recoverable_points": None,
        "tag": tag,
        "confidence": confidence,
        "evidence": evidence_of(loss, by_leaf),
        "advice": None,
    }
    return row | ({"parts": {name: -value for name, value in parts.items()}} if parts else {})


def _of_time(account: Account) -> list[tuple[str, str, float, str | None]]:
    total_ns = account.total_ns
    return [
        (leaf, title(leaf), 100 * dur_ns / total_ns, None)
        for leaf, dur_ns in account.leaves().items()
        if not is_flop_bearing(leaf)
    ]


def _of_flops(waterfall: list[dict[str, Any]]) -> list[End]:
    """Return what FLOP-bearing time loses: items of the waterfall that time alone does not give."""
    return [
        end
        for item in waterfall
        if item["id"] not in TIME_ITEMS
        for end in merged_ends(item)
        if end.points < 0
    ]
