"""Which rules speak in this run, about how many points, and what in the trace says so?

A rule needs a loss of at least one point whose confidence is medium or high. Rules with a query
also need a row of it; its column ``points``, where it has one, is the part of the losses that the
rule is about.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tracelens.report.advice.rule import LEAST_POINTS, Rule, rules
from tracelens.store import Store

LEAST_GRADES = ("medium", "high")
_MOST_UNEXPLAINED_FRAC = 0.05

Loss = Mapping[str, Any]


def findings(store: Store, losses: Sequence[Loss]) -> list[dict[str, Any]]:
    """Return what can be advised, the largest first.

    Args:
        store: queried by rules.
        losses: rows of the section ``losses``.

    Returns:
        Objects with ``rule``, ``title``, ``lever``, ``points``, ``confidence``, ``do``,
        ``because``, ``evidence``, ``losses`` and ``page``.
    """
    founded = [row for row in _by_part(losses) if row["confidence"] in LEAST_GRADES]
    found: list[dict[str, Any]] = []
    claimed: dict[str, float] = {}
    asked = [(rule, _asked(rule, store, founded)) for rule in rules().values()]
    narrow = [(rule, row) for rule, row in asked if row is not None and "points" in row]
    for rule, row in sorted(narrow, key=lambda pair: (-pair[1]["points"], pair[0].id)):
        matching = [loss for loss in founded if rule.matches(loss["id"])]
        points = min(row["points"], _unclaimed(matching, claimed))
        if points >= rule.least_points:
            found.append(_finding(rule, points, matching, row))
            _claim(points, matching, claimed)
    broad = {rule.id: row for rule, row in asked if row is not None and "points" not in row}
    found += _general(broad, [loss for loss in _large(founded) if loss["id"] not in claimed])
    return sorted(found, key=lambda finding: (-finding["points"], finding["rule"]))


def _by_part(losses: Sequence[Loss]) -> list[Loss]:
    """Take a step of the ladder apart: advice for matmuls is none for attention."""
    found: list[Loss] = []
    for row in losses:
        parts = row.get("parts") or {"": row["share_points"]}
        found += [
            {
                **row,
                "row": row["id"],
                "id": f"{row['id']}.{part}".rstrip("."),
                "share_points": points,
            }
            for part, points in parts.items()
            if points > 0
        ]
    return found


def _unclaimed(losses: Sequence[Loss], claimed: Mapping[str, float]) -> float:
    """Return what larger findings have left of these losses: no point is promised twice."""
    return float(sum(loss["share_points"] - claimed.get(loss["id"], 0.0) for loss in losses))


def _claim(points: float, losses: Sequence[Loss], claimed: dict[str, float]) -> None:
    left = points
    for loss in sorted(losses, key=lambda loss: -loss["share_points"]):
        taken = min(left, loss["share_points"] - claimed.get(loss["id"], 0.0))
        if taken > 0:
            claimed[loss["id"]] = claimed.get(loss["id"], 0.0) + taken
            left -= taken


def advised(losses: Sequence[Loss], found: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the line of advice by loss: of the findings that name it the largest."""
    texts: dict[str, str] = {}
    large = {loss["id"] for loss in _large(losses) if loss["confidence"] in LEAST_GRADES}
    for finding in found:
        for loss in finding["losses"]:
            if loss in large:
                texts.setdefault(loss, f"{finding['do']} ({finding['because']})")
    return texts


def health(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return whether the run is healthy as far as the rules know, and the words for it."""
    found = document["advice"]
    total_ns = document["window"]["total_ns"] or 1
    unexplained = document["time"]["groups"]["idle_unknown"] / total_ns
    if found:
        count = "1 rule finds" if len(found) == 1 else f"{len(found)} rules find"
        return {"ok": False, "text": f"{count} a point or more to mend"}
    if unexplained > _MOST_UNEXPLAINED_FRAC:
        return {"ok": None, "text": "no rule speaks, but too much time is unexplained"}
    open_losses = [row for row in document["losses"] if row["share_points"] >= LEAST_POINTS]
    if any(row["confidence"] not in LEAST_GRADES for row in open_losses):
        return {"ok": None, "text": "no advice: what is large is not well enough founded"}
    return {"ok": True, "text": "healthy: no rule finds a point that could be mended"}


def _asked(rule: Rule, store: Store, losses: Sequence[Loss]) -> dict[str, Any] | None:
    """Return the row that triggers a rule; an empty one where the loss itself does."""
    matching = sum(loss["share_points"] for loss in losses if rule.matches(loss["id"]))
    if matching < rule.least_points:
        return None
    if not rule.query:
        return {}
    rows = store.records(rule.query)
    return rows[0] if rows and rows[0].get("points", 0.0) is not None else None


def _general(asked: Mapping[str, dict[str, Any]], losses: Sequence[Loss]) -> list[dict[str, Any]]:
    """Give each loss that no narrower rule has spoken about to the most specific rule."""
    by_rule: dict[str, list[Loss]] = {}
    for loss in losses:
        candidates = [rule for rule in rules().values() if rule.id in asked]
        best = max(candidates, key=lambda rule: rule.matches(loss["id"]), default=None)
        if best is not None and best.matches(loss["id"]):
            by_rule.setdefault(best.id, []).append(loss)
    return [
        _finding(rules()[name], sum(loss["share_points"] for loss in members), members, asked[name])
        for name, members in by_rule.items()
    ]


def _evidence(rule: Rule, losses: Sequence[Loss], row: Mapping[str, Any]) -> str:
    """Say what the query found, else what shows the largest loss best."""
    if rule.evidence and row:
        return rule.evidence_text(row)
    largest = max(losses, key=lambda loss: loss["share_points"], default=None)
    shown = largest["evidence"] if largest else []
    return str(shown[0]["text"]) if shown else "no single instance"


def _large(losses: Sequence[Loss]) -> list[Loss]:
    return [loss for loss in losses if loss["share_points"] >= LEAST_POINTS]


def _finding(
    rule: Rule, points: float, losses: Sequence[Loss], row: Mapping[str, Any]
) -> dict[str, Any]:
    grades = [loss["confidence"] for loss in losses]
    return {
        "rule": rule.id,
        "title": rule.title,
        "lever": rule.lever,
        "points": float(points),
        "confidence": min(grades, key=LEAST_GRADES.index) if grades else "high",
        "do": rule.do,
        "because": rule.because,
        "evidence": _evidence(rule, losses, row),
        "losses": list(dict.fromkeys(loss["row"] for loss in losses)),
        "page": rule.page,
    }
