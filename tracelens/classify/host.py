"""What does the name of a host call, an operator, a range or a framework's collective mean?"""

import re
from functools import cache

from tracelens.classify.rules import facts_of
from tracelens.classify.table import Table

TARGETS = ("call", "op", "range", "rerun", "phase", "module", "overhead", "copy")
"""What a label can be put on; each is a kind of row of the store. Ranges are asked four times: what
idle time in them is due to (range), whether they run forward work again (rerun), to which pass of
training they belong (phase), and which part of the model they are (module)."""

_FILE = "host.toml"
_API_VERSION = re.compile(r"(?:_v\d{4,5})?(?:_ptsz|_ptds)?$")
_OP_NUMBERS = re.compile(r", (?:seq|op_id) = .*$", re.DOTALL)
_MAX_CHARS = 1024


@cache
def label_table(target: str) -> Table:
    """Return the rules that may label ``target``, in order."""
    every = Table.load(_FILE, "rule", "label")
    return Table(tuple(rule for rule in every.rules if target in rule.extra["target"]))


@cache
def op_class_table() -> Table:
    """Return the rules from a launching op to the class of its kernel."""
    return Table.load(_FILE, "op_class", "class")


@cache
def collective_table() -> Table:
    """Return the rules from a framework's operation to the class of its kernel."""
    return Table.load(_FILE, "collective", "class")


@cache
def dtype_table() -> Table:
    """Return the rules from a framework's name of a data type to ours."""
    return Table.load(_FILE, "dtype", "dtype")


def plain_name(name: str) -> str:
    """Return a host name without the decorations of a profiler."""
    return _API_VERSION.sub("", _OP_NUMBERS.sub("", name[:_MAX_CHARS]))


def host_label(name: str, target: str) -> str | None:
    """Return what something on the host is doing, or ``None``.

    Args:
        name: name as the profiler wrote it.
        target: one of ``TARGETS``. A range with the numbers of an op is judged as an op: operators
            are called after data, steps and checkpoints that they have nothing to do with.
    """
    if target == "range" and _OP_NUMBERS.search(name):
        target = "op"
    rule = label_table(target).match(plain_name(name))
    return rule.value if rule else None


def op_class(name: str) -> str | None:
    """Return the class of a kernel launched by the op ``name``, as far as the op tells it."""
    plain = plain_name(name)
    # Inductor calls the op like the kernel, and old Triton does not call the kernel anything.
    if plain.startswith("triton_"):
        return facts_of(plain).kernel_class
    rule = op_class_table().match(plain)
    return rule.value if rule else None


def annotated_class(name: str, target: str) -> str | None:
    """Return the class of communication that an annotation or a communication op announces."""
    return collective_class(name) if host_label(name, target) == "collective_api" else None


def collective_class(operation: str) -> str | None:
    """Return the class of a communication kernel by the framework's name of the operation."""
    rule = collective_table().match(plain_name(operation))
    return rule.value if rule else None


def framework_dtype(name: str) -> str | None:
    """Return the data type that a framework calls ``name``; ``None`` for integers and unknown."""
    rule = dtype_table().match(name)
    return rule.value if rule else None
