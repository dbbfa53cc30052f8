"""What could one do about a loss, and what in the trace says so? One file a rule."""

from tracelens.report.advice.findings import advised, findings, health
from tracelens.report.advice.rule import Rule, rules

__all__ = ["Rule", "advised", "findings", "health", "rules"]
