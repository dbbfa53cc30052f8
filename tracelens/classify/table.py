"""Which rule of an ordered table does a text match first?"""

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Any, Self


@dataclass(frozen=True)
class Rule:
    """One line of a table.

    Attributes:
        value: what a match means: a class, a label, a dtype. Empty where the text decides nothing.
        pattern: searched for anywhere in the text; anchors are the rule's own business.
        examples: texts that this very rule must match first.
        near_misses: texts that it must not match.
        extra: further keys of the rule.
    """

    value: str
    pattern: re.Pattern[str]
    examples: tuple[str, ...] = ()
    near_misses: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Table:
    """Rules in order; the first that matches wins."""

    rules: tuple[Rule, ...]

    @classmethod
    def load(cls, file: str, section: str, value_key: str) -> Self:
        """Read a section of a data file that lies beside this module."""
        text = resources.files("tracelens.classify").joinpath(file).read_text(encoding="utf-8")
        return cls.of(tomllib.loads(text)[section], value_key)

    @classmethod
    def of(cls, entries: Iterable[Mapping[str, Any]], value_key: str) -> Self:
        """Build a table from the parsed entries of a section."""
        known = {value_key, "pattern", "examples", "not"}
        return cls(
            tuple(
                Rule(
                    value=entry[value_key],
                    pattern=re.compile(entry["pattern"]),
                    examples=tuple(entry.get("examples", ())),
                    near_misses=tuple(entry.get("not", ())),
                    extra={key: value for key, value in entry.items() if key not in known},
                )
                for entry in entries
            )
        )

    def match(self, text: str) -> Rule | None:
        """Return the first rule that matches, or ``None``."""
        for rule in self.rules:
            if rule.pattern.search(text):
                return rule
        return None
