"""What does HolisticTraceAnalysis take the name of a GPU event for?"""

from functools import cache

from tracelens.classify.table import Table

COMPUTATION = "computation"


@cache
def _table() -> Table:
    return Table.load("hta.toml", "rule", "class")


def hta_class(name: str) -> str:
    """Return ``communication``, ``memory``, ``other`` or ``computation``."""
    rule = _table().match(name)
    return rule.value if rule else COMPUTATION
