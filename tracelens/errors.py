"""What can go wrong, and the exit status of each.

TraceLensError                 1   base class; never raised itself
├── UsageError                 2   the command line or the arguments contradict each other
├── IdentityError              3   an accounting identity does not hold: a bug, told loudly
├── AbstainedError             4   the file parsed, but holds no GPU work that can be attributed
├── GateError                  5   a regression gate failed
├── InputError                 6   unreadable, empty, or not a trace that is read
└── ExternalToolError          7   nsys is missing, too old, or failed
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar


class TraceLensError(Exception):
    """Base of all expected errors: one clear message and, where there is one, what to do.

    Attributes:
        message: what is wrong and where (file, byte or row).
        hint: what the user can do about it; may be empty.
        exit_code: status of the process, as documented for the command line.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(TraceLensError):
    """Options or arguments that contradict each other or name something that does not exist."""

    exit_code = 2


class IdentityError(TraceLensError):
    """Parts do not sum to the whole: the figures must not be shown."""

    exit_code = 3


class AbstainedError(TraceLensError):
    """The input parses but holds no GPU work that can be attributed."""

    exit_code = 4


class GateError(TraceLensError):
    """A comparison exceeded the limit that was given."""

    exit_code = 5


class InputError(TraceLensError):
    """The input cannot be read, is empty, or is not a trace of a known kind."""

    exit_code = 6


class ExternalToolError(TraceLensError):
    """A program that the user must provide is missing, too old, or failed."""

    exit_code = 7


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Tell as a usage error that a file which the user named for output cannot be written.

    Raises:
        UsageError: if the system refuses what is done inside.
    """
    try:
        yield
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror or error}") from error
