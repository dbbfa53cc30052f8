"""Mend the JSON text of one event that some writer got wrong, and say what was mended.

Each kind of damage has been seen in files of real users: Windows paths in arguments, control bytes
in names, bare ``NaN``/``inf``/``N/A``, trailing commas, lone surrogates.
"""

import json
import re
from typing import Any

import msgspec

from tracelens.ingest.chrome.event import EVENT, Event

_CONTROL = re.compile(rb"[\x00-\x1f]")
_ESCAPE = re.compile(rb'\\(?:(["\\/bfnrt]|u[0-9a-fA-F]{4})|)')
_TOKEN = re.compile(
    rb'(?P<string>"[^"\\]*+(?:\\.[^"\\]*+)*+")'
    rb"|(?P<number>-?\d[\d.eE+-]*)"
    rb"|(?P<word>-?[A-Za-z_][\w/.+-]*)"
    rb"|(?P<comma>,)(?=\s*[}\]])",
    re.DOTALL,
)
_JSON_WORDS = frozenset({b"true", b"false", b"null"})

CONTROL_BYTES = "control bytes in text replaced"
BAD_ESCAPE = "invalid escape taken as a backslash"
BARE_WORD = "bare word in place of a value read as null"
TRAILING_COMMA = "trailing comma removed"
SURROGATE = "lone surrogate replaced"


def mend(text: bytes) -> tuple[Event | None, list[str]]:
    """Decode one event that a strict decoder refused.

    Returns:
        The event, or ``None`` when it cannot be saved, and the repairs that were needed.
    """
    text, repairs = mend_text(text)
    try:
        return EVENT.decode(text), repairs
    except (msgspec.MsgspecError, RecursionError):
        pass
    try:
        loose = json.loads(text, strict=False, parse_float=_Number, parse_int=_Number)
    except (ValueError, RecursionError):
        return None, repairs
    return _from_loose(loose, repairs), repairs


def mend_text(text: bytes) -> tuple[bytes, list[str]]:
    """Return JSON text with what can be mended without understanding it, and the repairs."""
    repairs: list[str] = []
    text = _noting(_CONTROL.sub(b" ", text), text, CONTROL_BYTES, repairs, outside=b" \t\r\n")
    text = _noting(_ESCAPE.sub(_keep_or_double, text), text, BAD_ESCAPE, repairs)
    return _TOKEN.sub(lambda found: _token(found, repairs), text), repairs


class _Number(str):
    """The text of a number, so that no digit is lost on the way through ``json``."""

    __slots__ = ()


def _noting(
    new: bytes, old: bytes, reason: str, repairs: list[str], *, outside: bytes = b""
) -> bytes:
    # White space between tokens is not damage, so compare without it.
    if new != old and (not outside or _strip(new, outside) != _strip(old, outside)):
        repairs.append(reason)
    return new


def _strip(text: bytes, characters: bytes) -> bytes:
    return text.translate(None, characters)


def _keep_or_double(found: re.Match[bytes]) -> bytes:
    return found.group(0) if found.group(1) else rb"\\"


def _token(found: re.Match[bytes], repairs: list[str]) -> bytes:
    if found.lastgroup == "comma":
        repairs.append(TRAILING_COMMA)
        return b""
    text = found.group(0)
    if found.lastgroup == "word" and text not in _JSON_WORDS:
        repairs.append(BARE_WORD)
        return b"null"
    return text


def _from_loose(loose: Any, repairs: list[str]) -> Event | None:
    if not isinstance(loose, dict):
        return None
    repairs.append(SURROGATE)
    try:
        text = json.dumps(_plain(loose), ensure_ascii=False).encode("utf-8", "replace")
        return EVENT.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, _Number) else value
