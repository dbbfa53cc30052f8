"""How does an answer become JSON text that is the same on every machine and safe to print?"""

import json
from typing import Any

_SCRIPT_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028"}


def dumps(value: Any, *, indent: int | None = 2) -> str:
    """Serialise in document order, ASCII only; NaN and infinities are programming errors.

    ASCII keeps control characters of hostile kernel names, C1 codes included, off the terminal.

    Raises:
        ValueError: if a figure is not finite.
    """
    return json.dumps(value, indent=indent, allow_nan=False, ensure_ascii=True)


def dumps_for_script(value: Any) -> str:
    """Serialise for a ``<script>`` element: no text can close the element or open a comment."""
    text = json.dumps(value, allow_nan=False, ensure_ascii=True, separators=(",", ":"))
    for character, escape in _SCRIPT_ESCAPES.items():
        text = text.replace(character, escape)
    return text
