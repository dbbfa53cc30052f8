"""Which few figures open a report, in words that the terminal and the page share?"""

from itertools import pairwise
from typing import Any

from tracelens.report.plain_text import shorten
from tracelens.report.rounding import tenths_text, tera_text, two_digits
from tracelens.units import format_duration

_NAME_COLUMNS = 60
_MOST_RANGES = 4
_COMMON_CONVENTIONS = ("causal", "full", "megatron")
_MOST_RIVALS = 2
_MASKS = {"causal": " (exact mask)"}


def percent(fraction: float) -> str:
    """Write a fraction as percent with one decimal, below 1 % with two significant digits."""
    points = 100 * fraction
    is_small = points and abs(points) < 1
    return f"{two_digits(points) if is_small else tenths_text(round(points * 10))} %"


def subject(document: dict[str, Any]) -> list[str]:
    """Return what was analyzed: run, GPUs, steps, time a step, convention, peak."""
    name = document["run"]["name"] or "unnamed run"
    parts = [shorten(name, _NAME_COLUMNS), _gpus(document), _steps(document)]
    step_ns = document["workload"]["step_time_ns"]
    if step_ns is not None:
        parts.append(f"{format_duration(step_ns)}/{_unit(document)}")
    convention = document["flops"]["convention"]
    if convention:
        parts.append(f"convention {convention}{_MASKS.get(convention, '')}")
    elif document["flops"]["source"] == "user":
        parts.append("FLOPs as given, convention not known")
    return [*parts, _peak(document)]


def mfu_figure(document: dict[str, Any]) -> str:
    """Return MFU or its lower bound, with what it is the MFU of."""
    mfu = document["mfu"]
    scope = f" of the {mfu['scope']}" if mfu["scope"] else ""
    if mfu["value"] is not None:
        return f"MFU {percent(mfu['value'])}{scope}"
    if mfu["low"] is not None:
        return f"MFU ≥ {percent(mfu['low'])}{scope}"
    return "MFU unknown"


def mfu_reason(document: dict[str, Any]) -> str:
    """Return why there is no MFU, or only a bound; empty where it is known."""
    mfu = document["mfu"]
    return "" if mfu["value"] is not None else mfu["reason"] or ""


def rates(document: dict[str, Any]) -> list[str]:
    """Return HFU and FLOP/s a GPU, as far as known."""
    mfu, peak = document["mfu"], document["peak"]["flop_per_s"]
    parts = [] if mfu["hfu"] is None else [f"HFU {percent(mfu['hfu'])}"]
    if mfu["value"] is not None and peak:
        parts.append(f"{tera_text(mfu['value'] * peak)} TFLOP/s/GPU")
    return parts


def other_definitions(document: dict[str, Any]) -> list[str]:
    """Return MFU by the two most common other conventions, the log, and the BF16 peak."""
    mfu = document["mfu"]
    parts = _rivals(document)
    logged = document["workload"]["log"]
    if logged["mfu"] is not None:
        parts.append(f"log says {percent(logged['mfu'])}")
    elif logged["tflop_per_s_per_gpu"] is not None:
        parts.append(f"log says {logged['tflop_per_s_per_gpu']:.1f} TFLOP/s/GPU")
    against = mfu["against_bf16"]
    if against is not None and against != mfu["value"]:
        parts.append(f"{percent(against)} of the BF16 peak")
    return parts


def option_notes(document: dict[str, Any]) -> list[str]:
    """Return what became of options that had no effect, unless it is the reason already shown."""
    reason = mfu_reason(document)
    return [note for note in document["workload"]["option_notes"] if note not in reason]


def _rivals(document: dict[str, Any]) -> list[str]:
    found = document["mfu"]["per_convention"] or {}
    own = document["flops"]["convention"]
    others = [name for name in _COMMON_CONVENTIONS if name != own and found.get(name) is not None]
    shown = [f"{name} {percent(found[name])}" for name in others[:_MOST_RIVALS]]
    return [f"by convention {', '.join(shown)}"] if shown else []


def _gpus(document: dict[str, Any]) -> str:
    run = document["run"]
    seen, devices = len(run["ranks"]), run["devices"]
    device = devices[0] if len(devices) == 1 else f"{len(devices)} kinds of GPU"
    world = run["world_size"]
    of = f"{seen} of {_ranks(world)}" if world else f"{_ranks(seen)}, job size unknown"
    return f"{seen} × {shorten(device, _NAME_COLUMNS) if devices else 'unnamed GPU'} ({of})"


def _ranks(count: int) -> str:
    return "1 rank" if count == 1 else f"{count} ranks"


def _steps(document: dict[str, Any]) -> str:
    window = document["window"]
    used = sorted(window["steps"])
    seen = len(used) + len(window["excluded_steps"])
    if not used:
        total_ns, ranks = window["total_ns"], len(window["per_rank"])
        return f"no steps, {format_duration(total_ns / ranks)} a rank" if ranks else "no steps"
    word = _unit(document)
    return f"{word if len(used) == 1 else f'{word}s'} {_ranges(used)} ({len(used)} of {seen})"


def _unit(document: dict[str, Any]) -> str:
    """Without marks a period of the kernel sequence may be a step or a part of one."""
    return "period" if document["window"]["source"] == "autocorrelation" else "step"


def _ranges(numbers: list[int]) -> str:
    """Write sorted numbers as ranges: ``3-5, 8``; many ranges as the one that holds them."""
    starts = [numbers[0], *(after for before, after in pairwise(numbers) if after != before + 1)]
    stops = [before for before, after in pairwise(numbers) if after != before + 1] + [numbers[-1]]
    if len(starts) > _MOST_RANGES:
        return f"within {numbers[0]}-{numbers[-1]}"
    spans = zip(starts, stops, strict=True)
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)


def _peak(document: dict[str, Any]) -> str:
    peak = document["peak"]
    if peak["flop_per_s"] is None:
        return "peak unknown"
    words = [f"peak {tera_text(peak['flop_per_s'])} TFLOP/s", peak["dtype"], peak["kind"]]
    return " ".join(word for word in words if word)
