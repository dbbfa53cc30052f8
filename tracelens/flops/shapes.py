"""How many FLOPs does one operator do, given the shapes that the profiler recorded?

Shapes come from a file: anything that is not what the operator's signature promises gives
``None``, never a guess and never an exception. Argument positions follow the ATen schemas
(``native_functions.yaml``) and those of the flash-attention packages.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from tracelens.flops.attention import ATTENTION_OPS, AttentionCall, attention_call
from tracelens.flops.dtypes import FP32_OR_TF32, dtype_of
from tracelens.flops.recorded import Arguments, Shape

_MAX_FLOP = 1e24
"""More than a day of the largest machine: such a shape is damage."""


@dataclass(frozen=True)
class OpFlop:
    """FLOPs of one call of an operator.

    Attributes:
        kind: ``gemm``, ``attn`` or ``conv``.
        model_flop: what the model needs: exact causal mask, four products in attention backward.
        executed_flop: what the kernels do: flash attention recomputes a product in backward.
        dtype: format of the operands, from the recorded types; ``None`` when not recorded.
        backward: whether the operator itself is a backward one.
        low_frac: below 1 the two figures are upper bounds, and this share of them lower ones.
    """

    kind: str
    model_flop: float
    executed_flop: float
    dtype: str | None
    backward: bool = False
    low_frac: float = 1.0


def op_flop(
    name: str,
    dims: Sequence[Any] | None,
    types: Sequence[Any] | None = None,
    concrete: Sequence[Any] | None = None,
) -> OpFlop | None:
    """Return the FLOPs of an operator, or ``None`` when they do not follow from its record.

    Args:
        name: operator, e.g. ``aten::addmm``.
        dims: shapes of the inputs.
        types: element types of the inputs.
        concrete: scalar inputs, as text.
    """
    if not isinstance(dims, list | tuple):
        return None
    arguments = Arguments(dims, types, concrete)
    call = attention_call(name, arguments) if name in ATTENTION_OPS else None
    if call is not None:
        return _attention(call, arguments)
    rule = _RULES.get(name)
    if rule is None:
        return None
    macs = rule.count(arguments)
    if not macs:
        return None
    factor = 4 if _packs_two_values(arguments, rule.operand) else 2
    flop = float(factor * macs)
    if not 0 < flop <= _MAX_FLOP or _is_complex(arguments, rule.operand):
        return None
    dtype = _operand_dtype(arguments, rule.operand)
    return OpFlop(rule.kind, flop, flop, dtype, backward=rule.backward)


@dataclass(frozen=True)
class _Rule:
    kind: str
    count: Callable[[Arguments], int | None]
    operand: int = 0
    backward: bool = False


def _attention(call: AttentionCall, arguments: Arguments) -> OpFlop | None:
    flop = float(call.model_flop)
    if not 0 < flop <= _MAX_FLOP:
        return None
    dtype = _operand_dtype(arguments, call.query)
    executed = float(call.executed_flop)
    return OpFlop("attn", flop, executed, dtype, call.backward, call.low_frac)


def _operand_dtype(arguments: Arguments, index: int) -> str | None:
    dtype = dtype_of(arguments.type_of(index))
    return FP32_OR_TF32 if dtype == "fp32" else dtype


def _is_complex(arguments: Arguments, index: int) -> bool:
    return "complex" in (arguments.type_of(index) or "").lower()


def _packs_two_values(arguments: Arguments, index: int) -> bool:
    return "float4" in (arguments.type_of(index) or "").lower()


# --- matrix products ---------------------------------------------------------------------------


def _mm(first: int) -> Callable[[Arguments], int | None]:
    """[M, K] x [K, N], operands at ``first`` and the position after it."""

    def count(arguments: Arguments) -> int | None:
        left, right = arguments.shape(first, 2), arguments.shape(first + 1, 2)
        if left is None or right is None or left[1] != right[0]:
            return None
        return left[0] * left[1] * right[1]

    return count


def _bmm(first: int) -> Callable[[Arguments], int | None]:
    """[B, M, K] x [B, K, N]."""

    def count(arguments: Arguments) -> int | None:
        left, right = arguments.shape(first, 3), arguments.shape(first + 1, 3)
        if left is None or right is None or left[0] != right[0] or left[2] != right[1]:
            return None
        return prod(left) * right[2]

    return count


def _mv(first: int) -> Callable[[Arguments], int | None]:
    """[M, K] x [K]."""

    def count(arguments: Arguments) -> int | None:
        matrix, vector = arguments.shape(first, 2), arguments.shape(first + 1, 1)
        if matrix is None or vector is None or matrix[1] != vector[0]:
            return None
        return prod(matrix)

    return count


def _dot(arguments: Arguments) -> int | None:
    left, right = arguments.shape(0, 1), arguments.shape(1, 1)
    return left[0] if left is not None and left == right else None


def _linear(arguments: Arguments) -> int | None:
    """[..., K] x [N, K] transposed."""
    data, weight = arguments.shape(0), arguments.shape(1, 2)
    if not data or weight is None or data[-1] != weight[1]:
        return None
    return prod(data) * weight[0]


def _matmul(arguments: Arguments) -> int | None:
    """The broadcasting product; vectors are matrices with one row or column."""
    left, right = arguments.shape(0), arguments.shape(1)
    if not left or not right:
        return None
    left = (1, *left) if len(left) == 1 else left
    right = (*right, 1) if len(right) == 1 else right
    if left[-1] != right[-2]:
        return None
    batch = _broadcast(left[:-2], right[:-2])
    return None if batch is None else prod(batch) * left[-2] * left[-1] * right[-1]


def _broadcast(left: Shape, right: Shape) -> Shape | None:
    width = max(len(left), len(right))
    left = (1,) * (width - len(left)) + left
    right = (1,) * (width - len(right)) + right
    pairs = list(zip(left, right, strict=True))
    if any(a != b and 1 not in {a, b} for a, b in pairs):
        return None
    return tuple(max(pair) for pair in pairs)


def _grouped_mm(arguments: Arguments) -> int | None:
    """Rows, columns or K are split over experts; where does not matter."""
    left, right = arguments.shape(0), arguments.shape(1)
    if left is None or right is None or not {len(left), len(right)} <= {2, 3}:
        return None
    if left[-1] != right[-2]:
        return None
    if len(left) == 3 and len(right) == 3 and left[0] != right[0]:
        return None
    return left[-2] * left[-1] * right[-1] * (left[0] if len(left) == len(right) == 3 else 1)


def _te_gemm(arguments: Arguments) -> int | None:
    """Transformer Engine: A at 0, B at 5, column-major; their transposes at 4 and 9."""
    left, right = arguments.shape(0, 2), arguments.shape(5, 2)
    left_t, right_t = arguments.flag(4), arguments.flag(9)
    if left is None or right is None or left_t is None or right_t is None:
        return None
    inner = left[1] if left_t else left[0]
    if inner != (right[0] if right_t else right[1]) or inner == 0:
        return None
    return prod(left) * prod(right) // inner


# --- convolutions ------------------------------------------------------------------------------


def _convolution(
    stride: int, padding: int, dilation: int, transposed: int | None = None
) -> Callable[[Arguments], int | None]:
    """Forward: every output pixel meets the whole filter; positions of the scalar inputs."""

    def count(arguments: Arguments) -> int | None:
        data, weight = _images(arguments, 0)
        if data is None or weight is None:
            return None
        if transposed is not None:
            flag = arguments.flag(transposed)
            if flag is None:
                return None
            if flag:
                return data[0] * prod(data[2:]) * prod(weight)
        out = _output_size(arguments, (data[2:], weight[2:]), (stride, padding, dilation))
        return None if out is None else data[0] * prod(out) * prod(weight)

    return count


def _images(arguments: Arguments, first: int) -> tuple[Shape, Shape] | tuple[None, None]:
    """Two neighbouring inputs of one rank, with batch, channels and at least one more size."""
    left, right = arguments.shape(first), arguments.shape(first + 1)
    if left is None or right is None or len(left) != len(right) or len(left) < 3:
        return None, None
    return left, right


def _output_size(
    arguments: Arguments, sizes: tuple[Shape, Shape], positions: tuple[int, int, int]
) -> Shape | None:
    data, kernel = sizes
    settings = [arguments.numbers(position, len(data)) for position in positions]
    stride, padding, dilation = settings
    if stride is None or padding is None or dilation is None or 0 in stride:
        return None
    out = []
    for size, taps, step, pad, spread in zip(data, kernel, stride, padding, dilation, strict=True):
        length = (size + 2 * pad - spread * (taps - 1) - 1) // step + 1
        if length < 1:
            return None
        out.append(length)
    return tuple(out)


def _transposed_convolution(arguments: Arguments) -> int | None:
    data, weight = _images(arguments, 0)
    if data is None or weight is None:
        return None
    return data[0] * prod(data[2:]) * prod(weight)


def _convolution_backward(arguments: Arguments) -> int | None:
    """One forward's worth for each gradient that the output mask asks for."""
    gradient = arguments.shape(0)
    data, weight = _images(arguments, 1)
    transposed, mask = arguments.flag(7), arguments.flags(10, 3)
    if gradient is None or data is None or weight is None or len(gradient) != len(data):
        return None
    if transposed is None or mask is None:
        return None
    pixels = prod(data[2:]) if transposed else prod(gradient[2:])
    return gradient[0] * pixels * prod(weight) * (mask[0] + mask[1])


