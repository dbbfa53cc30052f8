"""How is time by rank and by step laid out in rows that can be compared by eye?"""

import statistics
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from tracelens.report.sections.account import groups_of
from tracelens.taxonomy import GROUP_COLORS, GROUP_TITLES, GROUPS

MOST_ROWS = 128
_FULL_HEAT_FRAC = 0.05


class Share(NamedTuple):
    """One group's part of a row."""

    group: str
    title: str
    color: str
    ns: int
    frac: float
    heat: float


class Row(NamedTuple):
    """Time of a row by group, before it is compared with others."""

    rank: int
    step: int | None
    name: str
    groups: dict[str, int]


class HeatRow(NamedTuple):
    """One rank, one step of a rank, or what a phase or a module took on all of them."""

    rank: int
    step: int | None
    name: str
    total_ns: int
    shares: tuple[Share, ...]


class HeatTable(NamedTuple):
    """Rows with the groups that any of them has, and how many rows were left out."""

    groups: tuple[str, ...]
    rows: tuple[HeatRow, ...]
    left_out: int


def composition(document: dict[str, Any]) -> list[Share]:
    """Return the groups of the whole account that have time."""
    return [share for share in _shares(document["time"]["groups"], {}) if share.ns]


def heat_rows(document: dict[str, Any], table: str) -> HeatTable:
    """Return ``per_rank``, ``per_step``, ``by_phase`` or ``by_module`` by group.

    Cells are shaded where a row exceeds the median one.
    """
    single_rank = len(document["run"]["ranks"]) == 1
    given = list(_given(document["time"][table]))
    shown = [
        Row(
            row.get("rank", 0),
            row.get("step"),
            _name_of(row),
            groups_of(row["leaves"], single_rank=single_rank),
        )
        for row in given[:MOST_ROWS]
    ]
    used = tuple(group for group in GROUPS if any(row.groups[group] for row in shown))
    usual = {group: statistics.median(_frac(row.groups, group) for row in shown) for group in used}
    rows = tuple(
        HeatRow(
            row.rank,
            row.step,
            row.name,
            sum(row.groups.values()),
            tuple(share for share in _shares(row.groups, usual) if share.group in used),
        )
        for row in shown
    )
    return HeatTable(used, rows, len(given) - len(shown))


def _name_of(row: Mapping[str, Any]) -> str:
    if "module" in row:
        return row["module"] or "no module known"
    return str(row.get("phase", ""))


def _given(table: Any) -> Iterable[dict[str, Any]]:
    """Return the rows of a table of time; a mapping names its rows by its keys."""
    if isinstance(table, Mapping):
        rows = ({"phase": name, "leaves": leaves} for name, leaves in table.items())
        return [row for row in rows if row["leaves"]]
    return table or ()


def _shares(groups: dict[str, int], usual: dict[str, float]) -> list[Share]:
    return [
        Share(
            group,
            GROUP_TITLES[group],
            GROUP_COLORS[group],
            groups[group],
            _frac(groups, group),
            min(1.0, max(0.0, _frac(groups, group) - usual.get(group, 1.0)) / _FULL_HEAT_FRAC),
        )
        for group in GROUPS
    ]


def _frac(groups: dict[str, int], group: str) -> float:
    return groups[group] / (sum(groups.values()) or 1)
