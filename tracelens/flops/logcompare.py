"""Why does the training log claim another MFU than this account?

The log ran without a profiler, counts FLOPs by its own convention and divides by its own peak. Each
is a factor; what no factor explains is said, and above 1 % it is a warning.
"""

from dataclasses import dataclass, field
from typing import Any

from tracelens.flops.counting import flops_per_token_by_convention
from tracelens.flops.presets import Model
from tracelens.flops.traininglog import TrainingLog

_TOLERANCE = 0.01
_OWN = {
    "megatron": ("megatron", "bridge-2025", "megatron-2024"),
    "bridge": ("megatron", "bridge-2025"),
    "nemo": ("nemo", "nemo-2024", "megatron", "megatron-2024"),
    "torchtitan": ("torchtitan",),
}
_NO_MATCH = "the same model, sequence length, and frozen weights? give --model, --seq-len"


@dataclass(frozen=True, kw_only=True)
class Account:
    """What this account found.

    Attributes:
        mfu: model FLOPs utilization.
        peak_flop_per_s: what it divides by.
        flop_per_token: what it counts.
        step_time_ns: mean time of the analyzed steps.
        model: the model that both count.
        seq_len: tokens a sequence.
    """

    mfu: float | None
    peak_flop_per_s: float | None
    flop_per_token: float | None
    step_time_ns: int | None
    model: Model | None
    seq_len: int | None


@dataclass
class Comparison:
    """The fields of ``workload.log``, and what a reader must know."""

    fields: dict[str, Any]
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def compare(log: TrainingLog, own: Account) -> Comparison:
    """Compare the figures of a log with those of the account."""
    claimed, step_ns = log.flop_per_s_per_gpu, log.step_time_ns
    dilation = own.step_time_ns / step_ns if own.step_time_ns and step_ns else None
    counted = log.flop_per_token
    found = Comparison(
        {
            "mfu": log.mfu,
            "tflop_per_s_per_gpu": None if claimed is None else claimed / 1e12,
            "unprofiled_step_time_ns": step_ns,
            "dilation": dilation,
            "program": log.program,
            "path": str(log.path),
            "steps": len(log.steady),
            "peak_flop_per_s": log.peak_flop_per_s,
            "flop_per_token": counted,
            "convention": None,
            "factors": None,
            "unexplained": None,
        }
    )
    _match_convention(found, log, own)
    _explain(found, log, own)
    _check_log(found, log, own)
    return found


def _match_convention(found: Comparison, log: TrainingLog, own: Account) -> None:
    """Name the convention whose FLOPs a token the log must have counted."""
    counted = log.flop_per_token
    if counted is None or own.model is None or own.seq_len is None:
        return
    known = flops_per_token_by_convention(own.model, seq_len=own.seq_len)
    usual = [name for name in _OWN.get(log.program, ()) if _near(counted, known[name])]
    near = usual or [name for name in known if _near(counted, known[name])]
    if near:
        best = min(near, key=lambda name: abs(counted / known[name] - 1))
        found.fields["convention"] = usual[0] if usual else best
        found.fields["unexplained"] = counted / known[found.fields["convention"]] - 1
        return
    best = min(known, key=lambda name: abs(counted / known[name] - 1))
    off = 100 * (counted / known[best] - 1)
    found.warnings.append(
        f"log counts {counted / 1e9:.4g} GFLOP a token: no convention within 1 %, nearest "
        f"{best}, off by {off:+.1f} %: {_NO_MATCH}"
    )
    found.fields["unexplained"] = counted / known[best] - 1


def _explain(found: Comparison, log: TrainingLog, own: Account) -> None:
    """Say the factors between both figures in one sentence."""
    if own.mfu is None or own.peak_flop_per_s is None:
        return
    if log.mfu is None and log.flop_per_s_per_gpu is None:
        return
    factors: dict[str, float | None] = {
        "convention": _ratio(log.flop_per_token, own.flop_per_token),
        "peak": _ratio(own.peak_flop_per_s, log.peak_flop_per_s) if log.mfu else None,
        "time": found.fields["dilation"],
    }
    found.fields["factors"] = factors
    if log.mfu is not None:
        said = f"log says MFU {100 * log.mfu:.1f} %, this account {100 * own.mfu:.1f} %"
        ratio = log.mfu / own.mfu
    else:
        rate = own.mfu * own.peak_flop_per_s
        claimed = log.flop_per_s_per_gpu or 0.0
        said = f"log says {claimed / 1e12:.1f} TFLOP/s/GPU, this account {rate / 1e12:.1f}"
        ratio = claimed / rate
    names = {
        "convention": f"FLOPs a token by {found.fields['convention'] or 'its own convention'}",
        "peak": "its peak",
        "time": "steps without profiler",
    }
    reasons = [f"{names[name]} x{value:.3f}" for name, value in factors.items() if value]
    known = 1.0
    for value in factors.values():
        known *= value or 1.0
    found.notes.append(f"{said}: x{ratio:.3f} = " + ", ".join(reasons or ["not explained"]))
    if not _near(ratio, known):
        found.warnings.append(
            f"{said}: {100 * (ratio / known - 1):+.1f} % are explained neither by convention nor "
            "by peak or profiler: is it the same job?"
        )


def _check_log(found: Comparison, log: TrainingLog, own: Account) -> None:
    claimed, peak = log.flop_per_s_per_gpu, log.peak_flop_per_s
    if log.mfu is not None and claimed and peak and not _near(log.mfu, claimed / peak):
        found.warnings.append(
            f"log contradicts itself: MFU {100 * log.mfu:.1f} %, but {claimed / 1e12:.1f} of "
            f"{peak / 1e12:.1f} TFLOP/s"
        )
    total = None if own.model is None else own.model.params_total
    if total and log.parameters and not _near(log.parameters, total):
        found.warnings.append(
            f"log prints {log.parameters:,} parameters, the model has {total:,}: not the same model"
        )


def _ratio(one: float | None, other: float | None) -> float | None:
    return one / other if one and other else None


def _near(one: float, other: float) -> bool:
    return abs(one / other - 1) <= _TOLERANCE
