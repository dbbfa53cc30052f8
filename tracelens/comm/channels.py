"""Which kernels belong to the same communicator, or the same direction between two ranks?

A channel is what exchanges can be matched in: its members do the same things in the same order.
"""

import json
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracelens.comm.participants import Array, Participants
from tracelens.store import Store

_GROUPS = (
    "SELECT process_group, group_ranks, group_desc, group_name, group_size FROM raw.process_group"
)


@dataclass(frozen=True)
class Channel:
    """Kernels of one communicator.

    Attributes:
        key: what names it.
        members: rows of ``Participants`` on each GPU, in order.
        expected: how many ranks belong to it; ``None`` where that is not known.
        is_message: whether it leads from one rank to another.
        is_inferred: whether the times of its kernels, not a record, put it together.
    """

    key: tuple[Any, ...]
    members: dict[int, Array]
    expected: int | None
    is_message: bool = False
    is_inferred: bool = False

    @property
    def lacks(self) -> str:
        """Why its exchanges cannot be divided whoever is matched; empty where they can."""
        if self.expected is None:
            return "the size of the process group is not known"
        if len(self.members) < self.expected:
            return "ranks of the process group are missing"
        return ""


@dataclass(frozen=True)
class _Group:
    key: tuple[Any, ...]
    ranks: tuple[int, ...] | None
    size: int | None


def recorded_channels(store: Store, table: Participants) -> list[Channel]:
    """Return the channels of process groups that were recorded, those with messages last."""
    groups = _groups(store)
    members: dict[tuple[Any, ...], dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    sizes: dict[tuple[Any, ...], int | None] = {}
    for number, group in groups.items():
        for row in np.flatnonzero(table.process_group == number).tolist():
            key, size = _channel_of(table, row, group)
            if key:
                members[key][int(table.gpu[row])].append(row)
                sizes[key] = size
    return [
        Channel(
            key,
            {gpu: np.array(sorted(rows)) for gpu, rows in sorted(found.items())},
            sizes[key],
            is_message=key[0] == "message",
        )
        for key, found in sorted(members.items(), key=lambda item: str(item[0]))
    ]


def _channel_of(table: Participants, row: int, group: _Group) -> tuple[tuple[Any, ...], int | None]:
    if table.collective[row] != "send_recv":
        return ("group", *group.key), group.size
    direction = table.direction[row]
    if not direction:
        return (), None
    ends = (int(table.place[row]), int(table.peer_place[row]))
    return ("message", *group.key, *(ends if direction == "send" else ends[::-1])), 2


def _groups(store: Store) -> dict[int, _Group]:
    """Key groups by their ranks and descriptions: a name is unique within one trace only.

    Groups of the same ranks and description are told apart by name where every file uses the same
    names for them.
    """
    rows = store.records(_GROUPS)
    names: dict[tuple[Any, ...], set[str | None]] = defaultdict(set)
    for row in rows:
        names[_who(row)].add(row["group_name"])
    found = {}
    for row in rows:
        who = _who(row)
        ranks = who[0] if isinstance(who[0], tuple) else None
        several = len(names[who]) > 1 and _same_names_everywhere(store, who, rows)
        key = (*who, row["group_name"]) if several else who
        size = len(ranks) if ranks else row["group_size"]
        found[row["process_group"]] = _Group(key, ranks, size)
    return found


def _same_names_everywhere(store: Store, who: tuple[Any, ...], rows: list[dict[str, Any]]) -> bool:
    numbers = [row["process_group"] for row in rows if _who(row) == who]
    seen: dict[int, set[int]] = defaultdict(set)
    for gpu, number in store.rows(
        "SELECT DISTINCT a.gpu, d.process_group FROM raw.activity_dimension AS d "
        "JOIN raw.activity AS a USING (activity_id) WHERE list_contains(?, d.process_group)",
        [numbers],
    ):
        seen[gpu].add(number)
    return all(found == set(numbers) for found in seen.values())


def _who(row: dict[str, Any]) -> tuple[Any, ...]:
    try:
        ranks = json.loads(row["group_ranks"] or "")
        if isinstance(ranks, list) and ranks and all(isinstance(rank, int) for rank in ranks):
            return (tuple(sorted(ranks)), row["group_desc"] or "")
    except (ValueError, RecursionError):  # newer profilers shorten a long list with "..."
        pass
    return (row["group_ranks"] or "", row["group_desc"] or "", row["group_name"] or "")
