"""How is text of a trace shown where a control character would be an instruction?"""

import textwrap
import unicodedata

_UNSAFE_CATEGORIES = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Mn", "Me"}
ELLIPSIS = "…"
_NO_BREAK = "\u00a0"


def printable(text: str) -> str:
    r"""Replace what a terminal would obey or hide by its escape: ESC becomes ``\x1b``.

    Covers C0 and C1 controls, bidirectional overrides, zero-width and combining characters.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        _escape(character) if unicodedata.category(character) in _UNSAFE_CATEGORIES else character
        for character in text
    )


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else "\\U?"


def width_of(text: str) -> int:
    """Return the columns that printable text takes; East Asian wide characters take two."""
    if text.isascii():
        return len(text)
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def shorten(text: str, width: int) -> str:
    """Make text printable and cut it to ``width`` columns; a cut ends with an ellipsis."""
    # A name may be megabytes long: only what could be shown is looked at.
    clean = printable(text[: 4 * width + 4])
    if width_of(clean) <= width:
        return clean
    kept, used = [], 0
    for character in clean:
        used += width_of(character)
        if used > width - 1:
            break
        kept.append(character)
    return "".join(kept).rstrip() + ELLIPSIS


def pad(text: str, width: int) -> str:
    """Cut or fill text to exactly ``width`` columns."""
    cut = shorten(text, width)
    return cut + " " * (width - width_of(cut))


def flow(parts: list[str], width: int, *, separator: str = " · ", indent: str = "") -> list[str]:
    """Lay parts out in lines of at most ``width`` columns, breaking between parts only.

    A last line with one part takes another one from the line before, if that has three or more.
    """
    lines: list[list[str]] = []
    for part in parts:
        clean = shorten(part, width - len(indent))
        if lines and width_of(_joined(lines, -1, separator, indent) + separator + clean) <= width:
            lines[-1].append(clean)
        else:
            lines.append([clean])
    if len(lines) > 1 and len(lines[-1]) == 1 and len(lines[-2]) > 2:
        moved = [lines[-2][-1], *lines[-1]]
        if width_of(indent + separator.join(moved)) <= width:
            lines[-2:] = [lines[-2][:-1], moved]
    return [_joined(lines, index, separator, indent) for index in range(len(lines))]


def _joined(lines: list[list[str]], index: int, separator: str, indent: str) -> str:
    is_first = index % len(lines) == 0
    return ("" if is_first else indent) + separator.join(lines[index])


def wrap(text: str, width: int, *, lines: int) -> list[str]:
    """Break a sentence between words into at most ``lines`` lines; what is left over is cut."""
    clean = shorten(text, width * lines).replace(" %", f"{_NO_BREAK}%")
    broken = textwrap.wrap(
        clean,
        width,
        subsequent_indent="  ",
        max_lines=lines,
        placeholder=ELLIPSIS,
        break_on_hyphens=False,
    )
    return [shorten(line.replace(_NO_BREAK, " "), width) for line in broken]
