"""Which figures can be had by name, outside of the page?"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tracelens.errors import UsageError
from tracelens.report.figure import waterfall_figure
from tracelens.report.figures import composition_figure, kernel_figure
from tracelens.report.tables import kernels
from tracelens.store import Store

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

FIGURES: "dict[str, Callable[[dict[str, Any], Store], Figure]]" = {
    "waterfall": lambda document, _: waterfall_figure(document),
    "steps": lambda document, _: composition_figure(document, "per_step"),
    "ranks": lambda document, _: composition_figure(document, "per_rank"),
    "kernels": lambda document, store: kernel_figure(kernels(store, document)),
}
"""By name: from the answer and the store that it came from."""


def draw(name: str, document: dict[str, Any], store: Store) -> "Figure":
    """Return a figure of the page as a Plotly object.

    Raises:
        UsageError: if there is no figure of this name.
    """
    if name not in FIGURES:
        raise UsageError(f"no figure {name!r}", hint=f"figures: {', '.join(FIGURES)}")
    return FIGURES[name](document, store)
