"""What does the answer look like in a terminal of 100 columns and 40 rows?"""

from typing import Any

from tracelens.report.bars import Bar, bars
from tracelens.report.headline import (
    mfu_figure,
    mfu_reason,
    option_notes,
    other_definitions,
    rates,
    subject,
)
from tracelens.report.ladder_rows import ladder_lines
from tracelens.report.limits import Limit, limits
from tracelens.report.loss_table import LEAST_LINES, loss_table
from tracelens.report.paint import BOLD, DIM, GREEN, YELLOW, Paint
from tracelens.report.plain_text import flow, pad, shorten, width_of, wrap
from tracelens.report.rounding import tenths_text
from tracelens.report.trust import trust

_HEIGHT = 39  # one row is left for the prompt
_LIMITS = 3
_NOTE_LINES = 3
_BAR_COLUMNS, _LEAST_BAR_COLUMNS = 30, 12
_BAR_LABEL_COLUMNS = 48  # points and words beside a bar


def render(document: dict[str, Any], *, all_rows: bool, color: bool, width: int = 100) -> str:
    """Draw the answer as text, without a line break at its end.

    Args:
        document: the answer.
        all_rows: show every loss, limit and note instead of the first few.
        color: use ANSI colors; otherwise the text holds no escape sequence at all.
        width: columns of the terminal; no line is longer.
    """
    paint = Paint(enabled=color)
    head = _head(document, paint, width, _NOTE_LINES if not all_rows else None)
    top = [*head, "", *_waterfall(document, paint, width), ""]
    spare = _HEIGHT - len(top) - LEAST_LINES
    foot = [*_health(document, paint), *_foot(document, width, None if all_rows else spare)]
    room = None if all_rows else _HEIGHT - len(top) - len(foot)
    lines = [*top, *loss_table(document, paint, width, room), *foot]
    if all_rows:
        lines += _ladder(document, paint, width)
        lines += [
            line for note in document["quality"]["notes"] for line in flow([f"note: {note}"], width)
        ]
    return "\n".join(line.rstrip() for line in lines)


def _ladder(document: dict[str, Any], paint: Paint, width: int) -> list[str]:
    found = ladder_lines(document)
    if not found:
        return []
    head = paint("below the peak, by part and by the shapes that lose most", BOLD)
    return ["", head, *(line for row in found for line in wrap(f"  {row}", width, lines=3)), ""]


def _head(document: dict[str, Any], paint: Paint, width: int, note_lines: int | None) -> list[str]:
    first = flow(["TraceLens", *subject(document)], width, indent="  ")
    figures = wrap(
        " · ".join([_mfu(document), *rates(document), *other_definitions(document)]), width, lines=3
    )
    statements = trust(document)
    well = all(ok for _, ok in statements)
    words = flow([text for text, _ in statements], width, indent="  ")
    notes = [
        line for note in option_notes(document) for line in wrap(f"note: {note}", width, lines=2)
    ]
    return [
        *first,
        *(paint(line, BOLD) for line in figures),
        *(paint(line, GREEN if well else YELLOW) for line in words),
        *(paint(line, YELLOW) for line in notes[:note_lines]),
    ]


def _mfu(document: dict[str, Any]) -> str:
    figure, reason = mfu_figure(document), mfu_reason(document)
    if not reason:
        return figure
    return f"{figure}: {reason}" if document["mfu"]["low"] is None else f"{figure} ({reason})"


def _waterfall(document: dict[str, Any], paint: Paint, width: int) -> list[str]:
    drawn = bars(document)
    longest = max(_LEAST_BAR_COLUMNS, min(_BAR_COLUMNS, width - _BAR_LABEL_COLUMNS))
    whole = max((abs(bar.level) for bar in drawn), default=1) or 1
    return [_bar_line(bar, (whole, longest), paint, width) for bar in drawn]


def _bar_line(bar: Bar, scale: tuple[int, int], paint: Paint, width: int) -> str:
    longest = scale[1]
    before = bar.level if bar.is_end else bar.level - bar.tenths
    low, high = sorted((_columns(bar.level, scale), _columns(before, scale)))
    shade = "░" if bar.tenths < 0 else "▒"
    drawing = "█" * (high if bar.is_end else low) + shade * (0 if bar.is_end else high - low)
    points = tenths_text(bar.tenths, signed=not bar.is_end).rjust(6)
    text = f" {points}  {pad(drawing, longest)}  {bar.label}"
    room = width - width_of(text) - 4
    inline = _inline(bar, room)
    return (
        (paint(f" {points}", BOLD) if bar.is_end else f" {points}")
        + f"  {pad(drawing, longest)}  "
        + shorten(bar.label, width - longest - 11)
        + (f"  ▸ {paint(inline, DIM)}" if inline else "")
    )


def _columns(tenths: int, scale: tuple[int, int]) -> int:
    whole, longest = scale
    return max(0, round(tenths * longest / whole))


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


def _foot(document: dict[str, Any], width: int, room: int | None) -> list[str]:
    """Tell what is out of reach and what to do about it, in ``room`` lines if there are as many."""
    found = limits(document)
    if not found:
        other = "else " if mfu_reason(document) else ""
        return ["", f"nothing {other}was missing for this answer: record as now"]
    lines = ["", *_limit_lines(found[0], width)]
    for index, limit in enumerate(found[1:], start=1):
        drawn = _limit_lines(limit, width)
        # As with the losses, the last line is kept for what is left out.
        kept = 0 if index == len(found) - 1 else 1
        if room is not None and (index == _LIMITS or len(lines) + len(drawn) > room - kept):
            return [*lines, f"{len(found) - index} more not measurable here: --all"]
        lines += drawn
    if not mfu_reason(document) and not any(limit.remedies for limit in found):
        lines.append("nothing else was missing for this answer: record as now")
    return lines


def _health(document: dict[str, Any], paint: Paint) -> list[str]:
    health = document["health"]
    return ["", paint(health["text"], GREEN)] if health["ok"] else []


def _limit_lines(limit: Limit, width: int) -> list[str]:
    parts = [f"not measurable here: {limit.what}", *(f"→ {remedy}" for remedy in limit.remedies)]
    return flow(parts, width, separator=" ", indent="  ")
