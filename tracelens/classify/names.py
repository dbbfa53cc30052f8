"""What is a kernel really called, whoever spelled its name: CUPTI, Nsight or the linker?"""

import re
from collections.abc import Iterator

_MAX_CHARS = 4096
"""Longer names are cut before they are matched: template arguments repeat themselves, and a hostile
name must not make a pattern run for minutes."""

_RETURN_TYPE = re.compile(
    r"^(?:void|(?:typename )?std::enable_if<.*?>::type) +|\bvoid +(?=[\w:]+<)"  # inner: Nsight's
)
_ANONYMOUS = re.compile(r"<unnamed>::|\(anonymous namespace\)::")
_CAST = re.compile(
    r"\((bool|int|unsigned int|long|unsigned long|long long|unsigned long long)\)(-?\d+)"
)
_SUFFIX_OF_TYPE = {
    "int": "",
    "unsigned int": "u",
    "long": "l",
    "unsigned long": "ul",
    "long long": "ll",
    "unsigned long long": "ull",
}
_LAMBDA = re.compile(r"\[lambda\(([^()]*)\) \(instance (\d+)\)\]")
_SPACE = re.compile(r" +(?=[*&>])|(?<=operator) +(?=\()")
_BRACKET = re.compile(r"[<>(]")


def normalize(name: str) -> str:
    """Return one spelling for the same kernel, however a profiler demangled its name.

    Anonymous namespaces are dropped: no two kernels differ by one alone.
    """
    text = name.strip()[:_MAX_CHARS].removesuffix(".kd")
    if text.startswith("_Z"):
        text = _demangle(text)
    text = _ANONYMOUS.sub("", text)
    text = _RETURN_TYPE.sub("", text)
    text = _CAST.sub(_literal, text)
    text = _LAMBDA.sub(r"{lambda(\1)#\2}", text)
    return _SPACE.sub("", text)


def signature(normalized: str) -> str:
    """Return a normalized name without its parameters, which only repeat template arguments."""
    depth = 0
    for bracket in _BRACKET.finditer(normalized):
        if bracket[0] == "<":
            depth += 1
        elif bracket[0] == ">":
            depth -= 1
        elif depth <= 0 and bracket.start() > 0:
            return normalized[: bracket.start()]
    return normalized


def _literal(cast: re.Match[str]) -> str:
    kind, digits = cast[1], cast[2]
    if kind == "bool":
        return "false" if digits == "0" else "true"
    return digits + _SUFFIX_OF_TYPE[kind]


# The Itanium ABI's mangling, as far as identifiers and floating types need it: an identifier is its
# length and itself, everything else is a letter or a short code.
_MANGLED = re.compile(
    r"(?P<length>\d{1,4})|L[a-z]n?\d+E|S[0-9A-Z]*_|T\d*_|DF16b|DF16_|D[a-z]|St|.",
    re.DOTALL,
)
_VALUE = re.compile(r"n?\d+E")
_TYPE_OF_CODE = {"DF16b": "bfloat16", "DF16_": "half", "Dh": "half", "f": "float", "d": "double"}


def _demangle(mangled: str) -> str:
    """Return ``scope::name<words of the rest>``; the text itself where that fails."""
    scope: list[str] = []
    words: list[str] = []
    is_nested = mangled.startswith(("_ZN", "_ZZN"))
    in_scope = True
    for kind, text in _mangled_words(mangled):
        if kind == "word" and in_scope:
            scope.append(text)
            in_scope = is_nested
        elif kind == "word" or (kind == "type" and not in_scope):
            words.append(text)
        elif kind == "end" and scope:
            in_scope = False
    if not scope:
        return mangled
    return "::".join(scope) + (f"<{', '.join(words)}>" if words else "")


def _mangled_words(mangled: str) -> Iterator[tuple[str, str]]:
    """Yield (word | type | end, text); an end closes a name or opens its template arguments."""
    at, value_after = len("_Z"), ""
    while token := _MANGLED.match(mangled, at):
        at = token.end()
        kind, text = "", token[0]
        if token["length"]:
            kind, text = "word", mangled[at : at + int(text)]
            if len(text) < int(token["length"]):
                return
            at += len(text)
        elif text in _TYPE_OF_CODE:
            kind, text = "type", _TYPE_OF_CODE[text]
        elif text in {"I", "E"}:
            kind = "end"
        elif text == "L":
            value_after = "end" if mangled.startswith("N", at) else "word"
        if kind and text and not text.startswith("_GLOBAL__N_"):
            yield kind, text
        # An enumerator is its type and a number, LN3foo4EnumE2E: that number is no length.
        if kind and kind == value_after:
            value_after = ""
            at = value.end() if (value := _VALUE.match(mangled, at)) else at
