"""The FLOPs account: what the model needs, what ran, what the device could do."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tracelens.flops.borrow import borrow_flops
    from tracelens.flops.close import close_account
    from tracelens.flops.counting import flops_per_token, flops_per_token_by_convention
    from tracelens.flops.options import FlopsOptions
    from tracelens.flops.peaks import peak_flop_per_s
    from tracelens.flops.place import place_activities
    from tracelens.flops.presets import load_model
    from tracelens.flops.recompute import find_recompute
    from tracelens.flops.stage import assign_flops

__all__ = [
    "FlopsOptions",
    "assign_flops",
    "borrow_flops",
    "close_account",
    "find_recompute",
    "flops_per_token",
    "flops_per_token_by_convention",
    "load_model",
    "peak_flop_per_s",
    "place_activities",
]

_HOME = {
    "FlopsOptions": "options",
    "assign_flops": "stage",
    "borrow_flops": "borrow",
    "close_account": "close",
    "find_recompute": "recompute",
    "flops_per_token": "counting",
    "flops_per_token_by_convention": "counting",
    "load_model": "presets",
    "peak_flop_per_s": "peaks",
    "place_activities": "place",
}


def __getattr__(name: str) -> Any:
    # The pure functions must not pay for the store, nor the store for the model presets.
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
