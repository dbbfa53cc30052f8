"""Traces with planted losses, and the truth about them.

A discrete-event simulation of training jobs. It knows the definitions of the accounting model but
shares no code with the analysis, so that the one can be tested against the other.
"""

from tracelens.simulate.dialect import KINETO_DIALECTS, NSYS_VERSIONS, Dialect
from tracelens.simulate.output import Formats, truth_text, write
from tracelens.simulate.run import Run, simulate
from tracelens.simulate.scenarios import SCENARIOS

__all__ = [
    "KINETO_DIALECTS",
    "NSYS_VERSIONS",
    "SCENARIOS",
    "Dialect",
    "Formats",
    "Run",
    "simulate",
    "truth_text",
    "write",
]
