"""Where did the time go: by leaf, by group, by rank, by step, and what ran hidden?"""

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from tracelens.store import Store
from tracelens.taxonomy import GROUPS, LEAF_TITLES, group_of_leaf

_ORDER = {leaf: index for index, leaf in enumerate(LEAF_TITLES)}
BUSY_ROOTS = ("flop", "compute", "opaque", "comm", "mem")


@dataclass(frozen=True)
class Account:
    """Time by rank, step and leaf: the rows that every figure of time is a sum of.

    The step is ``None`` where the window is not made of steps.
    """

    rows: tuple[tuple[int, int | None, str, int], ...]

    @classmethod
    def of(cls, store: Store) -> "Account":
        """Read the account of a store."""
        found = store.rows(
            "SELECT rank, step, leaf, dur_ns FROM loss_time WHERE dur_ns <> 0 "
            "ORDER BY rank, step, leaf"
        )
        return cls(tuple((rank, step, leaf, dur_ns) for rank, step, leaf, dur_ns in found))

    @property
    def total_ns(self) -> int:
        """Time charged, all ranks and steps."""
        return sum(row[3] for row in self.rows)

    @property
    def single_rank(self) -> bool:
        """Whether only one rank was seen."""
        return len({row[0] for row in self.rows}) <= 1

    def leaves(self) -> dict[str, int]:
        """Time by leaf, in the order of the taxonomy; leaves without time are left out."""
        return _by_leaf((leaf, dur_ns) for _, _, leaf, dur_ns in self.rows)

    def groups(self) -> dict[str, int]:
        """Time by group; every group is present."""
        return groups_of(self.leaves(), single_rank=self.single_rank)

    def per_rank(self) -> list[dict[str, Any]]:
        """Time by rank and leaf."""
        parts: dict[int, list[tuple[str, int]]] = defaultdict(list)
        for rank, _, leaf, dur_ns in self.rows:
            parts[rank].append((leaf, dur_ns))
        return [{"rank": rank, "leaves": _by_leaf(parts[rank])} for rank in sorted(parts)]

    def per_step(self) -> list[dict[str, Any]]:
        """Time by rank, step and leaf."""
        parts: dict[tuple[int, int | None], list[tuple[str, int]]] = defaultdict(list)
        for rank, step, leaf, dur_ns in self.rows:
            parts[rank, step].append((leaf, dur_ns))
        return [
            {"rank": rank, "step": step, "leaves": _by_leaf(parts[rank, step])}
            for rank, step in parts
        ]

    def busy_ns(self) -> int:
        """Time in which something ran on the GPU."""
        return sum(ns for leaf, ns in self.leaves().items() if leaf.split(".")[0] in BUSY_ROOTS)


def time(store: Store, account: Account) -> dict[str, Any]:
    """Return the section ``time``."""
    return {
        "leaves": account.leaves(),
        "groups": account.groups(),
        "per_rank": account.per_rank(),
        "per_step": account.per_step(),
        "hidden": _hidden(store),
        "by_phase": store.result("by_phase"),
        "by_module": store.result("by_module"),
    }


def groups_of(leaves: dict[str, int], *, single_rank: bool) -> dict[str, int]:
    """Roll leaves up into groups; every group is present."""
    groups = dict.fromkeys(GROUPS, 0)
    for leaf, dur_ns in leaves.items():
        groups[group_of_leaf(leaf, single_rank=single_rank)] += dur_ns
    return groups


def _hidden(store: Store) -> dict[str, dict[str, int]]:
    hidden: dict[str, dict[str, int]] = {}
    for class_leaf, by_leaf, dur_ns in store.rows(
        "SELECT class_leaf, by_leaf, sum(dur_ns)::BIGINT FROM raw.hidden "
        "GROUP BY class_leaf, by_leaf HAVING sum(dur_ns) <> 0 ORDER BY class_leaf, by_leaf"
    ):
        hidden.setdefault(class_leaf, {})[by_leaf] = dur_ns
    return hidden


def _by_leaf(parts: Any) -> dict[str, int]:
    sums: dict[str, int] = defaultdict(int)
    for leaf, dur_ns in parts:
        sums[leaf] += dur_ns
    return {leaf: sums[leaf] for leaf in sorted(sums, key=lambda leaf: (_position(leaf), leaf))}


def _position(leaf: str) -> int:
    return _ORDER.get(leaf, len(_ORDER))
