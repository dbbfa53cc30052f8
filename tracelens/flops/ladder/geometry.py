"""Which product does an operator form, and how many bytes must it move at the least?

Least traffic: every operand is read once, every result written once. Caches can only make the true
traffic from memory smaller where operands were just written; re-reading makes it larger.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from tracelens.flops.attention import ATTENTION_OPS, attention_call
from tracelens.flops.dtypes import dtype_of
from tracelens.flops.recorded import Arguments, Shape

_BYTES = {
    "double": 8,
    "float": 4,
    "c10::BFloat16": 2,
    "c10::Half": 2,
    "int": 4,
    "signed char": 1,
    "unsigned char": 1,
}
_NARROW = ("float8", "float4", "float6")
_WIDE_RESULT = 2
"""Matmuls of 8 bits and less write 16 bits or more."""


@dataclass(frozen=True)
class Geometry:
    """One product C[m, n] = A[m, k] B[k, n], ``batch`` times.

    Attributes:
        m: rows of the result; ``None`` where the operator is no plain product.
        n: columns of the result.
        k: inner dimension.
        batch: independent products.
        bytes: least traffic; ``None`` where an element type is not known.
        shape: shapes and types of the operands as one text: the key of equal calls.
    """

    m: int | None
    n: int | None
    k: int | None
    batch: int
    bytes: int | None
    shape: str


def geometry(
    name: str,
    dims: Sequence[Any] | None,
    types: Sequence[Any] | None = None,
    concrete: Sequence[Any] | None = None,
) -> Geometry | None:
    """Return the product that an operator forms, ``None`` for an operator that is not known.

    Args:
        name: operator, e.g. ``aten::addmm``.
        dims: shapes of the inputs.
        types: element types of the inputs.
        concrete: scalar inputs, as text.
    """
    if not isinstance(dims, list | tuple):
        return None
    arguments = Arguments(dims, types, concrete)
    if name in ATTENTION_OPS:
        return _attention(name, arguments)
    if "conv" in name:
        return _convolution(name, arguments)
    found = _PRODUCTS.get(name)
    return None if found is None else _product(found, arguments)


@dataclass(frozen=True)
class _Product:
    sizes: Callable[[Shape, Shape], tuple[int, int, int, int] | None]
    first: int = 0
    second: int = 1


def _product(found: _Product, arguments: Arguments) -> Geometry | None:
    left, right = arguments.shape(found.first), arguments.shape(found.second)
    sizes = found.sizes(left, right) if left and right else None
    if left is None or right is None or sizes is None:
        return None
    m, n, k, batch = sizes
    element = _element(arguments, found.first), _element(arguments, found.second)
    moved = None
    if element[0] and element[1]:
        result = element[0] if element[0] > 1 else _WIDE_RESULT
        moved = prod(left) * element[0] + prod(right) * element[1] + batch * m * n * result
    return Geometry(m, n, k, batch, moved, _shape(arguments))


def _matrices(left: Shape, right: Shape) -> tuple[int, int, int, int] | None:
    if len(left) != 2 or len(right) != 2 or left[1] != right[0]:
        return None
    return left[0], right[1], left[1], 1


def _batches(left: Shape, right: Shape) -> tuple[int, int, int, int] | None:
    if len(left) != 3 or len(right) != 3 or left[0] != right[0] or left[2] != right[1]:
        return None
    return left[1], right[2], left[2], left[0]


def _linear(left: Shape, right: Shape) -> tuple[int, int, int, int] | None:
    if len(right) != 2 or left[-1] != right[1]:
        return None
    return prod(left[:-1]), right[0], left[-1], 1


def _matmul(left: Shape, right: Shape) -> tuple[int, int, int, int] | None:
    if len(left) >= 2 and len(right) == 2 and left[-1] == right[0]:
        return prod(left[:-1]), right[1], left[-1], 1
    if len(left) == len(right) > 2 and left[:-2] == right[:-2] and left[-1] == right[-2]:
        return left[-2], right[-1], left[-1], prod(left[:-2])
    return None


_PRODUCTS = {
    "aten::mm": _Product(_matrices),
    "aten::addmm": _Product(_matrices, 1, 2),
    "aten::_addmm_activation": _Product(_matrices, 1, 2),
    "aten::_scaled_mm": _Product(_matrices),
    "aten::_int_mm": _Product(_matrices),
    "aten::bmm": _Product(_batches),
    "aten::baddbmm": _Product(_batches, 1, 2),
    "aten::linear": _Product(_linear),
    "aten::matmul": _Product(_matmul),
}
PLAIN_PRODUCTS = frozenset(_PRODUCTS)
"""Operators whose scalars (alpha, beta) change no work: calls of equal shapes are equal."""


def _attention(name: str, arguments: Arguments) -> Geometry | None:
    """Query, key and value are read, the result written; backward also their gradients."""
    call = attention_call(name, arguments)
    if call is None:
        return None
    tensors = [arguments.shape(call.query + index, 4) for index in range(3)]
    query, key, value = tensors
    element = _element(arguments, call.query)
    moved = None
    if query and key and value and element:
        result = prod(query) // max(query[-1], 1) * value[-1]
        once = prod(query) + prod(key) + prod(value) + result
        moved = once * element * (2 if call.backward else 1)
    return Geometry(None, None, None, 1, moved, _shape(arguments))


def _convolution(name: str, arguments: Arguments) -> Geometry | None:
    """Images and filters are read; how large the result is, strides say: it is left out."""
    first = 1 if "backward" in name else 0
    images, filters = arguments.shape(first), arguments.shape(first + 1)
    element = _element(arguments, first)
    if not images or not filters:
        return None
    moved = (prod(images) + prod(filters)) * element if element else None
    return Geometry(None, None, None, 1, moved, _shape(arguments))


def _element(arguments: Arguments, index: int) -> int | None:
    text = arguments.type_of(index) or ""
    plain = text.removeprefix("c10::").lower()
    return 1 if plain.startswith(_NARROW) else _BYTES.get(text)


def _shape(arguments: Arguments) -> str:
    parts = []
    for index in range(len(arguments)):
        shape = arguments.shape(index)
        if shape:
            written = arguments.type_of(index)
            parts.append(f"{'x'.join(map(str, shape))}:{dtype_of(written) or written or '?'}")
    return " ".join(parts)
