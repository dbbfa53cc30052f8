"""What can this device do at best, per number format?

The data file ``hardware.csv`` holds dense rates with their sources. A device that is not in it has
no peak: a default would be a wrong answer that looks right.
"""

import csv
import io
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

from tracelens.errors import UsageError
from tracelens.flops.dtypes import FP32_OR_TF32, dtype_of

_RATES = ("fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "int8", "fp6", "fp4")
_TERA = 1e12
_LARGEST_BIN = 1.25
"""No part is sold with more units than this times the listed one: full dies are below 1.2."""


@dataclass(frozen=True)
class Device:
    """A part, or the slice of it that a trace shows.

    Attributes:
        model: the part.
        units: multiprocessors (or the vendor's word for them); ``None`` where not listed.
        share: units that the trace shows over those of the part.
        spec_clock_mhz: clock that the nominal rates hold for.
        rates: FLOP/s by number format, of the whole part.
        measured: best sustained matmul FLOP/s by number format, of the whole part.
        memory_bytes_per_s: memory bandwidth of the whole part.
        source: where the rates come from.
    """

    model: str
    units: int | None
    share: float
    spec_clock_mhz: float | None
    rates: Mapping[str, float]
    measured: Mapping[str, float]
    memory_bytes_per_s: float | None
    source: str

    def peak_flop_per_s(self, dtype: str) -> float | None:
        """Return the dense nominal peak of a format, ``None`` where the part has no such units."""
        if dtype == FP32_OR_TF32:
            # The faster of the two never makes an MFU too high.
            rate = self.rates.get("tf32", self.rates.get("fp32"))
        else:
            rate = self.rates.get(dtype)
        return None if rate is None else rate * self.share

    def measured_flop_per_s(self, dtype: str) -> float | None:
        """Return the best sustained matmul rate of a format, where somebody published it."""
        rate = self.measured.get(dtype)
        return None if rate is None else rate * self.share


@dataclass(frozen=True)
class _Row:
    pattern: re.Pattern[str]
    aliases: frozenset[str]
    device: Device


def find_device(name: str | None, num_sms: int | None = None) -> Device | None:
    """Return the device that a trace names.

    Args:
        name: as the driver writes it, e.g. ``"NVIDIA H100 80GB HBM3"``.
        num_sms: multiprocessors that the trace shows: slices and custom bins have other counts.

    Returns:
        ``None`` for a device that is not listed, for a slice of unknown size, and for a count that
        the named part cannot have.
    """
    if not name:
        return None
    for row in _rows():
        if row.pattern.search(name):
            if num_sms is None and " MIG " in f" {name} ":
                return None
            return _with_units(row.device, num_sms)
    return None


def device_of_option(text: str, num_sms: int | None = None) -> Device | None:
    """Return the device that a user names, in short (``h100`` is the SXM part) or in full."""
    wanted = _plain(text)
    for row in _rows():
        if wanted in row.aliases:
            return _with_units(row.device, num_sms)
    return find_device(text, num_sms)


def device_names() -> tuple[str, ...]:
    """Return the parts that have peaks."""
    return tuple(row.device.model for row in _rows())


def check_device(text: str) -> None:
    """Refuse a name of a user that stands for no listed part.

    Raises:
        UsageError: with the parts that are listed.
    """
    if device_of_option(text) is None and not any(row.pattern.search(text) for row in _rows()):
        raise UsageError(
            f"--gpu {text}: no such device is listed",
            hint=f"give its --peak in TFLOP/s, or one of: {', '.join(device_names())}",
        )


def peak_flop_per_s(name: str, dtype: str = "bf16", num_sms: int | None = None) -> float | None:
    """Return the dense nominal peak of a device in FLOP/s, ``None`` when it is not known.

    Args:
        name: device name as in a trace, or a short form such as ``"h100"``.
        dtype: number format; ``c10::BFloat16``, ``half``, ``tf32`` ... are understood.
        num_sms: multiprocessors that the trace shows.
    """
    device = device_of_option(name, num_sms)
    plain = dtype_of(dtype)
    return device.peak_flop_per_s(plain) if device and plain else None


def _with_units(device: Device, num_sms: int | None) -> Device | None:
    if num_sms is None or device.units is None or num_sms == device.units:
        return device
    if not 0 < num_sms <= device.units * _LARGEST_BIN:
        return None
    return Device(
        model=device.model,
        units=device.units,
        share=num_sms / device.units,
        spec_clock_mhz=device.spec_clock_mhz,
        rates=device.rates,
        measured=device.measured,
        memory_bytes_per_s=device.memory_bytes_per_s,
        source=device.source,
    )


@cache
def _rows() -> tuple[_Row, ...]:
    text = resources.files("tracelens.flops").joinpath("hardware.csv").read_text(encoding="utf-8")
    return tuple(_row(fields) for fields in csv.DictReader(io.StringIO(text)))


def _row(fields: Mapping[str, str]) -> _Row:
    measured = {dtype: fields[f"measured_{dtype}"] for dtype in ("bf16", "fp8")}
    bandwidth = fields["mem_bw_gbs"]
    device = Device(
        model=fields["model"],
        units=int(fields["units"]) if fields["units"] else None,
        share=1.0,
        spec_clock_mhz=float(fields["spec_clock_mhz"]) if fields["spec_clock_mhz"] else None,
        rates={dtype: float(fields[dtype]) * _TERA for dtype in _RATES if fields[dtype]},
        measured={dtype: float(rate) * _TERA for dtype, rate in measured.items() if rate},
        memory_bytes_per_s=float(bandwidth) * 1e9 if bandwidth else None,
        source=fields["source"],
    )
    aliases = {_plain(device.model), *fields["aliases"].split()}
    return _Row(re.compile(fields["name_regex"], re.IGNORECASE), frozenset(aliases), device)


def _plain(name: str) -> str:
    return "".join(character for character in name.lower() if character.isalnum())
