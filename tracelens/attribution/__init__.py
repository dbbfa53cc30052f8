"""From classified activities to the exclusive partition of every GPU's time."""

from tracelens.attribution.stage import attribute

__all__ = ["attribute"]
