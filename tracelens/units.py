"""Text and integer nanoseconds: the only place where a time changes its unit."""

from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation

NS_PER_US = 1_000
NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000
INT64_MAX = 2**63 - 1
_FRACTION_DIGITS = 3
_LONGEST_TEXT = 100  # no time has more digits; converting millions of them takes forever


def us_text_to_ns(text: str) -> int | None:
    """Convert a decimal number of microseconds, as text, to integer nanoseconds.

    The text never passes through a float: an epoch timestamp with three decimals has 19 digits,
    which no double holds. More than three decimals are rounded half-even.

    Args:
        text: e.g. ``"1719842.123"``, ``"12"``, ``"1.5e3"``.

    Returns:
        Nanoseconds, or ``None`` when the text is not a finite number that fits 64 bits.
    """
    if len(text) > _LONGEST_TEXT:
        return None
    whole, _, fraction = text.partition(".")
    if len(fraction) <= _FRACTION_DIGITS and (fraction.isdecimal() or not fraction):
        digits = whole.removeprefix("-")
        if digits.isdecimal() and digits.isascii() and fraction.isascii():
            value = int(digits + fraction.ljust(_FRACTION_DIGITS, "0"))
            value = -value if whole.startswith("-") else value
            return value if abs(value) <= INT64_MAX else None
    return _exotic_us_to_ns(text)


def _exotic_us_to_ns(text: str) -> int | None:
    try:
        number = Decimal(text.strip())
    except InvalidOperation:
        return None
    # The exponent is bounded before any arithmetic: "1e999999999" must not allocate its digits.
    if not number.is_finite() or number.adjusted() > 15:  # 10^16 us is beyond 2^63 ns
        return None
    if number.adjusted() < -12:
        return 0
    value = int((number * NS_PER_US).to_integral_value(ROUND_HALF_EVEN))
    return value if abs(value) <= INT64_MAX else None


def format_duration(dur_ns: float) -> str:
    """Render a duration for people with three significant digits: ``812 ns``, ``1.00 s``."""
    for unit, size in (("s", NS_PER_S), ("ms", NS_PER_MS), ("µs", NS_PER_US)):
        if abs(dur_ns) >= size:
            value = dur_ns / size
            digits = 2 if abs(value) < 10 else 1 if abs(value) < 100 else 0
            return f"{value:,.{digits}f} {unit}"
    return f"{dur_ns:.0f} ns"
