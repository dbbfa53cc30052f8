"""How is the ladder below the peak laid out: one row a part, one row a shape?"""

from typing import Any, NamedTuple

from tracelens.report.rounding import two_digits
from tracelens.taxonomy import INEFFICIENCY_TITLES
from tracelens.units import format_duration

PART_TITLES = {
    "gemm": "matmul",
    "conv": "convolution",
    "attention": "attention",
    "recompute": "recomputed kernels",
}
_COLORS = {
    "ideal": "#117733",
    "ineff.precision": "#3f7cac",
    "ineff.memory": "#7b5ea7",
    "ineff.sm_reserved": "#b8651b",
    "ineff.quantisation": "#c9b458",
    "ineff.clock": "#8e3b46",
    "ineff.ceiling": "#9bbf6b",
    "ineff.kernel": "#a7aeb5",
    "ineff.contention": "#d9822b",
}
_STEPS = tuple(step for step in _COLORS if step != "ideal")


class Slice(NamedTuple):
    """A piece of the bar of a row."""

    step: str
    title: str
    color: str
    ns: int
    frac: float


class LadderRow(NamedTuple):
    """One part of the FLOP-bearing time, or the instances of one shape.

    Attributes:
        title: words.
        kernel: name; empty for a part.
        detail: how many, in which format, how fast.
        owned_ns: time.
        slices: what it consists of; steps without evidence are left out.
        unknown: steps without evidence, with the reason where one is told.
    """

    title: str
    kernel: str
    detail: str
    owned_ns: int
    slices: tuple[Slice, ...]
    unknown: tuple[str, ...]


def ladder_rows(document: dict[str, Any]) -> list[LadderRow]:
    """Return the parts of the FLOP-bearing time."""
    return [_part(part) for part in document["ladder"]["parts"]]


def shape_rows(document: dict[str, Any]) -> list[LadderRow]:
    """Return the shapes that lose most."""
    peak = document["peak"]["flop_per_s"]
    return [_shape(row, peak) for row in document["ladder"]["shapes"]]


def legend(document: dict[str, Any]) -> list[Slice]:
    """Return each step that any row shows, once, in the order of the ladder."""
    seen = {
        part.step: part
        for row in [*ladder_rows(document), *shape_rows(document)]
        for part in row.slices
        if part.frac > 0
    }
    return [seen[step] for step in _COLORS if step in seen]


def ladder_lines(document: dict[str, Any]) -> list[str]:
    """Return the ladder as text, a line a part, then one a shape."""
    return [
        f"{row.title} {row.detail}: {_words(row)}"
        for row in [*ladder_rows(document), *shape_rows(document)]
    ]


def _words(row: LadderRow) -> str:
    parts = sorted(row.slices, key=lambda slice_: -abs(slice_.ns))
    return ", ".join(f"{part.title} {format_duration(part.ns)}" for part in parts if part.ns)


def _part(part: dict[str, Any]) -> LadderRow:
    losses = {step["id"]: step["lost_ns"] for step in part["steps"]}
    unknown = tuple(
        f"{INEFFICIENCY_TITLES[step['id']]}: {step['reason']}"
        for step in part["steps"]
        if step["lost_ns"] is None
    )
    title = PART_TITLES.get(part["part"], part["part"])
    slices = _slices(part["ideal_ns"], losses, part["owned_ns"])
    return LadderRow(
        title, "", f"in {format_duration(part['owned_ns'])}", part["owned_ns"], slices, unknown
    )


def _shape(row: dict[str, Any], peak: float | None) -> LadderRow:
    losses = {step: row[f"{step.removeprefix('ineff.')}_ns"] for step in _STEPS}
    sizes = "×".join(str(row[size]) for size in ("m", "n", "k") if row[size])
    if sizes and row["batch"] != 1:
        sizes += f" ×{row['batch']}"
    rate = row["flop_per_s"]
    words = [f"{row['instances']} in {format_duration(row['owned_ns'])}", row["dtype"] or ""]
    if rate and peak:
        words.append(f"{two_digits(100 * rate / peak)} % of peak")
    if row["flop_per_byte"]:
        words.append(f"{two_digits(row['flop_per_byte'])} FLOP/byte")
    return LadderRow(
        sizes or row["shape"] or row["name"],
        row["name"],
        ", ".join(word for word in words if word),
        row["owned_ns"],
        _slices(row["ideal_ns"], losses, row["owned_ns"]),
        tuple(INEFFICIENCY_TITLES[step] for step in _STEPS if losses[step] is None),
    )


def _slices(ideal_ns: int, losses: dict[str, int | None], owned_ns: int) -> tuple[Slice, ...]:
    found = [("ideal", "at the peak", ideal_ns)]
    found += [
        (step, INEFFICIENCY_TITLES[step], lost)
        for step in _STEPS
        if (lost := losses.get(step)) is not None
    ]
    whole = max(owned_ns, 1)
    return tuple(
        Slice(step, title, _COLORS[step], ns, max(ns, 0) / whole) for step, title, ns in found
    )
