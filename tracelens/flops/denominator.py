"""What is 100 %: the peak of the device for the formats that the kernels really use?

With several formats of 16 bits and less the peak is the rate at which the same mix would run if
every kernel ran at its own peak. Wider matmuls are rated at that peak too: their excess is a loss.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from tracelens.flops.dtypes import FP32_OR_TF32, NARROW, WIDE, required_dtype
from tracelens.flops.options import FlopsOptions
from tracelens.flops.peaks import Device, device_of_option, find_device

_LEAST_KNOWN = 0.5
_WORTH_A_NOTE = 0.01
_NO_DEVICE = "device not named in the trace: give --gpu"


@dataclass(frozen=True)
class Part:
    """One GPU: what the trace says of it, how long it was analyzed, at which clock it ran.

    Attributes:
        name: name of the device.
        num_sms: multiprocessors.
        dur_ns: analyzed time.
        gpu: number in the store.
        device: index in its node.
        clock_mhz: SM clock; ``None`` where nobody says.
    """

    name: str | None
    num_sms: int | None
    dur_ns: int
    gpu: int = 0
    device: int | None = None
    clock_mhz: float | None = None


@dataclass(frozen=True)
class Mix:
    """Which formats the FLOP-bearing kernels use.

    Attributes:
        weights: FLOPs by format, or time where FLOPs are not known; the key ``None`` is unknown.
        are_flops: whether the weights are FLOPs.
    """

    weights: Mapping[str | None, float]
    are_flops: bool

    @property
    def known(self) -> dict[str, float]:
        """Weights of known formats."""
        return {name: weight for name, weight in self.weights.items() if name and weight > 0}

    @property
    def unknown_frac(self) -> float:
        """Share of the weight whose format is not known."""
        total = sum(self.weights.values())
        return 1 - sum(self.known.values()) / total if total > 0 else 1.0

    def shares(self) -> dict[str, float]:
        """Share of each known format, largest first."""
        total = sum(self.known.values())
        ordered = sorted(self.known.items(), key=lambda pair: (-pair[1], pair[0]))
        return {name: weight / total for name, weight in ordered}


@dataclass
class Peak:
    """The denominator.

    Attributes:
        flop_per_s: peak of one GPU; ``None`` when not known, and ``reason`` says why.
        kind: nominal, clock, measured or user.
        dtype: format or formats that it is the peak of.
        bf16_flop_per_s: nominal BF16 peak, to compare.
        device: the part.
        source: where the rates come from.
        reason: why there is no peak.
        notes: what a reader must know.
        rate: nominal peak of a format, for checks.
        rating: the same under the chosen kind of peak.
        devices: the part of every GPU, in the order given; empty when one is not known.
    """

    flop_per_s: float | None = None
    kind: str = "nominal"
    dtype: str | None = None
    bf16_flop_per_s: float | None = None
    device: str | None = None
    source: str | None = None
    reason: str | None = None
    notes: list[str] = field(default_factory=list)
    rate: Callable[[str], float | None] = lambda _dtype: None
    rating: Callable[[str], float | None] = lambda _dtype: None
    devices: list[Device] = field(default_factory=list)


def choose_peak(options: FlopsOptions, parts: list[Part], mix: Mix) -> Peak:
    """Return the denominator for the GPUs of a run."""
    peak = Peak(kind=options.peak_kind)
    devices = _devices(options, parts, peak)
    if devices is not None:
        peak.devices = devices
        _describe(peak, devices, parts)
    if options.user_peak is not None:
        _as_given(peak, options, mix, options.user_peak)
        return peak
    if devices is None:
        return peak
    rate = peak.rating = _rating(options, list(zip(devices, parts, strict=True)))
    if options.dtype != "auto":
        peak.dtype = required_dtype(options.dtype)
        peak.flop_per_s = rate(peak.dtype)
    elif not any(mix.weights.values()):
        peak.reason = "no FLOP-bearing kernel in the window"
        return peak
    elif mix.unknown_frac > _LEAST_KNOWN:
        peak.reason = "the number format of most matmul time is not known: give --dtype"
        return peak
    else:
        _mixed(peak, mix, rate)
    if peak.flop_per_s is None:
        peak.reason = f"{peak.device} has no {peak.kind} {peak.dtype} peak: give --peak or --dtype"
    return peak


def _as_given(peak: Peak, options: FlopsOptions, mix: Mix, flop_per_s: float) -> None:
    """The user's figure is the peak; formats keep the ratios that the device has."""
    chosen: dict[str | None, float] = dict(_reference(mix).items())
    if options.dtype != "auto":
        chosen = {required_dtype(options.dtype): 1.0}
    nominal = Peak()
    if chosen and peak.devices:
        _mixed(nominal, Mix(chosen, are_flops=mix.are_flops), peak.rate)
    reference, rate = nominal.flop_per_s, peak.rate
    peak.flop_per_s, peak.source, peak.reason = flop_per_s, "option --peak", None
    peak.dtype = _label(options, mix)

    def rating(dtype: str) -> float | None:
        of_device = rate(dtype)
        if of_device is None or reference is None:
            return None
        return flop_per_s * of_device / reference

    peak.rating = rating


