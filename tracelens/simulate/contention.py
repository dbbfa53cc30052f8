"""How fast does compute progress while a transfer takes part of the GPU?

Progress is counted in whole units so that nothing is rounded on the way: alone, a kernel gains as
many units a nanosecond as its slowdown has thousandths; beside a transfer it gains 1000.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from tracelens.simulate.engine import Loop
from tracelens.simulate.timeline import Activity

_ONE = 1_000


@dataclass(slots=True)
class _Progress:
    remaining: int
    version: int = 0


class Contention:
    """The compute kernels of one GPU.

    Args:
        loop: the event loop.
        permille: how long, in thousandths, compute takes while a transfer is active.
        finish: called when a kernel ends.
    """

    def __init__(self, loop: Loop, permille: int, finish: Callable[[Activity], None]) -> None:
        self._loop = loop
        self._permille = permille
        self._finish = finish
        self._transfers = 0
        self._since_ns = 0
        self._running: dict[Activity, _Progress] = {}

    def begin(self, activity: Activity) -> None:
        """A kernel starts."""
        if self._permille == _ONE:
            end_ns = self._loop.now + activity.work.dur_ns
            self._loop.at(end_ns, partial(self._finish, activity))
            return
        self._advance()
        self._running[activity] = _Progress(activity.work.dur_ns * self._permille)
        self._schedule(activity)

    def transfers(self, change: int) -> None:
        """Transfers began or ended."""
        self._advance()
        self._transfers += change
        for activity in self._running:
            self._schedule(activity)

    @property
    def _rate(self) -> int:
        return _ONE if self._transfers else self._permille

    def _advance(self) -> None:
        gained = (self._loop.now - self._since_ns) * self._rate
        self._since_ns = self._loop.now
        for progress in self._running.values():
            progress.remaining -= gained

    def _schedule(self, activity: Activity) -> None:
        progress = self._running[activity]
        progress.version += 1
        end_ns = self._loop.now + max(0, -(-progress.remaining // self._rate))
        self._loop.at(end_ns, partial(self._end, activity, progress.version))

    def _end(self, activity: Activity, version: int) -> None:
        progress = self._running.get(activity)
        if progress is not None and progress.version == version:
            self._advance()
            del self._running[activity]
            self._finish(activity)
