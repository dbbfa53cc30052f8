"""TraceLens: where every point of MFU went, from the traces that GPU profilers write.

The public names load on first use, so that importing the package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tracelens.classify import kernel_class
    from tracelens.errors import TraceLensError
    from tracelens.flops import flops_per_token, peak_flop_per_s
    from tracelens.run import Run, attribute

__all__ = [
    "Run",
    "TraceLensError",
    "attribute",
    "flops_per_token",
    "kernel_class",
    "peak_flop_per_s",
]

_HOME = {
    "Run": "tracelens.run",
    "TraceLensError": "tracelens.errors",
    "attribute": "tracelens.run",
    "flops_per_token": "tracelens.flops",
    "kernel_class": "tracelens.classify",
    "peak_flop_per_s": "tracelens.flops",
}


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'tracelens' has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
