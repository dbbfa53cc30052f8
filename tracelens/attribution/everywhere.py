"""Does what holds up the host of one rank hold up nearly all of them at the same time?

Checkpoints, evaluation and logging do: such time is no rank's own. Dispatch is left out, for in a
launch-bound job every rank dispatches at every moment.
"""

from importlib import resources

from tracelens.store import Store

CAUSE = "cause=global"
_SHARE = 0.8
_LARGEST = 64
"""Segments that are judged on each GPU for each leaf, the longest first."""


def name_shared_causes(store: Store) -> None:
    """Append ``cause=global`` to ``raw.segment.detail`` of host time that most ranks share."""
    sql = resources.files("tracelens.attribution").joinpath("everywhere.sql").read_text("utf-8")
    store.execute(sql, {"largest": _LARGEST, "share": _SHARE, "cause": CAUSE})
