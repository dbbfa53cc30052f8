"""By how much do durations scatter? Work on a GPU and on a host, around what was planned."""

from random import Random


class Jitter:
    """Makes the durations of one rank scatter; the same seed gives the same ones.

    Args:
        sigma: standard deviation of the logarithm of a duration; 0: durations are as planned.
        seed: of the run.
        rank: ranks scatter independently of each other.
    """

    def __init__(self, sigma: float = 0.0, seed: int = 0, rank: int = 0) -> None:
        self._sigma = sigma
        # What the host does must not change how long the work on the GPU takes.
        self._gpu = Random(f"{seed}:{rank}:gpu")
        self._host = Random(f"{seed}:{rank}:host")

    def on_gpu(self, dur_ns: int) -> int:
        """How long work of ``dur_ns`` takes this time."""
        return self._scattered(self._gpu, dur_ns)

    def on_host(self, dur_ns: int) -> int:
        """How long a thread takes for what should take ``dur_ns``."""
        return self._scattered(self._host, dur_ns)

    def _scattered(self, random: Random, dur_ns: int) -> int:
        if not self._sigma or not dur_ns:
            return dur_ns
        return max(1, round(dur_ns * random.lognormvariate(0, self._sigma)))
