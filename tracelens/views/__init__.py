"""The public SQL contract: one file a view, every column commented."""

from importlib import resources

VIEWS = (
    "input",
    "rank",
    "activity",
    "kernel",
    "launch",
    "op",
    "step",
    "segment",
    "loss_time",
    "overlap",
    "ladder",
    "collective",
    "host_range",
    "damage",
)
"""Creation order; a view may use those before it."""


def sql_of(view: str) -> str:
    """Return the SQL text of a view (its CREATE and its COMMENT statements)."""
    return resources.files("tracelens.views").joinpath(f"{view}.sql").read_text(encoding="utf-8")