def _devices(options: FlopsOptions, parts: list[Part], peak: Peak) -> list[Device] | None:
    found = []
    for part in parts:
        if options.gpu is not None:
            device = _asked_device(options.gpu, part)
            asked = f"no peak known for --gpu {options.gpu}: give --peak TFLOP/s"
        else:
            device = find_device(part.name, part.num_sms)
            sms = f" with {part.num_sms} SMs" if part.num_sms else ""
            asked = f"no peak known for {part.name!r}{sms}: give --gpu or --peak TFLOP/s"
        if device is None:
            peak.device = options.gpu or part.name or None
            peak.reason = asked if peak.device else _NO_DEVICE
            return None
        found.append(device)
    return found or None


def _asked_device(gpu: str, part: Part) -> Device | None:
    """The part that the user names; the trace's count of units holds unless it is another part."""
    whole = device_of_option(gpu)
    seen = find_device(part.name, part.num_sms)
    if whole is None or (seen is not None and seen.model != whole.model):
        return whole
    return device_of_option(gpu, part.num_sms) or whole


def _describe(peak: Peak, devices: list[Device], parts: list[Part]) -> None:
    names = list(dict.fromkeys(device.model for device in devices))
    peak.device = ", ".join(names)
    peak.source = "; ".join(dict.fromkeys(device.source for device in devices))
    weighted = [(device, part.dur_ns) for device, part in zip(devices, parts, strict=True)]
    peak.rate = _mean_rate(weighted, lambda device, dtype: device.peak_flop_per_s(dtype))
    peak.bf16_flop_per_s = peak.rate("bf16")
    if len(names) > 1:
        peak.notes.append(f"{len(names)} kinds of GPU: the peak is the mean over their time")
    for device in dict.fromkeys(device.model for device in devices if device.share != 1):
        part = next(p for p, d in zip(parts, devices, strict=True) if d.model == device)
        peak.notes.append(
            f"{device}: the trace shows {part.num_sms} multiprocessors, the peak is scaled to them"
        )


def _rating(
    options: FlopsOptions, parts: list[tuple[Device, Part]]
) -> Callable[[str], float | None]:
    if options.peak_kind == "clock":
        scaled = [(_at_clock(device, part.clock_mhz), part.dur_ns) for device, part in parts]
        return _mean_rate(scaled, lambda device, dtype: device.peak_flop_per_s(dtype))
    weighted = [(device, part.dur_ns) for device, part in parts]
    if options.peak_kind == "measured":
        return _mean_rate(weighted, lambda device, dtype: device.measured_flop_per_s(dtype))
    return _mean_rate(weighted, lambda device, dtype: device.peak_flop_per_s(dtype))


def _at_clock(device: Device, clock_mhz: float | None) -> Device:
    """The part at another clock; without rates where a clock is not known."""
    if clock_mhz is None or device.spec_clock_mhz is None:
        return replace(device, rates={})
    factor = clock_mhz / device.spec_clock_mhz
    return replace(device, rates={dtype: rate * factor for dtype, rate in device.rates.items()})


def _mean_rate(
    weighted: list[tuple[Device, int]], rate: Callable[[Device, str], float | None]
) -> Callable[[str], float | None]:
    """Rate by format, averaged over the time of the GPUs; ``None`` as soon as one has none."""

    def mean(dtype: str) -> float | None:
        total_ns = sum(dur_ns for _, dur_ns in weighted)
        rates = [(rate(device, dtype), dur_ns) for device, dur_ns in weighted]
        known = [(value, dur_ns) for value, dur_ns in rates if value is not None]
        if len(known) < len(rates) or not total_ns:
            return None
        first = known[0][0]
        if all(value == first for value, _ in known):
            return first
        return sum(value * dur_ns for value, dur_ns in known) / total_ns

    return mean


def _mixed(peak: Peak, mix: Mix, rate: Callable[[str], float | None]) -> None:
    chosen = _reference(mix)
    peak.dtype = "+".join(chosen) or None
    rates = {dtype: rate(dtype) for dtype in chosen}
    known = {dtype: value for dtype, value in rates.items() if value is not None}
    if len(known) < len(chosen) or not chosen:
        peak.dtype = "+".join(sorted(set(chosen) - set(known))) or peak.dtype
        return
    total = sum(chosen.values())
    if len(known) == 1:
        peak.flop_per_s = next(iter(known.values()))
    elif mix.are_flops:
        peak.flop_per_s = total / sum(chosen[dtype] / known[dtype] for dtype in chosen)
    else:
        peak.flop_per_s = sum(chosen[dtype] * known[dtype] for dtype in chosen) / total
        peak.notes.append(
            "the peak mixes number formats by their time, because FLOPs by format are not known"
        )
    _note_mix(peak, mix)


def _note_mix(peak: Peak, mix: Mix) -> None:
    if mix.unknown_frac > _WORTH_A_NOTE:
        share = 100 * mix.unknown_frac
        peak.notes.append(f"number format unknown for {share:.0f} % of matmul work")
    if FP32_OR_TF32 in mix.known and not any(name in NARROW for name in mix.known):
        peak.notes.append(
            "32-bit matmuls whose kernel does not say whether it rounds to TF32 are rated at the "
            "TF32 peak"
        )


def _reference(mix: Mix) -> dict[str, float]:
    """The formats that set the peak: narrow ones if there are any, else the wide ones."""
    shares = mix.shares()
    narrow = {name: share for name, share in shares.items() if name in NARROW}
    wide = {name: share for name, share in shares.items() if name in (*WIDE, FP32_OR_TF32)}
    return narrow or wide


def _label(options: FlopsOptions, mix: Mix) -> str | None:
    if options.dtype != "auto":
        return required_dtype(options.dtype)
    return "+".join(_reference(mix)) or None
