"""Which class and which data type does the name of a kernel tell?"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from tracelens.classify.names import normalize, signature
from tracelens.classify.table import Table

UNKNOWN_CLASS = "other"


@dataclass(frozen=True)
class NameFacts:
    """What a name tells.

    Attributes:
        kernel_class: a key of ``taxonomy.CLASS_LEAF``; ``None`` when no rule matched.
        dtype: fp64, fp32, tf32, bf16, fp16, fp8, fp4 or int8; ``None`` when the name does not tell.
    """

    kernel_class: str | None
    dtype: str | None


@cache
def class_table() -> Table:
    """Return the ordered class rules."""
    return Table.load("kernels.toml", "rule", "class")


@cache
def dtype_table() -> Table:
    """Return the ordered dtype rules."""
    return Table.load("kernels.toml", "dtype", "dtype")


def facts_of(name: str) -> NameFacts:
    """Return what the name of one kernel tells."""
    text = normalize(name)
    rule = class_table().match(signature(text))
    if rule is not None and "dtype" in rule.extra:
        return NameFacts(rule.value, rule.extra["dtype"] or None)
    dtype = dtype_table().match(text)
    return NameFacts(rule.value if rule else None, (dtype.value or None) if dtype else None)


def classify_names(names: Iterable[str]) -> list[NameFacts]:
    """Return what each name tells; pass every distinct name once."""
    return [facts_of(name) for name in names]


def kernel_class(name: str) -> str:
    """Return the class that the name alone tells; ``other`` when no rule matches."""
    return facts_of(name).kernel_class or UNKNOWN_CLASS


def kernel_dtype(name: str) -> str | None:
    """Return the data type of the operands as far as the name tells it."""
    return facts_of(name).dtype
