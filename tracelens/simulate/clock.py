"""What time was it when the simulated run began?"""

NS_PER_S = 1_000_000_000
BASE_NS = 222 * 7_889_238 * NS_PER_S
"""Kineto's base: the start of the current quarter of a year, in ns since the epoch."""
NSYS_LEAD_NS = 2_500_000_000
"""An Nsight session is older than the profiled range by this much."""
_FIRST_RUN_NS = 1_234_567_891_011_213


def origin_ns(seed: int) -> int:
    """Time 0 of the simulation, relative to ``BASE_NS``."""
    return _FIRST_RUN_NS + seed * 86_400 * NS_PER_S
