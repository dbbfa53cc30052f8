"""Cut a stream of JSON text into decoded events in bounded memory, saving what can be saved.

The quick path cuts the text at something that looks like an event boundary and lets a strict
decoder judge the piece: a cut inside a string or a nested value cannot decode, so a piece that
decodes was cut right. Whatever does not decode goes through the careful path event by event.
"""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from tracelens.ingest.chrome import repair
from tracelens.ingest.chrome.event import DOCUMENT, EVENT, EVENTS, HEADER_KEYS, Event
from tracelens.ingest.chrome.source_bytes import ByteStream
from tracelens.ingest.damage import Damage

BLOCK_BYTES = 4 << 20
_LONGEST_EVENT_BLOCKS = 16
_LONGEST_HEADER_BLOCKS = 64
_BOUNDARY_BYTES = 64
_CUTS_TRIED = 4
_BOM = b"\xef\xbb\xbf"
_SPACE = re.compile(rb"[\s,]*")
_KEY = re.compile(rb'\s*,?\s*"([^"\\]*+(?:\\.[^"\\]*+)*+)"\s*:\s*', re.DOTALL)
_SCALAR = re.compile(rb'[^\s,}\]"\[{]+')
_STRUCTURE = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}\[\]]', re.DOTALL)
_NEXT_EVENT = re.compile(rb'\}\s*,\s*(?=\{\s*"(?:ph|cat|name|pid|tid|ts|dur|args|id|s|bp)"\s*:)')
_EVENTS_KEY = re.compile(rb'"traceEvents"\s*:\s*\[')
_OPENERS = b"{["
_UNDECODABLE = (msgspec.MsgspecError, RecursionError)

TRUNCATED = "file ends inside an event"
NOT_CLOSED = "event list is not closed"
NOT_UTF8 = "bytes that are not UTF-8 replaced"
LOST = "event that cannot be decoded"
EXTRA = "text after the end of the trace ignored"
HEADER_LOST = "top-level value that cannot be decoded"
NO_EVENT_OBJECT = "entry of the event list that is not an event"


