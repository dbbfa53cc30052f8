"""What does the answer look like in a terminal of 100 columns and 40 rows?"""

from typing import Any

from tracelens.report.bars import Bar, bars, printed_shares
from tracelens.report.headline import mfu_text, rates, subject, trust
from tracelens.report.limits import limits
from tracelens.report.plain_text import flow, pad, shorten, width_of, wrap
from tracelens.report.rounding import tenths_text

_HEIGHT = 39  # one row is left for the prompt
_ROWS = 5
_LIMITS = 3
_BAR_COLUMNS = 30
_LABEL_COLUMNS = 37
_BOLD, _DIM, _GREEN, _YELLOW = "1", "2", "32", "33"


def render(document: dict[str, Any], *, all_rows: bool, color: bool, width: int = 100) -> str:
    """Draw the answer as text, without a line break at its end.

    Args:
        document: the answer.
        all_rows: show every loss, limit and note instead of the first few.
        color: use ANSI colors; otherwise the text holds no escape sequence at all.
        width: columns of the terminal; no line is longer.
    """
    paint = _Paint(enabled=color)
    top = [*_head(document, paint, width), "", *_waterfall(document, paint, width), ""]
    foot = _foot(document, all_rows=all_rows, width=width)
    room = None if all_rows else _HEIGHT - len(top) - len(foot)
    lines = [*top, *_losses(document, paint, width, room), *foot]
    return "\n".join(line.rstrip() for line in lines)


class _Paint:
    """Colors whole pieces of text that are already cut to their width."""

    def __init__(self, *, enabled: bool) -> None:
        self._enabled = enabled

    def __call__(self, text: str, style: str) -> str:
        return f"\x1b[{style}m{text}\x1b[0m" if self._enabled and text else text


def _head(document: dict[str, Any], paint: _Paint, width: int) -> list[str]:
    first = flow(["TraceLens", *subject(document)], width, indent="  ")
    figures = wrap(" · ".join([mfu_text(document), *rates(document)]), width, lines=3)
    statements = trust(document)
    well = all(ok for _, ok in statements)
    words = flow([text for text, _ in statements], width, indent="  ")
    return [
        *first,
        *(paint(line, _BOLD) for line in figures),
        *(paint(line, _GREEN if well else _YELLOW) for line in words),
    ]


def _waterfall(document: dict[str, Any], paint: _Paint, width: int) -> list[str]:
    drawn = bars(document)
    scale = max((abs(bar.level) for bar in drawn), default=1) or 1
    return [_bar_line(bar, scale, paint, width) for bar in drawn]


def _bar_line(bar: Bar, scale: int, paint: _Paint, width: int) -> str:
    before = bar.level if bar.is_end else bar.level - bar.tenths
    low, high = sorted((_columns(bar.level, scale), _columns(before, scale)))
    shade = "░" if bar.tenths < 0 else "▒"
    drawing = "█" * (high if bar.is_end else low) + shade * (0 if bar.is_end else high - low)
    points = tenths_text(bar.tenths, signed=not bar.is_end).rjust(6)
    text = f" {points}  {pad(drawing, _BAR_COLUMNS)}  {bar.label}"
    room = width - width_of(text) - 4
    inline = _inline(bar, room)
    return (
        (paint(f" {points}", _BOLD) if bar.is_end else f" {points}")
        + f"  {pad(drawing, _BAR_COLUMNS)}  "
        + shorten(bar.label, width - _BAR_COLUMNS - 11)
        + (f"  ▸ {paint(inline, _DIM)}" if inline else "")
    )


def _columns(tenths: int, scale: int) -> int:
    return max(0, round(tenths * _BAR_COLUMNS / scale))


def _inline(bar: Bar, room: int) -> str:
    """Name the parts of a bar as far as they fit."""
    words: list[str] = []
    for item, label, tenths in bar.parts:
        part = f"{_brief(item, label)} {tenths_text(-tenths if bar.tenths < 0 else tenths)}"
        more = ", …" if len(words) + 1 < len(bar.parts) else ""
        if width_of(", ".join([*words, part]) + more) > room:
            return ", ".join([*words, "…"]) if words else ""
        words.append(part)
    return ", ".join(words)


def _brief(item: str, label: str) -> str:
    """Shorten words that their bar already says: ``exposed DP communication: wait``."""
    if item.startswith("comm."):
        _, dimension, part = item.split(".", 2)
        dimension = "unknown dimension" if dimension == "unknown" else dimension
        return dimension if part == "undivided" else f"{dimension} {part}"
    return shorten(label.removesuffix(" below peak").removeprefix("exposed copy "), 40)


def _losses(document: dict[str, Any], paint: _Paint, width: int, room: int | None) -> list[str]:
    """List the losses, largest first; ``room`` is how many lines they may take."""
    rows = document["losses"]
    if not rows:
        return ["no losses: nothing but FLOP-bearing time was seen"]
    head = f" #  {pad('loss', _LABEL_COLUMNS)}  share  if fixed  where / evidence"
    lines = [paint(shorten(head, width), _BOLD)]
    shares = printed_shares(document)
    for index, row in enumerate(rows):
        drawn = _loss_lines(f"{index + 1:>2}", row, shares[row["id"]], (paint, width))
        # The last line is kept for telling what is left out; the largest loss is always shown.
        if room is not None and index and (index == _ROWS or len(lines) + len(drawn) > room - 1):
            rest = tenths_text(sum(shares[left["id"]] for left in rows[index:]))
            more = f"    {len(rows) - index} smaller losses, together {rest} pt: --all"
            return [*lines, paint(shorten(more, width), _DIM)]
        lines += drawn
    return lines


def _loss_lines(
    number: str, row: dict[str, Any], share: int, canvas: tuple[_Paint, int]
) -> list[str]:
    paint, width = canvas
    gain = row["recoverable_points"]
    fixed = "-" if gain is None else tenths_text(round(gain * 10), signed=True)
    head = f"{number}  {pad(row['label'], _LABEL_COLUMNS)}  {tenths_text(share):>5}  {fixed:>8}  "
    lines = [head + shorten(_where(row), max(width - width_of(head), 1))]
    details = f"      {row['tag']}, {row['confidence']}"
    if row["evidence"]:
        top = row["evidence"][0]
        text = top["text"].removeprefix("largest: ").replace(f" on rank {top['rank']}", "", 1)
        details += f" · {text}"
    lines.append(paint(shorten(details, width), _DIM))
    if row["advice"]:
        lines.append(shorten(f"      → {row['advice']}", width))
    return lines


def _where(row: dict[str, Any]) -> str:
    if not row["evidence"]:
        return "no single instance"
    top = row["evidence"][0]
    at = top["viewer_time"] or f"{top['start_ns']} ns of the trace clock"
    return f"rank {top['rank']} at {at}"


def _foot(document: dict[str, Any], *, all_rows: bool, width: int) -> list[str]:
    found = limits(document)
    shown = found if all_rows else found[:_LIMITS]
    lines = [
        line
        for limit in shown
        for line in flow(
            [f"not measurable here: {limit.what}", f"→ record with: {limit.remedy}"],
            width,
            separator=" ",
            indent="  ",
        )
    ]
    if all_rows:
        lines += [
            line for note in document["quality"]["notes"] for line in flow([f"note: {note}"], width)
        ]
    return ["", *lines] if lines else []
