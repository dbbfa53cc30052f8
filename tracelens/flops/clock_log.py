"""At which clock did the multiprocessors run, by a log of nvidia-smi or DCGM taken beside the job?

Understood are the CSV of ``nvidia-smi --query-gpu=index,clocks.sm,utilization.gpu --format=csv``
(with or without units and time), the table of ``dcgmi dmon -e 100,1002``, and a CSV with the names
of DCGM's fields. The clock of a GPU is the median over the samples in which it was busy; where the
log does not say when, over all of them.
"""

import csv
import re
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tracelens.errors import InputError, UsageError
from tracelens.flops.denominator import Part
from tracelens.flops.options import FlopsOptions

_CLOCK = re.compile(
    r"^(?:clocks\.(?:current\.)?sm\b|smclk$|sm_?clock|dcgm_fi_dev_sm_clock)", re.IGNORECASE
)
_INDEX = re.compile(r"^(?:index|gpu|id|gpu_?id|entity|#entity)$", re.IGNORECASE)
_BUSY = re.compile(
    r"^(?:utilization\.gpu\b|gpuutl$|smact$|dcgm_fi_(?:dev_gpu_util|prof_sm_active))", re.IGNORECASE
)
_NUMBER = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*(?:MHz|%)?\s*$", re.IGNORECASE)
_DMON_GPU = re.compile(r"^GPU\s+(\d+)", re.IGNORECASE)
_BUSY_FROM = 50.0
_SENSIBLE_MHZ = (50.0, 5_000.0)
_MOST_BYTES = 1 << 28


@dataclass(frozen=True)
class _Sample:
    gpu: int | None
    mhz: float
    busy_percent: float | None


def with_clocks(parts: list[Part], options: FlopsOptions) -> list[Part]:
    """Return the GPUs of a run with the clock that the options give for each.

    Raises:
        InputError: if the log cannot be read or holds no clock.
        UsageError: if it does not say which of several GPUs its clocks are of.
    """
    if options.clock_log is None:
        return [replace(part, clock_mhz=options.sm_clock_mhz) for part in parts]
    clocks = read_clocks(Path(options.clock_log))
    only = next(iter(clocks.values())) if len(clocks) == 1 else None
    if only is not None and (None in clocks or len(parts) == 1):
        return [replace(part, clock_mhz=only) for part in parts]
    missing = [part.device for part in parts if part.device not in clocks]
    if missing:
        raise UsageError(
            f"{options.clock_log}: no clock of GPU {missing[0]}, only of "
            f"{', '.join(str(gpu) for gpu in clocks)}",
            hint="log index and clocks.sm of every GPU that the trace holds",
        )
    return [replace(part, clock_mhz=clocks[part.device]) for part in parts]


def read_clocks(path: Path) -> dict[int | None, float]:
    """Return the median SM clock in MHz by index of the GPU; ``None`` where the log names none.

    Raises:
        InputError: if the file cannot be read or holds no clock.
    """
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise InputError(f"{path}: too large for a log of clocks")
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    samples: dict[int | None, list[_Sample]] = defaultdict(list)
    for sample in _samples(lines):
        samples[sample.gpu].append(sample)
    if not samples:
        raise InputError(
            f"{path}: no SM clock found",
            hint="nvidia-smi --query-gpu=index,clocks.sm,utilization.gpu --format=csv -l 1",
        )
    return {gpu: _median(found) for gpu, found in sorted(samples.items(), key=lambda p: p[0] or 0)}


def _median(samples: list[_Sample]) -> float:
    busy = [s.mhz for s in samples if s.busy_percent is not None and s.busy_percent >= _BUSY_FROM]
    return statistics.median(busy or [sample.mhz for sample in samples])


def _samples(lines: Iterable[str]) -> Iterable[_Sample]:
    columns: tuple[int, int | None, int | None] | None = None
    for line in lines:
        fields = _fields(line)
        found = _columns(fields)
        if found is not None:
            columns = found
        elif columns is not None:
            sample = _sample(fields, columns)
            if sample is not None:
                yield sample


def _fields(line: str) -> list[str]:
    if "," in line:
        return [field.strip() for field in next(csv.reader([line]))]
    # The tables of dcgmi: "GPU 0   1980   97" below "#Entity   SMCLK   SMACT".
    return _DMON_GPU.sub(r"\1", line.strip()).split()


def _columns(fields: Sequence[str]) -> tuple[int, int | None, int | None] | None:
    """Where clock, index and load stand, if this line is a heading."""
    clock = _place(fields, _CLOCK)
    return None if clock is None else (clock, _place(fields, _INDEX), _place(fields, _BUSY))


def _place(fields: Sequence[str], wanted: re.Pattern[str]) -> int | None:
    return next((at for at, field in enumerate(fields) if wanted.search(field)), None)


def _sample(fields: Sequence[str], columns: tuple[int, int | None, int | None]) -> _Sample | None:
    clock, index, busy = (_number(fields, at) for at in columns)
    if clock is None or not _SENSIBLE_MHZ[0] <= clock <= _SENSIBLE_MHZ[1]:
        return None
    if busy is not None and columns[2] is not None and "." in fields[columns[2]] and busy <= 1:
        busy *= 100  # DCGM's activity is a fraction
    return _Sample(None if index is None else int(index), clock, busy)


def _number(fields: Sequence[str], at: int | None) -> float | None:
    found = _NUMBER.match(fields[at]) if at is not None and at < len(fields) else None
    return float(found[1]) if found else None