class TraceReader:
    """Reads one trace.

    Attributes:
        header: top-level facts, from before and after the events.
        truncated: whether the text ends early.
        found_events: whether there is an event list at all.
    """

    def __init__(self, stream: ByteStream, damage: Damage) -> None:
        self._chunks = iter(stream)
        self._damage = damage
        self._text = b""
        self._offset = 0  # of self._text within the decompressed file
        self._ended = False
        self._closed = False  # the event list has been closed by its bracket
        self._skipping = False  # inside an event too long to be one
        self.header: dict[str, Any] = {}
        self.truncated = False
        self.found_events = False

    def batches(self) -> Iterator[list[Event]]:
        """Yield lists of decoded events until the text ends."""
        self._fill()
        if self._text.startswith(_BOM):
            self._damage.add("byte order mark removed", 0)
            self._drop(len(_BOM))
        self._enter()
        while (
            self.found_events and not self._closed and not (self._ended and not self._text.strip())
        ):
            yield self._next_batch()
        if self.found_events and not self._closed:
            self.truncated = True
            self._damage.add(
                TRUNCATED if self._text.strip() else "event list is not closed", self._offset
            )

    # --- text ------------------------------------------------------------------------------------

    def _fill(self, at_least: int = 0) -> None:
        """Read on until a block, or more if asked for, is at hand."""
        at_least = max(at_least, BLOCK_BYTES)
        parts = [self._text]
        size = len(self._text)
        while size < at_least and not self._ended:
            chunk = next(self._chunks, None)
            if chunk is None:
                self._ended = True
            else:
                parts.append(chunk)
                size += len(chunk)
        if len(parts) > 1:
            self._text = b"".join(parts)

    def _drop(self, count: int) -> None:
        self._text = self._text[count:]
        self._offset += count

    # --- the way to the event list ---------------------------------------------------------------

    def _enter(self) -> None:
        start = len(self._text) - len(self._text.lstrip())
        opener = self._text[start : start + 1]
        if opener == b"[":
            self._drop(start + 1)
            self.found_events = True
        elif opener == b"{":
            self._drop(start + 1)
            self._read_keys()

    def _read_keys(self) -> None:
        """Read key by key up to the event list; what is needed stays in ``header``."""
        while True:
            key = _KEY.match(self._text)
            if key is None:
                if not self._ended and len(self._text) < BLOCK_BYTES:
                    self._fill()
                    continue
                self._search_events_key()
                return
            name = key.group(1).decode("utf-8", "replace")
            if name == "traceEvents" and self._text[key.end() : key.end() + 1] == b"[":
                self._drop(key.end() + 1)
                self.found_events = True
                return
            end = self._value_end(key.end())
            if end is None:
                self._search_events_key()
                return
            self._keep(name, self._text[key.end() : end])
            self._drop(end)

    def _value_end(self, start: int) -> int | None:
        while True:
            end = _end_of_value(self._text, start)
            too_long = len(self._text) > _LONGEST_HEADER_BLOCKS * BLOCK_BYTES
            if end is not None or self._ended or too_long:
                return end
            self._fill(2 * len(self._text) + BLOCK_BYTES)

    def _search_events_key(self) -> None:
        found = _EVENTS_KEY.search(self._text)
        if found:
            self._damage.add("damaged text before the event list skipped", self._offset)
            self._drop(found.end())
            self.found_events = True

    def _keep(self, name: str, value: bytes) -> None:
        if name not in HEADER_KEYS:
            return
        text = value
        repairs: list[str] = []
        for attempt in (0, 1):
            try:
                self.header[name] = msgspec.json.decode(text)
            except _UNDECODABLE:
                if attempt:
                    self._damage.add(HEADER_LOST, self._offset)
                text, repairs = repair.mend_text(value)
            else:
                for reason in dict.fromkeys(repairs):
                    self._damage.add(reason, self._offset)
                return

    # --- events ----------------------------------------------------------------------------------

    def _next_batch(self) -> list[Event]:
        self._fill()
        if self._skipping:
            self._skip()
            return []
        quick = self._whole_tail() if self._ended else self._quick()
        return quick if quick is not None else self._careful()

    def _whole_tail(self) -> list[Event] | None:
        for opening in (b'{"traceEvents":[', b"["):
            try:
                if opening == b"[":
                    events = EVENTS.decode(opening + self._text)
                else:
                    document = DOCUMENT.decode(opening + self._text)
                    events = document.traceEvents or []
                    for key in HEADER_KEYS:
                        if (value := getattr(document, key)) is not None:
                            self.header[key] = value
            except _UNDECODABLE:
                continue
            self._drop(len(self._text))
            self._closed = True
            return events
        return None

    def _quick(self) -> list[Event] | None:
        end = len(self._text)
        for _ in range(_CUTS_TRIED):
            end = self._text.rfind(b"},", 0, end)
            if end < 0:
                return None
            if not self._text[end + 2 : end + 66].lstrip().startswith(b"{"):
                continue
            try:
                events = EVENTS.decode(b"[" + self._text[: end + 1] + b"]")
            except _UNDECODABLE:
                continue
            self._drop(end + 2)
            return events
        return None

    def _careful(self) -> list[Event]:
        """Take the events of the text at hand one by one."""
        events: list[Event] = []
        position = self._mend_utf8()
        while True:
            position = _SPACE.match(self._text, position).end()  # type: ignore[union-attr]
            opener = self._text[position : position + 1]
            if opener == b"]":
                self._finish(position + 1)
                return events
            if not opener:
                break
            end = _end_of_value(self._text, position) if opener in _OPENERS else None
            if end is None and opener in _OPENERS:
                length = len(self._text) - position
                if not self._ended and length < _LONGEST_EVENT_BLOCKS * BLOCK_BYTES:
                    break  # the rest of the event has not been read yet
                end = self._resync(position)
                if end is None and not self._ended:
                    # An event without end must not fill the memory.
                    self._damage.add(LOST, self._offset + position)
                    self._skipping = True
                if end is None:
                    break
            position = self._take(position, end, events)
        self._drop(position)
        if self._ended and self._text:
            self._leave_rest()
        elif not events and not self._skipping:
            self._fill(len(self._text) + BLOCK_BYTES)
        return events

    def _take(self, start: int, end: int | None, events: list[Event]) -> int:
        if end is None:  # neither an object nor a list: a stray scalar
            self._damage.add(NO_EVENT_OBJECT, self._offset + start)
            scalar = _SCALAR.match(self._text, start)
            return scalar.end() if scalar else start + 1
        text = self._text[start:end]
        try:
            events.append(EVENT.decode(text))
        except _UNDECODABLE:
            event, repairs = repair.mend(text)
            if event is None:
                # An unescaped quote can swallow following events: cut at the first event boundary.
                boundary = _NEXT_EVENT.search(self._text, start, end)
                self._damage.add(LOST, self._offset + start)
                return boundary.end() if boundary else end
            for reason in dict.fromkeys(repairs):
                self._damage.add(reason, self._offset + start)
            events.append(event)
        return end

    def _skip(self) -> None:
        """Drop text up to the next event boundary."""
        boundary = _NEXT_EVENT.search(self._text)
        if boundary:
            self._skipping = False
            self._drop(boundary.end())
        elif self._ended:
            self._leave_rest()
        else:
            self._drop(max(len(self._text) - _BOUNDARY_BYTES, 0))

    def _resync(self, start: int) -> int | None:
        boundary = _NEXT_EVENT.search(self._text, start)
        return boundary.end() if boundary else None

    def _mend_utf8(self) -> int:
        try:
            self._text.decode("utf-8")
        except UnicodeDecodeError as error:
            if self._ended or error.start < len(self._text) - 4:
                self._damage.add(NOT_UTF8, self._offset + error.start)
                self._text = self._text.decode("utf-8", "replace").encode()
        return 0

    def _leave_rest(self) -> None:
        self.truncated = True
        self._damage.add(TRUNCATED, self._offset)
        self._drop(len(self._text))
        self._closed = True

    def _finish(self, position: int) -> None:
        """Read what follows the event list."""
        self._closed = True
        self._drop(position)
        self._fill(64 * BLOCK_BYTES)
        while key := _KEY.match(self._text):
            end = self._value_end(key.end())
            if end is None:
                self.truncated = True
                return
            self._keep(key.group(1).decode("utf-8", "replace"), self._text[key.end() : end])
            self._drop(end)
        if self._text.strip(b" \t\r\n}],;"):
            self._damage.add(EXTRA, self._offset)


def _end_of_value(text: bytes, start: int) -> int | None:
    """Return where the JSON value that starts at ``start`` ends; ``None`` if it does not."""
    opener = text[start : start + 1]
    if opener not in (b"{", b"[", b'"'):
        scalar = _SCALAR.match(text, start)
        return scalar.end() if scalar and scalar.end() < len(text) else None
    depth = 0
    for token in _STRUCTURE.finditer(text, start):
        first = token.group()[:1]
        if first in (b"{", b"["):
            depth += 1
        elif first in (b"}", b"]"):
            depth -= 1
        if depth == 0:
            return token.end()
    return None
