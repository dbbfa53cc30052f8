"""Where in training and in the model does time go?

Writes ``raw.activity_place`` and the sections ``by_phase`` and ``by_module``: every loss by phase
and by module. Idle time counts for the activity that ended it.
"""

from collections import defaultdict

import numpy as np
import pyarrow as pa

from tracelens.flops.nesting import Ints
from tracelens.flops.optree import OpTree
from tracelens.flops.place import modules, phases
from tracelens.flops.place.launches import read_launches
from tracelens.store import Store

OTHER = "other"
_MOST_MODULES = 500
REST = "(other modules)"

_PIVOT = """
SELECT {column}, s.leaf, sum(s.end_ns - s.start_ns)::BIGINT AS dur_ns
FROM raw.segment AS s
LEFT JOIN raw.activity_place AS p USING (activity_id)
LEFT JOIN raw.name AS n ON n.name_id = p.module_id
GROUP BY ALL HAVING dur_ns <> 0 ORDER BY ALL
"""


def place_activities(store: Store) -> None:
    """Write where every activity belongs, and the time by phase and by module.

    Args:
        store: attributed; the sections are left out where no activity has a phase or module.
    """
    tree = OpTree(store)
    launches = read_launches(store, tree)
    found, parts = (
        phases.find_phases(store, tree, launches),
        modules.find_modules(store, tree, launches),
    )
    placed = np.flatnonzero((found.phase >= 0) | (parts.path >= 0))
    names = np.array(store.name_ids(parts.paths), np.int64)
    store.flush_names()
    store.append(
        "activity_place",
        {
            "activity_id": launches.activity_id[placed],
            "phase": _text(phases.PHASES, found.phase[placed]),
            "phase_source": _text(phases.SOURCES, found.source[placed]),
            "module_id": _numbers(names, parts.path[placed]),
            "module_source": _text(modules.SOURCES, parts.source[placed]),
        },
    )
    by_phase = _pivot(store, "p.phase")
    if set(by_phase) - {None}:
        order = {name: by_phase.get(name, {}) for name in phases.PHASES}
        store.put_result("by_phase", order | {OTHER: by_phase.get(None, {})})
    by_module = _pivot(store, "n.name")
    if set(by_module) - {None}:
        store.put_result("by_module", _largest(by_module))


def _pivot(store: Store, column: str) -> dict[str | None, dict[str, int]]:
    found: dict[str | None, dict[str, int]] = defaultdict(dict)
    for key, leaf, dur_ns in store.rows(_PIVOT.format(column=column)):
        found[key][leaf] = dur_ns
    return found


def _largest(by_module: dict[str | None, dict[str, int]]) -> list[dict[str, object]]:
    """The modules with the most time, the rest as one row: nothing is left out of the sum."""
    ordered = sorted(by_module, key=lambda name: (-sum(by_module[name].values()), name or ""))
    rows: list[dict[str, object]] = [
        {"module": name, "leaves": by_module[name]} for name in ordered[:_MOST_MODULES]
    ]
    rest: dict[str, int] = defaultdict(int)
    for name in ordered[_MOST_MODULES:]:
        for leaf, dur_ns in by_module[name].items():
            rest[leaf] += dur_ns
    return rows + ([{"module": REST, "leaves": dict(rest)}] if rest else [])


def _text(names: tuple[str, ...], index: Ints) -> pa.Array:
    table = pa.array(names, pa.string())
    return table.take(pa.array(index, pa.int64(), mask=index < 0))


def _numbers(ids: Ints, index: Ints) -> pa.Array:
    table = pa.array(ids, pa.int64())
    return table.take(pa.array(index, pa.int64(), mask=index < 0))
