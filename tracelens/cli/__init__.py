"""The command line: one file a command; expected errors end here, without a traceback."""

import io
import os
import signal
import sys
import traceback

from tracelens.errors import TraceLensError

_INTERRUPTED = 130
_BUG = 1


def main() -> None:
    """Run the command line and leave with its exit status."""
    _settle_streams()
    try:
        from tracelens.cli.app import app

        app()
    except TraceLensError as error:
        sys.stderr.write(f"error: {_printable(error.message)}\n")
        if error.hint:
            sys.stderr.write(f"hint:  {_printable(error.hint)}\n")
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(_INTERRUPTED)
    except Exception:  # noqa: BLE001 - the last door: a bug is told as a bug
        traceback.print_exc()
        sys.stderr.write("\nerror: this is a bug of TraceLens; please report the lines above\n")
        sys.exit(_BUG)


def _settle_streams() -> None:
    """Let a reader close the pipe, and show what the encoding of a terminal lacks as ``?``."""
    if hasattr(signal, "SIGPIPE"):
        # As other programs do: ``tracelens sql ... | head`` ends without a word.
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by who started the program
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _printable(text: str) -> str:
    """Keep escape sequences from a hostile file name or trace away from the terminal."""
    return "".join(
        char if char.isprintable() or char == "\n" else char.encode("unicode_escape").decode()
        for char in text
    )
