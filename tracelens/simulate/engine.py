"""In which order do things happen? A clock in integer nanoseconds and a queue of callbacks."""

import heapq
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Machine:
    """Costs of the machine that is simulated.

    Attributes:
        api_ns: host time of a launch, copy or synchronization call.
        light_api_ns: host time of recording an event or making a stream wait for one.
        latency_ns: from the start of a launch call to the start of its kernel on an idle GPU.
        stream_gap_ns: from the end of a kernel, or of what it waited for, to the next start.
        sync_return_ns: from the end of the awaited work to the return of a blocking call.
        handoff_ns: to wake the autograd thread, and the main thread after it.
        dispatch_ns: host time of an operator beside its launches.
        queue_depth: launches that may wait on a GPU before a launch call blocks.
        contention_permille: how long, in thousandths, compute takes while a transfer is active.
    """

    api_ns: int = 3_000
    light_api_ns: int = 1_000
    latency_ns: int = 6_000
    stream_gap_ns: int = 1_000
    sync_return_ns: int = 2_000
    handoff_ns: int = 2_000
    dispatch_ns: int = 4_000
    queue_depth: int = 1_024
    contention_permille: int = 1_000


class Loop:
    """The event loop: equal times run in the order in which they were scheduled."""

    def __init__(self) -> None:
        self.now = 0
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._scheduled = 0

    def at(self, time_ns: int, callback: Callable[[], None]) -> None:
        """Call ``callback`` at ``time_ns``, which must not lie in the past."""
        if time_ns < self.now:
            raise ValueError(f"cannot schedule {time_ns} ns at {self.now} ns")
        heapq.heappush(self._heap, (time_ns, self._scheduled, callback))
        self._scheduled += 1

    def run(self) -> None:
        """Run until nothing is left to happen."""
        while self._heap:
            self.now, _, callback = heapq.heappop(self._heap)
            callback()
