"""How is a piece of text colored, where colors are wanted?"""

BOLD, DIM, GREEN, YELLOW = "1", "2", "32", "33"


class Paint:
    """Colors whole pieces of text that are already cut to their width."""

    def __init__(self, *, enabled: bool) -> None:
        self._enabled = enabled

    def __call__(self, text: str, style: str) -> str:
        """Return the text in a style; empty text stays empty."""
        return f"\x1b[{style}m{text}\x1b[0m" if self._enabled and text else text
