"""Which few figures open a report, in words that the terminal and the page share?"""

from itertools import pairwise
from typing import Any

from tracelens.report.rounding import tenths_text
from tracelens.units import format_duration

TERA = 1e12
_DILATION = 1.05


def percent(fraction: float) -> str:
    """Write a fraction as percent with one decimal."""
    return f"{tenths_text(round(fraction * 1000))} %"


def subject(document: dict[str, Any]) -> list[str]:
    """Return what was analyzed: run, GPUs, steps, time a step, convention, peak."""
    parts = [document["run"]["name"] or "unnamed run", _gpus(document), _steps(document)]
    step_ns = document["workload"]["step_time_ns"]
    if step_ns is not None:
        parts.append(f"{format_duration(step_ns)}/step")
    if document["flops"]["convention"]:
        parts.append(f"attention {document['flops']['convention']}")
    return [*parts, _peak(document)]


def mfu_text(document: dict[str, Any]) -> str:
    """Return MFU, its lower bound, or why it is unknown."""
    mfu = document["mfu"]
    scope = f" of the {mfu['scope']}" if mfu["scope"] else ""
    if mfu["value"] is not None:
        return f"MFU {percent(mfu['value'])}{scope}"
    if mfu["low"] is not None:
        return f"MFU ≥ {percent(mfu['low'])}{scope}"
    return f"MFU unknown: {mfu['reason']}"


def rates(document: dict[str, Any]) -> list[str]:
    """Return HFU, FLOP/s a GPU and MFU under rival definitions, as far as known."""
    mfu, peak = document["mfu"], document["peak"]["flop_per_s"]
    parts = [] if mfu["hfu"] is None else [f"HFU {percent(mfu['hfu'])}"]
    if mfu["value"] is not None and peak:
        parts.append(f"{mfu['value'] * peak / TERA:,.0f} TFLOP/s/GPU")
    rivals = mfu["per_convention"] or {}
    parts += [
        f"{percent(value)} with attention {convention}"
        for convention, value in rivals.items()
        if value is not None and convention != document["flops"]["convention"]
    ]
    logged = document["workload"]["log"]["mfu"]
    if logged is not None:
        parts.append(f"log says {percent(logged)}")
    against = mfu["against_bf16"]
    if against is not None and against != mfu["value"]:
        parts.append(f"{percent(against)} of the BF16 peak")
    return parts


def trust(document: dict[str, Any]) -> list[tuple[str, bool]]:
    """Return the statements on trust, each with whether it is as it should be."""
    quality, groups = document["quality"], document["time"]["groups"]
    total_ns = document["window"]["total_ns"]
    opaque, unexplained = groups["opaque"], groups["idle_unknown"]
    parts = [_identity(document), _reconciliation(document)]
    unclassified = quality["unclassified_frac"]
    if unclassified is not None:
        parts.append((f"unclassified {percent(unclassified)}", unclassified <= 0.02))
    if total_ns:
        parts.append((f"opaque {percent(opaque / total_ns)}", opaque / total_ns <= 0.01))
        share = unexplained / total_ns
        parts.append((f"unexplained {percent(share)}", share <= 0.05))
    epsilon_ns = document["run"]["clock_alignment"]["epsilon_ns"]
    if epsilon_ns is not None:
        parts.append((f"clock ±{format_duration(epsilon_ns)}", True))
    return [*parts, _damage(document), *_alarms(document)]


def _alarms(document: dict[str, Any]) -> list[tuple[str, bool]]:
    """Return what makes the figures doubtful though they add up."""
    mfu, dilation = document["mfu"]["value"], document["workload"]["log"]["dilation"]
    found = []
    if mfu is not None and mfu > 1:
        found.append(("MFU ABOVE 100 %: FLOPs, dtype or peak is wrong", False))
    if dilation is not None and dilation > _DILATION:
        found.append((f"profiling slowed steps {dilation:.2f}×", False))
    return found


def _identity(document: dict[str, Any]) -> tuple[str, bool]:
    checks = document["identities"]
    broken = [name for name, check in checks.items() if check["ok"] is False]
    if broken:
        return f"IDENTITY VIOLATED: {', '.join(broken)}", False
    return "identity ok", True


def _reconciliation(document: dict[str, Any]) -> tuple[str, bool]:
    points = document["flops"]["reconciliation"]["residual_points"]
    if points is None:
        return "FLOPs not reconciled", False
    text = f"{tenths_text(round(points * 10), signed=True)} pt"
    if abs(points) > 3:
        return f"FLOPS DO NOT RECONCILE {text}", False
    return f"FLOPs reconcile {text}", abs(points) <= 1


def _damage(document: dict[str, Any]) -> tuple[str, bool]:
    quality = document["quality"]
    dropped = sum(row["count"] for row in quality["events_dropped"])
    if quality["truncated"]:
        return f"TRUNCATED, {dropped:,} events dropped", False
    return (f"damage: {dropped:,} events", False) if dropped else ("no damage", True)


def _gpus(document: dict[str, Any]) -> str:
    run = document["run"]
    seen, devices = len(run["ranks"]), run["devices"]
    device = devices[0] if len(devices) == 1 else f"{len(devices)} kinds of GPU"
    world = run["world_size"]
    ranks = "1 rank" if seen == 1 else f"{seen} ranks"
    of = f"{seen} of {world} ranks" if world else f"{ranks}, job size unknown"
    return f"{seen} × {device if devices else 'unnamed GPU'} ({of})"


def _steps(document: dict[str, Any]) -> str:
    used = sorted(document["window"]["steps"])
    seen = len(used) + len(document["window"]["excluded_steps"])
    if not used:
        total_ns, ranks = document["window"]["total_ns"], len(document["window"]["per_rank"])
        return f"no steps, {format_duration(total_ns / ranks)} a rank" if ranks else "no steps"
    word = "step" if len(used) == 1 else "steps"
    return f"{word} {_ranges(used)} ({len(used)} of {seen})"


def _ranges(numbers: list[int]) -> str:
    """Write sorted numbers as ranges: ``3-5, 8``."""
    starts = [numbers[0], *(after for before, after in pairwise(numbers) if after != before + 1)]
    stops = [before for before, after in pairwise(numbers) if after != before + 1] + [numbers[-1]]
    spans = zip(starts, stops, strict=True)
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)


def _peak(document: dict[str, Any]) -> str:
    peak = document["peak"]
    if peak["flop_per_s"] is None:
        return "peak unknown"
    words = [f"peak {peak['flop_per_s'] / TERA:,.0f} TFLOP/s", peak["dtype"], peak["kind"]]
    return " ".join(word for word in words if word)
