"""Classification: names and metadata become classes; nowhere else is a name matched."""

from tracelens.classify.host import host_label
from tracelens.classify.rules import kernel_class
from tracelens.classify.stage import classify

__all__ = ["classify", "host_label", "kernel_class"]
