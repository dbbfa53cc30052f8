"""How do the losses look in a terminal?"""

from typing import Any

from tracelens.report.bars import printed_shares
from tracelens.report.paint import BOLD, DIM, Paint
from tracelens.report.plain_text import flow, pad, shorten, width_of
from tracelens.report.rounding import tenths_text

LEAST_LINES = 6
"""Heading, one loss with evidence and advice, what is left out, legend."""

_ROWS = 5
_LABEL_COLUMNS, _LEAST_LABEL_COLUMNS = 37, 20
_WHERE_COLUMNS = 34  # a rank and a time in the viewer
_LEGEND = "M measured, D derived, I inferred, A assumed"


def loss_table(document: dict[str, Any], paint: Paint, width: int, room: int | None) -> list[str]:
    """List the losses, largest first; ``room`` is how many lines they may take."""
    rows = document["losses"]
    if not rows:
        return ["no losses: nothing but FLOP-bearing time was seen"]
    columns = _Columns(document, width)
    head = f" #  {pad('loss', columns.label)}  share  {columns.heads}"
    head += "where / basis, confidence · evidence"
    lines = [paint(shorten(head, width), BOLD)]
    shares = printed_shares(document)
    for index, row in enumerate(rows):
        title = f"{index + 1:>2}  {pad(row['label'], columns.label)}  "
        title += f"{tenths_text(shares[row['id']]):>5}  {columns.of(row)}"
        drawn = _loss_lines(title, row, (paint, width))
        # The last line is kept for telling what is left out; the largest loss is always shown.
        if room is not None and index and (index == _ROWS or len(lines) + len(drawn) > room - 1):
            rest = tenths_text(sum(shares[left["id"]] for left in rows[index:]))
            more = f"{_smaller(len(rows) - index)} {rest} pt: --all"
            return [*lines, *(paint(line, DIM) for line in _legend([more], width))]
        lines += drawn
    return [*lines, *(paint(line, DIM) for line in _legend([], width))]


class _Columns:
    """Which columns are there, between the share and where to look, and how wide are labels?"""

    def __init__(self, document: dict[str, Any], width: int) -> None:
        self._gains = has_gains(document)
        self._costs = document["cost"]["money_per_day"] is not None
        self.heads = "if fixed  " if self._gains else ""
        if self._costs:
            self.heads += f"{'money/day':>10}  "
        free = width - len(" 1  ") - len("  share  ") - len(self.heads) - _WHERE_COLUMNS
        self.label = max(_LEAST_LABEL_COLUMNS, min(_LABEL_COLUMNS, free))

    def of(self, row: dict[str, Any]) -> str:
        """Return the columns of one loss."""
        text = _gain(row) if self._gains else ""
        if self._costs:
            text += f"{_amount(row['money_per_day']):>10}  "
        return text


def _amount(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def has_gains(document: dict[str, Any]) -> bool:
    """Return whether it is known of any loss what a repair would gain."""
    return any(row["recoverable_points"] is not None for row in document["losses"])


def _gain(row: dict[str, Any]) -> str:
    gain = row["recoverable_points"]
    text = "-" if gain is None else tenths_text(round(gain * 10), signed=True)
    return f"{text:>8}  "


def _smaller(count: int) -> str:
    return "1 smaller loss," if count == 1 else f"{count} smaller losses, together"


def _legend(parts: list[str], width: int) -> list[str]:
    return [f"    {line}" for line in flow([*parts, _LEGEND], width - 4)]


def _loss_lines(title: str, row: dict[str, Any], canvas: tuple[Paint, int]) -> list[str]:
    paint, width = canvas
    lines = [title + shorten(_where(row), max(width - width_of(title), 1))]
    details = f"      {row['tag']}, {row['confidence']}"
    if row["evidence"]:
        top = row["evidence"][0]
        text = top["text"].removeprefix("largest: ").replace(f" on rank {top['rank']}", "", 1)
        details += f" · {text}"
    lines.append(paint(shorten(details, width), DIM))
    if row["advice"]:
        lines.append(shorten(f"      → {row['advice']}", width))
    return lines


def _where(row: dict[str, Any]) -> str:
    if not row["evidence"]:
        return "no single instance"
    top = row["evidence"][0]
    at = top["viewer_time"] or f"{top['start_ns']} ns of the trace clock"
    return f"rank {top['rank']} at {at}"
