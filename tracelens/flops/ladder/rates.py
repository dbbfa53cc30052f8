"""What can the device of every GPU do, in the terms of the ladder?"""

from collections.abc import Iterable

from tracelens.flops.denominator import Part, Peak
from tracelens.flops.dtypes import FP32_OR_TF32, NARROW, WIDE
from tracelens.flops.ladder.stage import Rates
from tracelens.flops.options import FlopsOptions
from tracelens.flops.peaks import Device

_FORMATS = (*NARROW, *WIDE, FP32_OR_TF32)


def rates_of(peak: Peak, parts: Iterable[Part], options: FlopsOptions) -> list[Rates]:
    """Return the rates of every GPU; empty without a peak.

    The declared ceiling and a clock stand below the nominal peak only: a peak that already is
    sustained, clock-adjusted or given says nothing of them.
    """
    if not peak.flop_per_s:
        return []
    devices: list[Device | None] = [*peak.devices] or [None for _ in parts]
    by_dtype = {dtype: rate for dtype in _FORMATS if (rate := peak.rating(dtype))}
    return [
        _rates(peak.flop_per_s, by_dtype, part, device, options)
        for part, device in zip(parts, devices, strict=True)
    ]


def _rates(
    peak_flop_per_s: float,
    by_dtype: dict[str, float],
    part: Part,
    device: Device | None,
    options: FlopsOptions,
) -> Rates:
    is_nominal = options.peak_kind == "nominal" and device is not None
    return Rates(
        gpu=part.gpu,
        peak_flop_per_s=peak_flop_per_s,
        by_dtype=by_dtype,
        ceiling=_ceilings(device) if is_nominal and device else {},
        bytes_per_s=device.memory_bytes_per_s if device else None,
        sms=_sms(part, device),
        clock_frac=_clock(device, part) if is_nominal and device else None,
    )


def _ceilings(device: Device) -> dict[str, float]:
    return {
        dtype: measured / nominal
        for dtype, measured in device.measured.items()
        if (nominal := device.rates.get(dtype))
    }


def _sms(part: Part, device: Device | None) -> int | None:
    if device is None or device.units is None:
        return part.num_sms
    return round(device.units * device.share)


def _clock(device: Device, part: Part) -> float | None:
    if part.clock_mhz is None or device.spec_clock_mhz is None:
        return None
    return part.clock_mhz / device.spec_clock_mhz