def _cudnn_backward_input(arguments: Arguments) -> int | None:
    """Torch up to 1.10: the gradient is input 1, the filter input 2."""
    gradient, weight = _images(arguments, 1)
    if gradient is None or weight is None:
        return None
    return gradient[0] * prod(gradient[2:]) * prod(weight)


_ATEN_CONVOLUTION = _convolution(3, 4, 5, transposed=6)
_CONV_ND = _convolution(3, 4, 5)
_CUDNN_CONVOLUTION = _convolution(3, 2, 4)

_RULES: dict[str, _Rule] = {
    "aten::mm": _Rule("gemm", _mm(0)),
    "aten::addmm": _Rule("gemm", _mm(1), operand=1),
    "aten::_addmm_activation": _Rule("gemm", _mm(1), operand=1),
    "aten::_scaled_mm": _Rule("gemm", _mm(0)),
    "aten::_int_mm": _Rule("gemm", _mm(0)),
    "aten::bmm": _Rule("gemm", _bmm(0)),
    "aten::baddbmm": _Rule("gemm", _bmm(1), operand=1),
    "aten::addbmm": _Rule("gemm", _bmm(1), operand=1),
    "aten::mv": _Rule("gemm", _mv(0)),
    "aten::addmv": _Rule("gemm", _mv(1), operand=1),
    "aten::dot": _Rule("gemm", _dot),
    "aten::linear": _Rule("gemm", _linear),
    "aten::matmul": _Rule("gemm", _matmul),
    "aten::_grouped_mm": _Rule("gemm", _grouped_mm),
    "aten::_scaled_grouped_mm": _Rule("gemm", _grouped_mm),
    "tex_ts::te_gemm_ts": _Rule("gemm", _te_gemm),
    "aten::convolution": _Rule("conv", _ATEN_CONVOLUTION),
    "aten::_convolution": _Rule("conv", _ATEN_CONVOLUTION),
    "aten::convolution_overrideable": _Rule("conv", _ATEN_CONVOLUTION),
    "aten::conv1d": _Rule("conv", _CONV_ND),
    "aten::conv2d": _Rule("conv", _CONV_ND),
    "aten::conv3d": _Rule("conv", _CONV_ND),
    "aten::cudnn_convolution": _Rule("conv", _CUDNN_CONVOLUTION),
    "aten::cudnn_convolution_relu": _Rule("conv", _CONV_ND),
    "aten::miopen_convolution": _Rule("conv", _convolution(4, 3, 5)),
    "aten::conv_transpose1d": _Rule("conv", _transposed_convolution),
    "aten::conv_transpose2d": _Rule("conv", _transposed_convolution),
    "aten::conv_transpose3d": _Rule("conv", _transposed_convolution),
    "aten::cudnn_convolution_transpose": _Rule("conv", _transposed_convolution),
    "aten::miopen_convolution_transpose": _Rule("conv", _transposed_convolution),
    "aten::convolution_backward": _Rule("conv", _convolution_backward, backward=True),
    "aten::cudnn_convolution_backward_input": _Rule(
        "conv", _cudnn_backward_input, operand=1, backward=True
    ),
}
"""Operators by name. A parent such as ``aten::linear`` counts only what its children do not."""
