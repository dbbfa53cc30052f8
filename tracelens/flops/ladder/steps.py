"""What does a kernel lose below its peak, and to what: the ladder of one instance after the other?

Ideal time ``d0 = F / P``. Each step raises the time that the kernel could not have beaten:

    d1 = F / P(dtype)                                        precision
    d2 = max(d1, bytes / bandwidth)                          memory
    d3 = max(d2, d1 * a)           a = SMs / SMs used        SM budget
    d4 = max(d3, d1 * a * q)       q = tile * wave           quantisation
    d5 = max(d4, d1 * a * q / s)   s = clock or ceiling      clock, or declared ceiling
    d6 = max(d5, time of the same kernel alone)              kernel quality
    o                                                        contention

SMs, tiles and clock slow the arithmetic down, not the memory: a kernel that waits for memory hides
them, so the larger of the two bounds it, never their product.

Integers: every bound is rounded half-even to a whole nanosecond once and cut at the owned time, and
a loss is the difference of two neighbours. The losses of an instance therefore sum to ``o - d0``
exactly, whatever the rounding; nothing is adjusted afterwards.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

STEPS = (
    "precision",
    "memory",
    "sm_reserved",
    "quantisation",
    "clock",
    "ceiling",
    "kernel",
    "contention",
)
"""Losses in order; all but precision are never negative."""
SIGNED = ("sharing", "faster_than_peak")
"""What a kernel did better than its bound allows: never positive."""
FASTER = 0.98
"""A kernel that took less than this part of its ideal time is faster than its peak."""


@dataclass(frozen=True)
class Instances:
    """One kernel instance a position; ``nan`` is what is not known.

    Attributes:
        owned_ns: owned time.
        dur_ns: time from start to end, as far as it lies in the window.
        flop: FLOPs done in the window.
        peak: FLOP/s that 100 % stands for.
        rate: FLOP/s of the device in the format of the kernel.
        bytes: least traffic.
        bandwidth: bytes/s of the device.
        sm_factor: SMs of the device over those that the grid can use.
        quantisation: padded over real work, times waves over full waves.
        clock: measured clock over the clock that the peak holds for.
        ceiling: declared sustained over nominal rate.
        alone_ns: time of the same kernel when nothing else runs.
        beside: share of the time in which communication or a copy ran too.
    """

    owned_ns: Ints
    dur_ns: Ints
    flop: Floats
    peak: Floats
    rate: Floats
    bytes: Floats
    bandwidth: Floats
    sm_factor: Floats
    quantisation: Floats
    clock: Floats
    ceiling: Floats
    alone_ns: Floats
    beside: Floats

    def __len__(self) -> int:
        return len(self.owned_ns)


@dataclass(frozen=True)
class Ladder:
    """The bounds of every instance and what lies between them.

    Attributes:
        ideal_ns: d0.
        bounds: d1 and the following bounds after each step of ``STEPS`` but the last, in ns.
        known: by step, whether there was evidence for it.
        is_faster: whether the instance beat its own peak by more than 2 %.
        owned_ns: owned time.
    """

    ideal_ns: Floats
    bounds: dict[str, Floats]
    known: dict[str, Flags]
    is_faster: Flags
    owned_ns: Ints

    def losses(self) -> dict[str, Floats]:
        """Losses in ns, not rounded: they sum to ``owned - ideal`` within float precision."""
        return self._losses(self.ideal_ns, self.bounds, self.owned_ns.astype(np.float64))

    def losses_ns(self) -> dict[str, Ints]:
        """Losses in whole ns: they sum to ``owned - round(ideal)`` exactly."""
        bounds = {step: np.rint(bound) for step, bound in self.bounds.items()}
        found = self._losses(np.rint(self.ideal_ns), bounds, self.owned_ns.astype(np.float64))
        return {step: loss.astype(np.int64) for step, loss in found.items()}

    def _losses(self, ideal: Floats, bounds: dict[str, Floats], owned: Floats) -> dict[str, Floats]:
        first = bounds["precision"]
        found = {"precision": first - ideal}
        excess = np.minimum(owned - first, 0.0)
        before = np.minimum(first, owned)
        for step in STEPS[1:-1]:
            here = np.minimum(bounds[step], owned)
            found[step] = here - before
            before = here
        found["contention"] = owned - before
        found["faster_than_peak"] = np.where(self.is_faster, excess, 0.0)
        found["sharing"] = np.where(self.is_faster, 0.0, excess)
        return found


def climb_all(found: Instances) -> Ladder:
    """Return the ladder of every instance.

    A step without evidence has the bound of the step before it and is marked as not known: the time
    that it would explain stays with kernel quality.
    """
    ideal = found.flop / found.peak * 1e9
    known = _known(found)
    first = _or(found.flop / found.rate * 1e9, ideal)
    arithmetic = first
    bounds = {"precision": first}
    bounds["memory"] = np.fmax(first, found.bytes / found.bandwidth * 1e9)
    before = bounds["memory"]
    for step, factor in (
        ("sm_reserved", found.sm_factor),
        ("quantisation", found.quantisation),
        ("clock", 1 / found.clock),
        ("ceiling", 1 / np.where(known["clock"], 1.0, found.ceiling)),
    ):
        arithmetic = arithmetic * _or(factor, 1.0)
        before = np.maximum(before, arithmetic)
        bounds[step] = before
    owned = found.owned_ns.astype(np.float64)
    alone = np.where(known["contention"] & (found.beside >= BESIDE), found.alone_ns, owned)
    bounds["kernel"] = np.maximum(before, alone)
    is_faster = found.dur_ns < FASTER * first
    return Ladder(ideal, bounds, known, is_faster & (found.flop > 0), found.owned_ns)


BESIDE = 0.5
"""From this share of its time on, an instance counts as run beside communication or a copy."""


def _known(found: Instances) -> dict[str, Flags]:
    count = len(found)
    everywhere = np.ones(count, bool)
    clock = ~np.isnan(found.clock)
    told = (found.beside == 0) | ((found.beside >= BESIDE) & ~np.isnan(found.alone_ns))
    return {
        "precision": ~np.isnan(found.rate),
        "memory": ~np.isnan(found.bytes) & ~np.isnan(found.bandwidth),
        "sm_reserved": ~np.isnan(found.sm_factor),
        "quantisation": ~np.isnan(found.quantisation),
        "clock": clock,
        "ceiling": ~np.isnan(found.ceiling) & ~clock,
        "kernel": everywhere,
        "contention": told,
    }


def factors(found: Instances, ladder: Ladder) -> dict[str, Floats]:
    """Return what each step multiplies the rate by, whatever the order; ``nan`` without evidence.

    Unlike losses they are not cut at the owned time: a product above the reached rate says that two
    causes overlap.
    """
    bounds = ladder.bounds
    owned = found.owned_ns.astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):  # helpers without FLOPs, kernels of 0 ns
        ratios: dict[str, Any] = {
            "precision": ladder.ideal_ns / bounds["precision"],
            "memory": bounds["precision"] / bounds["memory"],
            "sm_reserved": 1 / found.sm_factor,
            "quantisation": 1 / found.quantisation,
            "clock": found.clock,
            "ceiling": found.ceiling,
            "kernel": bounds["ceiling"] / bounds["kernel"],
            "contention": bounds["kernel"] / owned,
        }
    return {
        step: np.where(ladder.known[step] & (found.flop > 0), ratio, np.nan)
        for step, ratio in ratios.items()
    }


def _or(values: Floats, otherwise: Floats | float) -> Floats:
    return np.where(np.isnan(values), otherwise, values)
