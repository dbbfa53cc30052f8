"""Which fields does a section have when the stage that owns it could not say anything?

Field names are those of the JSON contract; a stage's section is laid over its skeleton, so that no
field is ever missing.
"""

from collections.abc import Mapping
from typing import Any

NO_FLOPS = "FLOPs of the model, or the peak of the device, are not known"
"""Why MFU is unknown when no stage gave a reason."""

WORKLOAD: dict[str, Any] = {
    "parameters": None,
    "tokens_per_step_global": None,
    "sequences_global": None,
    "micro_batches": None,
    "mesh": None,
    "dtypes": None,
    "source": {},
    "step_time_ns": None,
    "tokens_per_s_per_gpu": None,
    "log": {
        "mfu": None,
        "tflop_per_s_per_gpu": None,
        "unprofiled_step_time_ns": None,
        "dilation": None,
    },
    "world_size": None,
    "option_notes": [],
}

FLOPS: dict[str, Any] = {
    "model_flop": None,
    "executed_flop": None,
    "source": "none",
    "convention": None,
    "per_convention": None,
    "reconciliation": {
        "recompute": None,
        "attention_backward_recompute": None,
        "masked_not_executed": None,
        "padding": None,
        "unshaped": None,
        "residual": None,
        "residual_points": None,
    },
}

PEAK: dict[str, Any] = {
    "flop_per_s": None,
    "kind": None,
    "dtype": None,
    "mix": None,
    "bf16_flop_per_s": None,
    "device": None,
    "source": None,
}

MFU: dict[str, Any] = {
    "value": None,
    "low": None,
    "scope": None,
    "hfu": None,
    "all_recorded": None,
    "against_bf16": None,
    "per_convention": None,
    "reason": None,
}

LADDER: dict[str, Any] = {"parts": [], "shapes": [], "faster_than_peak": None, "reason": NO_FLOPS}


def overlay(skeleton: Mapping[str, Any], section: Mapping[str, Any] | None) -> dict[str, Any]:
    """Lay a section over its skeleton: fields in the skeleton's order, then what is new."""
    given = section or {}
    merged: dict[str, Any] = {}
    for field, default in skeleton.items():
        value = given.get(field, default)
        if isinstance(default, dict):
            value = overlay(default, value if isinstance(value, Mapping) else None)
        merged[field] = value
    merged.update({field: given[field] for field in given if field not in skeleton})
    return merged
