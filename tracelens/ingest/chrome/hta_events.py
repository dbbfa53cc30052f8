"""Which events of a Chrome trace does HolisticTraceAnalysis count as GPU work, and when?

The event set is that of HTA 0.5.0 (its ``trace.py``, ``trace_filter.py`` and ``trace_parser.py``):
whatever carries a stream, synchronization records, annotations and all. It is another set than the
importer's, so the file is read again, and times are binary floating point here because HTA's are:
its figures can only be reproduced with its rounding.
"""

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from tracelens.errors import InputError
from tracelens.ingest import chrome
from tracelens.ingest.chrome.event import Args, Event, as_int, as_text, number_text
from tracelens.ingest.chrome.source_bytes import ByteStream
from tracelens.ingest.chrome.split import TraceReader
from tracelens.ingest.damage import Damage
from tracelens.ingest.inputs import importer_of

Array = np.ndarray[Any, Any]
_NONE = -1
_STEP = "ProfilerStep"
_DEVICE_WIDE = frozenset({"Event Sync", "Context Sync"})
"""Records without a stream that HTA nevertheless counts among the GPU's."""
_FAR = 2.0**62
_READS = "HTA reads traces written by torch.profiler (export_chrome_trace)"


@dataclass
class HtaEvents:
    """Events of one file that carry a stream, in file order.

    Attributes:
        path: the file.
        names: names of the events.
        step_names: names of all step marks in the file, on the host or not.
    """

    path: Path
    names: list[str] = field(default_factory=list)
    step_names: set[str] = field(default_factory=set)
    _start: list[float] = field(default_factory=list)
    _end: list[float] = field(default_factory=list)
    _correlation: list[int] = field(default_factory=list)
    _on_gpu: list[bool] = field(default_factory=list)
    _first_call: dict[int, float] = field(default_factory=dict)
    _last_step: float | None = None
    _fractional: bool = False

    def times_us(self) -> tuple[Array, Array]:
        """Return starts and ends; starts are rounded up and ends down where any is fractional."""
        if not self._fractional:
            return np.array(self._start), np.array(self._end)
        return (
            np.array([math.ceil(start) for start in self._start], np.int64),
            np.array([math.floor(end) for end in self._end], np.int64),
        )

    def kept(self, *, drop_last_step: bool) -> Array:
        """Tell which events HTA analyzes.

        Args:
            drop_last_step: leave out what the host launched from the last step mark on, and
                everything whose launch is not in the file.
        """
        if not drop_last_step:
            return np.ones(len(self.names), bool)
        limit = -math.inf if self._last_step is None else self._rounded(self._last_step)
        kept = []
        for start, correlation, on_gpu in zip(
            self._start, self._correlation, self._on_gpu, strict=True
        ):
            # An event that is not on the GPU counts by its own start.
            begun = self._first_call.get(correlation, math.inf) if on_gpu else start
            kept.append(begun < math.inf and self._rounded(begun) < limit)
        return np.array(kept, bool)

    def _rounded(self, time: float) -> float:
        return math.ceil(time) if self._fractional else time

    def add(self, event: Event) -> None:
        """Take in one event."""
        start, dur = _number(event.ts), _number(event.dur)
        self._fractional |= start is None or isinstance(start, float)
        category = as_text(event.cat)
        if start is None or dur is None or category is None or category == "Trace":
            return
        name = as_text(event.name) or ""
        if _STEP in name:
            self.step_names.add(name)
        args = event.args or Args()
        stream = _integer(args.stream)
        correlation = _integer(args.correlation)
        on_gpu = (stream >= 0 and correlation >= 0) or name in _DEVICE_WIDE
        if not on_gpu:
            self._note_call(name, start, correlation)
        if stream != _NONE:
            self.names.append(name)
            self._start.append(start)
            self._end.append(start + dur)
            self._correlation.append(correlation)
            self._on_gpu.append(on_gpu)

    def _note_call(self, name: str, start: float, correlation: int) -> None:
        known = self._first_call.get(correlation, math.inf)
        self._first_call[correlation] = min(known, start)
        if _STEP in name:
            self._last_step = start if self._last_step is None else max(self._last_step, start)


def read_hta_events(path: Path) -> HtaEvents:
    """Read the events of one file in bounded memory.

    Raises:
        InputError: if it is no Chrome trace.
    """
    if importer_of(path)[0] is not chrome:
        raise InputError(f"{path}: not a Chrome trace", hint=_READS)
    damage = Damage()
    reader = TraceReader(ByteStream(path, damage), damage)
    events = HtaEvents(path)
    for batch in reader.batches():
        for event in batch:
            events.add(event)
    if not reader.found_events:
        raise InputError(f"{path}: no list of trace events", hint=_READS)
    return events


def _number(raw: msgspec.Raw) -> int | float | None:
    """Read a number as HTA does: whole ones exactly, others as binary floating point."""
    text = number_text(raw)
    try:
        value = int(text) if text.lstrip("-").isdecimal() else float(text)
    except ValueError:
        return None
    return value if abs(value) < _FAR else None


def _integer(value: Any) -> int:
    number = as_int(value)
    return _NONE if number is None else number
