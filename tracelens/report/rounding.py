"""How are figures rounded so that a printed column adds up to its printed total?

Largest-remainder rounding: every figure is rounded down, and the units that the total still lacks
go to the figures that lost most.
"""

import math
from collections.abc import Sequence

_MOST_DECIMALS = 9


def to_tenths(values: Sequence[float], total: int | None = None) -> list[int]:
    """Round values to tenths that add up.

    Args:
        values: figures, signed.
        total: what the tenths have to sum to; default is the rounded sum. A total that rounding
            alone cannot reach is not forced: each figure is then rounded by itself.
    """
    scaled = [value * 10 for value in values]
    floors = [math.floor(value) for value in scaled]
    missing = (round(sum(scaled)) if total is None else total) - sum(floors)
    if not 0 <= missing <= len(values):
        return [round(value) for value in scaled]
    by_remainder = sorted(range(len(values)), key=lambda i: (floors[i] - scaled[i], i))
    for index in by_remainder[:missing]:
        floors[index] += 1
    return floors


def tenths_text(tenths: int, *, signed: bool = False) -> str:
    """Write tenths with one decimal: ``-125`` is ``-12.5``; ``signed`` adds the plus."""
    sign = "-" if tenths < 0 else "+" if signed and tenths > 0 else ""
    return f"{sign}{abs(tenths) // 10}.{abs(tenths) % 10}"


def two_digits(value: float) -> str:
    """Write a small figure with two significant digits: 0.0276 is ``0.028``; 0 is ``0``."""
    if not value:
        return "0"
    rounded = float(f"{value:.1e}")
    decimals = max(0, 1 - math.floor(math.log10(abs(rounded))))
    return f"{rounded:.1e}" if decimals > _MOST_DECIMALS else f"{rounded:.{decimals}f}"


def tera_text(flop_per_s: float) -> str:
    """Write FLOP/s in TFLOP/s: whole from 100 on, one decimal from 1 on, else two digits."""
    tera = flop_per_s / 1e12
    return f"{tera:,.0f}" if tera >= 100 else f"{tera:.1f}" if tera >= 1 else two_digits(tera)
