"""What was a host thread doing at each instant, and what of it does each profiler show?"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tracelens.simulate.actions import Annotation, Op
from tracelens.simulate.gaps import RECORDED, SILENT, TRUTH, VIEWS
from tracelens.simulate.timeline import Range

PRECEDENCE = (
    "host.profiler",
    "host.gc",
    "host.ckpt",
    "host.dataloader",
    "host.alloc",
    "host.compile",
    "host.cuda_api",
    "host.blocked",
)
"""Of several labels that cover an instant the first counts."""


@dataclass(frozen=True, slots=True)
class Doing:
    """What a thread does beside having ranges open.

    Attributes:
        recorded: inside a call that profilers show.
        leaf: what idle time during it is charged to.
        views: who can tell the leaf; the others see nothing of it.
        blocking: the thread waits for the GPU.
    """

    recorded: bool = False
    leaf: str | None = None
    views: tuple[str, ...] = VIEWS
    blocking: bool = False


COMPUTING = Doing()


@dataclass(slots=True)
class Piece:
    """A stretch of a thread's time.

    Attributes:
        states: by view, what shows: a leaf, else only that something was recorded, or nothing.
        blocking: the thread waits for the GPU.
        waits_for: the thread that this one waits for.
    """

    start_ns: int
    end_ns: int | None
    states: Mapping[str, str]
    blocking: bool = False
    waits_for: "ThreadLog | None" = None


class ThreadLog:
    """The pieces of a thread, in order."""

    def __init__(self) -> None:
        self._pieces: list[Piece] = []

    def note(
        self, start_ns: int, end_ns: int | None, stack: Sequence[Range], doing: Doing = COMPUTING
    ) -> Piece:
        """Add what begins now; ``end_ns`` is None when it is not known yet."""
        piece = Piece(start_ns, end_ns, _states(stack, doing), doing.blocking)
        self._pieces.append(piece)
        return piece

    def wait(self, start_ns: int, other: "ThreadLog") -> Piece:
        """From now on the thread waits for another."""
        piece = Piece(start_ns, None, {}, waits_for=other)
        self._pieces.append(piece)
        return piece

    def close(self, now: int) -> int | None:
        """What was going on ends; returns when it began, None where nothing was."""
        if not self._pieces or self._pieces[-1].end_ns is not None:
            return None
        self._pieces[-1].end_ns = now
        return self._pieces[-1].start_ns

    def blocked_at(self, time_ns: int) -> bool:
        """Whether the thread, or the one it waits for, was in a blocking call."""
        piece = self._pieces[bisect_right(self._pieces, time_ns, key=_start_ns) - 1]
        if piece.waits_for is not None:
            return piece.waits_for.blocked_at(time_ns)
        return piece.blocking

    def pieces(self, start_ns: int, end_ns: int, view: str) -> Iterator[tuple[int, int, str]]:
        """What the thread, or the one it waits for, did between two instants."""
        first = bisect_right(self._pieces, start_ns, key=_start_ns) - 1
        for piece in self._pieces[max(first, 0) :]:
            low = max(piece.start_ns, start_ns)
            high = end_ns if piece.end_ns is None else min(piece.end_ns, end_ns)
            if low >= end_ns:
                return
            if low < high and piece.waits_for is not None:
                yield from piece.waits_for.pieces(low, high, view)
            elif low < high:
                yield low, high, piece.states[view]


def _states(stack: Sequence[Range], doing: Doing) -> dict[str, str]:
    what = [opened.what for opened in stack]
    labels = {item.leaf for item in what if isinstance(item, Annotation) and item.leaf}
    in_op = any(isinstance(item, Op) for item in what)
    states = {}
    for view in VIEWS:
        shown = view in doing.views
        found = labels | {doing.leaf} if shown and doing.leaf else labels
        label = next((leaf for leaf in PRECEDENCE if leaf in found), None)
        plain = RECORDED if in_op or (doing.recorded and shown) else SILENT
        states[view] = label or plain
    return states


def _start_ns(piece: Piece) -> int:
    return piece.start_ns


OS_VIEWS = (TRUTH, "nsys")
"""Who sees calls into the operating system."""
