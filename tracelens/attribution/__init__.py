"""From classified activities to the exclusive partition of every GPU's time."""

from tracelens.attribution.stage import attribute
from tracelens.attribution.waits import charge_waits

__all__ = ["attribute", "charge_waits"]
