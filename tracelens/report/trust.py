"""How far can the answer be trusted, in the few words that stand above it?"""

from typing import Any

from tracelens.report.headline import percent
from tracelens.report.rounding import tenths_text
from tracelens.units import format_duration

_DILATION = 1.05
_BAD_POINTS = 3
_GOOD_POINTS = 1

Statement = tuple[str, bool]
"""Words, and whether it is as it should be."""


def trust(document: dict[str, Any]) -> list[Statement]:
    """Return the statements on trust."""
    quality, groups = document["quality"], document["time"]["groups"]
    total_ns = document["window"]["total_ns"]
    parts = [_identity(document), _flops(document)]
    unclassified = quality["unclassified_frac"]
    if unclassified is not None:
        parts.append((f"unclassified {percent(unclassified)}", unclassified <= 0.02))
    if total_ns:
        opaque, unexplained = groups["opaque"] / total_ns, groups["idle_unknown"] / total_ns
        parts.append((f"opaque {percent(opaque)}", opaque <= 0.01))
        parts.append((f"unexplained {percent(unexplained)}", unexplained <= 0.05))
    epsilon_ns = document["run"]["clock_alignment"]["epsilon_ns"]
    if epsilon_ns is not None:
        parts.append((f"clock ±{format_duration(epsilon_ns)}", True))
    return [*parts, _damage(document), *_alarms(document)]


def _alarms(document: dict[str, Any]) -> list[Statement]:
    """Return what makes the figures doubtful though they add up."""
    mfu, dilation = document["mfu"]["value"], document["workload"]["log"]["dilation"]
    found = []
    if mfu is not None and mfu > 1:
        found.append(("MFU ABOVE 100 %: FLOPs, dtype or peak is wrong", False))
    if dilation is not None and dilation > _DILATION:
        found.append((f"profiling slowed steps {dilation:.2f}×", False))
    if document["window"]["confidence"] == "low":
        found.append(("window uncertain", False))
    return found


def _identity(document: dict[str, Any]) -> Statement:
    checks = document["identities"]
    broken = [name for name, check in checks.items() if check["ok"] is False]
    if broken:
        return f"IDENTITY VIOLATED: {', '.join(broken)}", False
    return "identity ok", True


def _flops(document: dict[str, Any]) -> Statement:
    """Say whether two counts of FLOPs agree; model FLOPs from shapes have no second count."""
    flops = document["flops"]
    points = flops["reconciliation"]["residual_points"]
    if flops["source"] in {"user", "config"}:
        return ("FLOPs not reconciled", False) if points is None else _reconciled(points)
    if flops["executed_flop"] is not None:
        return "FLOPs from shapes", True
    return ("FLOPs from some shapes" if flops["source"] == "shapes" else "FLOPs unknown"), False


def _reconciled(points: float) -> Statement:
    text = f"{tenths_text(round(points * 10), signed=True)} pt"
    if abs(points) > _BAD_POINTS:
        return f"FLOPS DO NOT RECONCILE {text}", False
    return f"FLOPs reconcile {text}", abs(points) <= _GOOD_POINTS


def _damage(document: dict[str, Any]) -> Statement:
    quality = document["quality"]
    dropped = sum(row["count"] for row in quality["events_dropped"])
    events = "1 event" if dropped == 1 else f"{dropped:,} events"
    if quality["truncated"]:
        return f"TRUNCATED, {events} dropped", False
    return (f"damage: {events}", False) if dropped else ("no damage", True)
