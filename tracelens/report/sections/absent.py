"""Why is a field null? One line for each reason, for ``quality.notes``."""

from collections.abc import Iterator, Mapping
from typing import Any

_SHAPES = "it takes shapes for all but 1 % of FLOP-bearing time"
_PRICE = "it takes --gpu-hour-price"
_NOT_DERIVED = "not derived in this version"

_WHY: tuple[tuple[str, str], ...] = (
    ("run.started_at", "the files do not say it"),
    ("run.world_size", "the trace does not say the size of the job, nor does --world-size"),
    ("workload.world_size", "the trace does not say the size of the job, nor does --world-size"),
    ("run.clock_alignment.method", "this version does not align clocks of files"),
    ("run.clock_alignment.epsilon_ns", "this version does not align clocks of files"),
    ("workload.parameters", "it takes --model"),
    ("workload.tokens_per_step_global", "it takes --tokens-per-step, or --global-batch-size"),
    ("workload.sequences_global", "it takes --global-batch-size, or tokens and --seq-len"),
    ("workload.tokens_per_s_per_gpu", "it takes tokens a step and a window of steps"),
    ("workload.step_time_ns", "the window is not made of steps"),
    ("window.per_rank[].steps", "the window is not made of steps"),
    ("workload.micro_batches", _NOT_DERIVED),
    ("workload.mesh", _NOT_DERIVED),
    ("workload.dtypes", "no number format of a FLOP-bearing kernel is known"),
    ("workload.log.mfu", "no training log was read"),
    ("workload.log.tflop_per_s_per_gpu", "no training log was read"),
    ("workload.log.unprofiled_step_time_ns", "no training log was read"),
    ("workload.log.dilation", "no training log was read"),
    ("flops.model_flop", "mfu.reason says why"),
    ("flops.executed_flop", _SHAPES),
    ("flops.convention", "no way of counting applies"),
    ("flops.per_convention", "it takes the FLOPs of the model"),
    ("flops.reconciliation.recompute", _SHAPES),
    ("flops.reconciliation.attention_backward_recompute", _SHAPES),
    ("flops.reconciliation.masked_not_executed", "no way of counting applies"),
    (
        "flops.reconciliation.padding",
        "it takes --model, and a head whose vocabulary is not sharded",
    ),
    ("flops.reconciliation.unshaped", "the FLOPs of kernels without shapes are not known"),
    ("flops.reconciliation.residual", "it takes FLOPs of the model and shapes"),
    ("flops.reconciliation.residual_points", "it takes FLOPs of the model, shapes and a peak"),
    ("mfu.hfu", "it takes shapes for all but 1 % of FLOP-bearing time, and a peak"),
    ("mfu.all_recorded", "it takes FLOPs from shapes for the whole trace, and a peak"),
    ("mfu.against_bf16", "it takes FLOPs of the model and a BF16 peak of the device"),
    ("mfu.per_convention", "it takes the FLOPs of the model and a peak"),
    ("ladder.faster_than_peak", "ladder.reason says why"),
    ("losses[].recoverable_points", "this version does not predict what a repair would gain"),
    ("collectives[].bytes", "the sizes were not recorded"),
    ("collectives[].busbw_p50_bytes_per_s", "it takes bytes and the size of the group"),
    ("collectives[].wait_ns", "waiting and transfer are not told apart"),
    ("collectives[].transfer_ns", "waiting and transfer are not told apart"),
    ("cost.gpu_hours_per_day", _PRICE),
    ("cost.money_per_day", _PRICE),
    ("losses[].gpu_hours_per_day", _PRICE),
    ("losses[].money_per_day", _PRICE),
    ("time.by_phase", "no operator, range or kernel tells forward from backward"),
    ("time.by_module", "no frame of nn.Module, user range or compiled region lies around a launch"),
    ("stragglers", "ranks were not compared with each other"),
    ("pipeline", "no pipeline schedule was recognized"),
    ("collectives", "communication was not analyzed"),
)
"""Fields, and what they take. A field is named only where it is null."""


def absences(answer: Mapping[str, Any]) -> list[str]:
    """Return why fields are null; fields with one reason share a line."""
    fields_of: dict[str, list[str]] = {}
    for field, why in _WHY:
        if any(value is None for value in _values(answer, field.split("."))):
            fields_of.setdefault(why, []).append(field)
    return [
        f"{', '.join(fields)} {'is' if len(fields) == 1 else 'are'} null: {why}"
        for why, fields in fields_of.items()
    ]


def _values(value: Any, path: list[str]) -> Iterator[Any]:
    """Yield what a path leads to; where an object or a list on the way is null, nothing."""
    if not path:
        yield value
        return
    name, is_list = path[0].removesuffix("[]"), path[0].endswith("[]")
    if not isinstance(value, Mapping) or name not in value:
        return
    inner = value[name]
    if not is_list:
        yield from _values(inner, path[1:])
        return
    for item in inner or ():
        yield from _values(item, path[1:])
