"""What does the answer say of the ladder: by part, by step, by shape?"""

from typing import Any

from tracelens.flops.account import LADDER_TAGS
from tracelens.flops.denominator import Peak
from tracelens.flops.ladder.stage import Climbed, PartSum
from tracelens.flops.ladder.steps import STEPS
from tracelens.flops.options import FlopsOptions
from tracelens.store import Store

_SHAPES = 20
_WANTED = {
    "precision": "the device has no listed rate for the number format, or the format is not known",
    "memory": "shapes, element types or the memory bandwidth of the device are not known",
    "sm_reserved": "tile, grid or multiprocessors are not known, or contradict each other",
    "quantisation": "tile, grid or multiprocessors are not known, or contradict each other",
    "clock": "no clock recorded: give --sm-clock MHZ or --clock-log FILE",
    "ceiling": "no sustained matmul rate is declared for this device and format",
    "kernel": "the FLOPs of none of these kernels are known: record shapes",
    "contention": "no three instances of the same kernel and shapes ran alone",
}
_CLOCK_GIVEN = "a clock is known: the declared ceiling is not used"
_NOT_NOMINAL = "not below a peak that is {kind} itself"

_TOP = """
SELECT l.part, n.name, l.shape, l.m, l.n, l.k, l.batch, count(*) AS instances,
    sum(l.owned_ns)::BIGINT AS owned_ns, sum(l.ideal_ns)::BIGINT AS ideal_ns,
    sum(l.owned_ns - l.ideal_ns)::BIGINT AS lost_ns, any_value(f.dtype) AS dtype,
    sum(l.flop) / nullif(sum(l.owned_ns), 0) * 1e9 AS flop_per_s,
    sum(l.flop) / nullif(sum(l.bytes), 0) AS flop_per_byte,
    count(*) FILTER (l.beside_frac >= 0.5) AS beside, max(l.alone_count) AS alone,
    count(*) FILTER (l.is_faster_than_peak) AS faster_than_peak,
    sum(l.precision_ns)::BIGINT AS precision_ns, sum(l.memory_ns)::BIGINT AS memory_ns,
    sum(l.sm_reserved_ns)::BIGINT AS sm_reserved_ns,
    sum(l.quantisation_ns)::BIGINT AS quantisation_ns, sum(l.clock_ns)::BIGINT AS clock_ns,
    sum(l.ceiling_ns)::BIGINT AS ceiling_ns, sum(l.kernel_ns)::BIGINT AS kernel_ns,
    sum(l.contention_ns)::BIGINT AS contention_ns
FROM raw.ladder AS l
JOIN raw.activity AS a USING (activity_id)
JOIN raw.name AS n USING (name_id)
JOIN raw.activity_flop AS f USING (activity_id)
WHERE l.flop > 0 AND l.owned_ns > 0
GROUP BY l.part, n.name, l.shape, l.m, l.n, l.k, l.batch
ORDER BY lost_ns DESC, n.name, l.shape
LIMIT ?
"""


def losses_by_part(climbed: Climbed) -> dict[str, dict[str, float]]:
    """Return, by part and id, what the account charges, in ns; ids are those of the taxonomy."""
    return {part: _losses(found) for part, found in climbed.parts.items()}


def _losses(found: PartSum) -> dict[str, float]:
    losses = {f"ineff.{step}": found.losses[step] for step in STEPS if step in found.losses}
    others = {
        "ineff.sharing": found.losses["sharing"],
        "ineff.unshaped": float(found.unshaped_ns),
        "ineff.window_edge": found.edge_ns,
        "anomaly.faster_than_peak": found.losses["faster_than_peak"],
    }
    return losses | {name: lost for name, lost in others.items() if lost}


def ladder_section(
    store: Store, climbed: Climbed | None, peak: Peak, options: FlopsOptions
) -> dict[str, Any]:
    """Return the section ``ladder``: steps that lack evidence are null, with the reason."""
    if climbed is None:
        why = "no FLOPs by kernel: record shapes" if peak.flop_per_s else peak.reason
        return {"parts": [], "shapes": [], "faster_than_peak": None, "reason": why}
    return {
        "parts": [_part(part, found, options) for part, found in climbed.parts.items()],
        "shapes": store.records(_TOP, [_SHAPES]),
        "faster_than_peak": climbed.faster_than_peak,
        "reason": None,
    }


def _part(part: str, found: PartSum, options: FlopsOptions) -> dict[str, Any]:
    losses = _losses(found)
    return {
        "part": part,
        "owned_ns": found.owned_ns,
        "ideal_ns": round(found.ideal_ns),
        "steps": [_step(step, found, options) for step in STEPS],
        "other_ns": {
            name: round(value)
            for name, value in losses.items()
            if name.removeprefix("ineff.") not in STEPS
        },
    }


def _step(step: str, found: PartSum, options: FlopsOptions) -> dict[str, Any]:
    name = f"ineff.{step}"
    lost = found.losses.get(step)
    return {
        "id": name,
        "lost_ns": None if lost is None else round(lost),
        "covered_frac": found.covered[step],
        "tag": LADDER_TAGS.get(name, "D"),
        "reason": _reason(step, found, options) if lost is None else None,
    } | (_interval(found) if step == "contention" else {})


def _interval(found: PartSum) -> dict[str, Any]:
    """Where a time alone is not known, contention may hold all that no other cause explains."""
    return {
        "low_ns": round(found.losses.get("contention", 0.0)),
        "high_ns": round(found.contention_high_ns),
        "beside": found.beside,
        "measured": found.measured,
    }


def _reason(step: str, found: PartSum, options: FlopsOptions) -> str:
    if step in {"clock", "ceiling"} and options.peak_kind != "nominal":
        return _NOT_NOMINAL.format(kind=options.peak_kind)
    if step == "ceiling" and "clock" in found.losses:
        return _CLOCK_GIVEN
    return _WANTED[step]
