"""What is an advice rule, and which ones are there? One file a rule, in the folder ``rules``."""

import string
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from tracelens.report.plain_text import shorten
from tracelens.units import format_duration

LEVERS = (
    "fusion",
    "overlap",
    "less recompute",
    "parallel layout",
    "graph compilation",
    "number format",
    "input and host",
    "recording",
)
"""What a piece of advice turns: the five levers of the field, and three of the recipe itself."""

LEAST_POINTS = 1.0
"""No rule speaks about less."""

_TEXT_COLUMNS = 40


@dataclass(frozen=True)
class Rule:
    """One rule.

    Attributes:
        id: name of its file, and of its page.
        title: what is wrong, in a few words.
        lever: one of ``LEVERS``.
        losses: ids, or leading parts of ids, that it speaks about.
        do: what to do.
        because: what triggered it.
        why: the explanation, Markdown.
        query: SQL that has to return a row; empty where the loss itself is the trigger.
        evidence: words with the columns of that row.
        least_points: what it leaves alone because it is usual; never below one point.
    """

    id: str
    title: str
    lever: str
    losses: tuple[str, ...]
    do: str
    because: str
    why: str
    query: str = ""
    evidence: str = ""
    least_points: float = LEAST_POINTS

    @property
    def text(self) -> str:
        """The line that stands beside a loss."""
        return f"{self.do} ({self.because})"

    @property
    def page(self) -> str:
        """Where its explanation lies in the documentation."""
        return f"docs/explanation/advice/{self.id}.md"

    def matches(self, loss: str) -> int:
        """Return how much of a loss id a name of this rule covers; 0 where none does."""
        covering = [name for name in self.losses if loss == name or loss.startswith(f"{name}.")]
        return max((len(name) for name in covering), default=0)

    def evidence_text(self, row: Mapping[str, Any]) -> str:
        """Put what the query found into words."""
        return _Words().format(self.evidence, **row)


class _Words(string.Formatter):
    """Writes durations and counts as reports do, and keeps names of a trace harmless."""

    def format_field(self, value: Any, format_spec: str) -> str:
        if value is None:
            return "unknown"
        if format_spec == "duration":
            return format_duration(int(value))
        if isinstance(value, str):
            return shorten(value, _TEXT_COLUMNS)
        if isinstance(value, int) and not format_spec:
            return f"{value:,}"
        return str(super().format_field(value, format_spec))


@cache
def rules() -> dict[str, Rule]:
    """Return the rules by id, in the order of their names.

    Raises:
        TypeError: if a file has a key that a rule does not have, or lacks one.
    """
    folder = resources.files("tracelens.report.advice").joinpath("rules")
    files = sorted((item for item in folder.iterdir()), key=lambda item: item.name)
    found = {}
    for file in files:
        name = file.name.removesuffix(".toml")
        values = tomllib.loads(file.read_text(encoding="utf-8"))
        found[name] = Rule(id=name, **values | {"losses": tuple(values["losses"])})
    return found
