"""How much of an input could not be used as written: counted by reason, with the first place."""

from tracelens.store import Store


class Damage:
    """Counts repairs and drops of one input; nothing disappears without a line here."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[int, int | None]] = {}

    def add(self, reason: str, offset: int | None = None, count: int = 1) -> None:
        """Count ``count`` events; ``offset`` is the byte or row of the first of them."""
        known, first = self._found.get(reason, (0, offset))
        if offset is not None and (first is None or offset < first):
            first = offset
        self._found[reason] = (known + count, first)

    def count(self, reason: str) -> int:
        """Return how often a reason was counted."""
        return self._found.get(reason, (0, None))[0]

    def write(self, store: Store, source_input: int) -> None:
        """Append what was found to ``raw.damage``."""
        if not self._found:
            return
        store.append(
            "damage",
            {
                "input": [source_input] * len(self._found),
                "reason": list(self._found),
                "count": [count for count, _ in self._found.values()],
                "first_offset": [first for _, first in self._found.values()],
            },
        )
