"""What did the profiler record about the arguments of an operator call?

Everything here comes from a file: a value of another kind than expected reads as ``None``.
"""

import json
from collections.abc import Sequence
from typing import Any

Shape = tuple[int, ...]

_MAX_SIZE = 1 << 48
_MAX_RANK = 16
_MAX_TEXT = 1 << 20


def parse_list(text: str | None) -> list[Any] | None:
    """Return the JSON list in a column of the store, ``None`` for anything else."""
    if not text or len(text) > _MAX_TEXT:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, list) else None


class Arguments:
    """Shapes, types and scalar values of one call, by position.

    Args:
        dims: shapes of the inputs.
        types: element types of the inputs.
        concrete: scalar inputs, as text.
    """

    def __init__(
        self, dims: Sequence[Any], types: Sequence[Any] | None, concrete: Sequence[Any] | None
    ) -> None:
        self._dims = dims
        self._types = types if isinstance(types, list | tuple) else ()
        self._concrete = concrete if isinstance(concrete, list | tuple) else ()

    def __len__(self) -> int:
        return len(self._dims)

    def shape(self, index: int, rank: int | None = None) -> Shape | None:
        """Return the shape of a tensor input; ``None`` if it has another rank or is no tensor."""
        if index >= len(self._dims):
            return None
        value = self._dims[index]
        if not isinstance(value, list | tuple) or not 0 < len(value) <= _MAX_RANK:
            return None
        if rank is not None and len(value) != rank:
            return None
        if any(type(size) is not int or not 0 <= size <= _MAX_SIZE for size in value):
            return None
        return tuple(value)

    def is_absent(self, index: int) -> bool:
        """Tell whether an optional tensor was not passed."""
        return index < len(self._dims) and self._dims[index] == []

    def type_of(self, index: int) -> str | None:
        """Return the recorded element type of an input."""
        value = self._types[index] if index < len(self._types) else None
        return value if isinstance(value, str) else None

    def _text(self, index: int) -> str | None:
        value = self._concrete[index] if index < len(self._concrete) else None
        return value.strip() if isinstance(value, str) else None

    def flag(self, index: int) -> bool | None:
        """Return a boolean scalar."""
        return {"true": True, "false": False}.get((self._text(index) or "").lower())

    def number(self, index: int) -> int | None:
        """Return a whole-number scalar."""
        return _whole(self._text(index))

    def numbers(self, index: int, count: int) -> Shape | None:
        """Return a list of ``count`` non-negative numbers; one number stands for all."""
        items = self._items(index)
        if items is None or len(items) not in {1, count}:
            return None
        values = [_whole(item) for item in items]
        if any(value is None or value < 0 for value in values):
            return None
        found = tuple(value for value in values if value is not None)
        return found * count if len(found) == 1 else found

    def flags(self, index: int, count: int) -> tuple[bool, ...] | None:
        """Return a list of ``count`` booleans."""
        items = self._items(index)
        if items is None or len(items) != count:
            return None
        known = {"true": True, "false": False}
        values = [known.get(item.lower()) for item in items]
        return None if None in values else tuple(value is True for value in values)

    def _items(self, index: int) -> list[str] | None:
        text = self._text(index)
        if not text or not text.startswith("[") or not text.endswith("]"):
            return None
        return [item.strip() for item in text[1:-1].split(",")]


def _whole(text: str | None) -> int | None:
    digits = (text or "").removeprefix("-")
    if not digits.isdecimal() or not digits.isascii() or len(digits) > 15:
        return None
    return int(text or "")
