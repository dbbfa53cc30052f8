"""Which parallel dimension does a process group serve, as far as its description says it?"""

import re
import tomllib
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

UNKNOWN = "unknown"
_SHARD_OPS = frozenset({"all_gather", "reduce_scatter"})


@dataclass(frozen=True)
class GroupRule:
    """One rule of ``groups.toml``.

    Attributes:
        dimension: dimension of a group whose description matches.
        pattern: what the whole description must match.
        sharded: dimension of the shard traffic of such a group; ``None`` when it has none.
        examples: descriptions that this rule, and none before it, must match.
    """

    dimension: str
    pattern: re.Pattern[str]
    sharded: str | None
    examples: tuple[str, ...]

    def dimension_for(self, op: str, ops_of_group: Collection[str]) -> str:
        """Return the dimension of one collective, given all that its group does."""
        if self.sharded and op in _SHARD_OPS and _SHARD_OPS.issubset(ops_of_group):
            return self.sharded
        return self.dimension


@cache
def group_rules() -> tuple[GroupRule, ...]:
    """Return the rules, in order."""
    return tuple(
        GroupRule(
            dimension=entry["dimension"],
            pattern=re.compile(entry["pattern"], re.IGNORECASE | re.ASCII),
            sharded=entry.get("sharded"),
            examples=tuple(entry["examples"]),
        )
        for entry in _file()["rule"]
    )


def silent_descriptions() -> tuple[str, ...]:
    """Return descriptions that are known to say nothing."""
    return tuple(_file()["silent"])


def rule_of(description: str | None) -> GroupRule | None:
    """Return the first rule that matches a description, or ``None``."""
    text = (description or "").strip()
    return next((rule for rule in group_rules() if rule.pattern.fullmatch(text)), None)


@cache
def _file() -> dict[str, Any]:
    text = resources.files("tracelens.comm").joinpath("groups.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)
