"""What costs how much, how sure is that, and what would one do about it?"""

from typing import Any

from tracelens.report.advice import advice_for
from tracelens.report.sections.account import Account
from tracelens.report.sections.confidence import Grounds, grade_of, tag_of
from tracelens.report.sections.evidence import evidence_of, largest
from tracelens.report.sections.waterfall import (
    TIME_ITEMS,
    ends,
    is_flop_bearing,
    title,
)
from tracelens.store import Store


def losses(store: Store, account: Account, sections: dict[str, Any]) -> list[dict[str, Any]]:
    """Return one row a loss, largest first; no two rows speak of the same nanosecond."""
    grounds = Grounds.of(store, account, sections)
    by_leaf = largest(store, sections["peak"]["flop_per_s"])
    rows = []
    for loss, label, points, given_tag in _of_time(account) + _of_flops(sections["waterfall"]):
        tag = tag_of(loss, grounds, given_tag)
        confidence = grade_of(loss, tag, grounds)
        rows.append(
            {
                "id": loss,
                "label": label,
                "share_points": points,
                "low_points": points,
                "high_points": points,
                "recoverable_points": None,
                "tag": tag,
                "confidence": confidence,
                "evidence": evidence_of(loss, by_leaf),
                "advice": advice_for(loss, points, confidence),
            }
        )
    return sorted(rows, key=lambda row: (-row["share_points"], row["id"]))


def _of_time(account: Account) -> list[tuple[str, str, float, str | None]]:
    total_ns = account.total_ns
    return [
        (leaf, title(leaf), 100 * dur_ns / total_ns, None)
        for leaf, dur_ns in account.leaves().items()
        if not is_flop_bearing(leaf)
    ]


def _of_flops(waterfall: list[dict[str, Any]]) -> list[tuple[str, str, float, str | None]]:
    """Return what FLOP-bearing time loses: items of the waterfall that time alone does not give."""
    rows: list[tuple[str, str, float, str | None]] = []
    for item in waterfall:
        if item["id"] in TIME_ITEMS:
            continue
        for loss, end in ends(item):
            points = -float(end["points"])
            if points > 0:
                label = str(end.get("label") or title(loss))
                rows.append((loss, label, points, end.get("tag") or item.get("tag")))
    return rows
