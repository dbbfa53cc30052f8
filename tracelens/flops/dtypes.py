"""Which number format does a kernel name, an operator or an option mean?"""

from tracelens.errors import UsageError

NARROW = ("bf16", "fp16", "fp8", "int8", "fp6", "fp4")
"""Formats of 16 bits and less: tensor-core formats that set the reference peak."""
WIDE = ("tf32", "fp32", "fp64")
FP32_OR_TF32 = "fp32|tf32"
"""Operands of 32 bits, and nothing says whether the tensor cores rounded them to TF32."""

_SYNONYMS = {
    "bf16": ("bfloat16", "bf16", "nvbfloat16", "hipbfloat16", "bhalf"),
    "fp16": ("half", "float16", "fp16", "f16"),
    "tf32": ("tf32", "tensorfloat32", "tfloat32"),
    "fp32": ("float", "float32", "fp32", "f32"),
    "fp64": ("double", "float64", "fp64", "f64"),
    "fp8": ("fp8", "float8", "e4m3", "e5m2", "f8", "mxfp8"),
    "int8": ("int8", "signedchar", "char", "qint8", "s8"),
    "fp6": ("fp6", "float6", "mxfp6"),
    "fp4": ("fp4", "float4", "nvfp4", "mxfp4", "e2m1"),
}
_EXACT = {spelling: name for name, spellings in _SYNONYMS.items() for spelling in spellings}
_PREFIXES = ("float8", "float6", "float4", "fp8", "fp6", "fp4", "mxfp8", "mxfp6", "mxfp4", "nvfp4")


def dtype_of(text: str | None) -> str | None:
    """Return the plain name of a format (``c10::BFloat16`` is ``bf16``), ``None`` if unknown."""
    if not text:
        return None
    lowered = text.lower()
    if lowered in {"fp16/bf16", "bf16/fp16"}:
        return None  # the same kernel serves both: the operator has to say
    plain = "".join(c for c in lowered.rpartition(":")[2].rpartition(".")[2] if c.isalnum())
    if plain in _EXACT:
        return _EXACT[plain]
    # Suffixes say which encoding: Float8_e4m3fn, Float4_e2m1fn_x2.
    return next((_EXACT[prefix] for prefix in _PREFIXES if plain.startswith(prefix)), None)


def required_dtype(text: str) -> str:
    """Return the plain name of a format that a user wrote.

    Raises:
        UsageError: if there is no such format.
    """
    name = dtype_of(text)
    if name is None:
        raise UsageError(f"unknown dtype {text!r}", hint=f"known: {', '.join(_SYNONYMS)}")
    return name
