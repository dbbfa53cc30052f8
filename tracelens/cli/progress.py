"""One line on stderr that says what is going on, only where somebody watches."""

import dataclasses
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tracelens.run import Run

_EVERY_S = 0.1


class Progress:
    """Shows stages and bytes read on a terminal; silent elsewhere.

    Args:
        quiet: say nothing even on a terminal.
    """

    def __init__(self, *, quiet: bool) -> None:
        self._shown = not quiet and sys.stderr.isatty()
        self._last_s = 0.0

    def stage(self, name: str) -> None:
        """Announce a stage."""
        self._show(f"{name} ...")

    def reading(self, done_bytes: int, total_bytes: int) -> None:
        """Show how far reading has come."""
        now_s = time.monotonic()
        if now_s - self._last_s >= _EVERY_S and total_bytes:
            self._last_s = now_s
            share = min(100, 100 * done_bytes // total_bytes)
            self._show(f"reading ... {share:3d} % of {total_bytes / 1e6:,.1f} MB")

    def clear(self) -> None:
        """Remove the line."""
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def _show(self, text: str) -> None:
        if self._shown:
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()


def watched_run(
    traces: Sequence[str], values: Mapping[str, Any], *, store: Path | None = None, quiet: bool
) -> "Run":
    """Run an analysis with the options of the command line, and show how far it is."""
    from tracelens.run import analyzed, options_from

    given = dict(values)
    max_memory = given.pop("max_memory", None)
    options = options_from(given)
    progress = Progress(quiet=quiet)
    reading = dataclasses.replace(options.reading, progress=progress.reading)
    options = dataclasses.replace(options, reading=reading, on_stage=progress.stage)
    try:
        return analyzed(traces, options, store=store, max_memory=max_memory)
    finally:
        progress.clear()
