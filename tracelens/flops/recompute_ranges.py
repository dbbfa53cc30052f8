"""Which kernels were launched from a range that runs forward work again?

Frames of ``torch.utils.checkpoint`` and of Megatron (R2), the backward of a reentrant checkpoint
(R3), and ranges that people call recompute (R4). A reentrant checkpoint runs its part of the
backward pass inside the same range: what lies deeper inside a node of the autograd engine is that.
"""

from collections.abc import Iterable

import numpy as np

from tracelens.flops.nesting import Ints, ancestors, parents
from tracelens.flops.optree import OpTree
from tracelens.store import Store

_RANGES = """
SELECT r.thread, r.process, r.start_ns, r.end_ns, r.kind = 'python' AS is_frame
FROM raw.range AS r
JOIN raw.host_label AS l
    ON l.name_id = r.name_id AND l.target = 'rerun' AND l.label = 'recompute'
WHERE r.thread IS NOT NULL AND r.end_ns > r.start_ns
"""
_LAUNCHES = """
SELECT l.activity_id, h.thread, h.process, h.start_ns
FROM raw.link AS l
JOIN raw.host_call AS h USING (call_id)
JOIN raw.activity AS a USING (activity_id)
WHERE a.kind = 'kernel' AND h.thread IN (SELECT unnest(?::INTEGER[]))
ORDER BY l.activity_id
"""
_REENTRANT = "SELECT name_id FROM raw.name WHERE starts_with(name, 'CheckpointFunctionBackward')"

_NODE = ""
"""Rule of a node of the autograd engine: it ends the search outwards."""

Scope = tuple[int, int, int, str]
"""Thread, start, end, rule."""


def run_in_ranges(
    store: Store, tree: OpTree, *, engine: Iterable[int], decided: set[int]
) -> dict[str, tuple[Ints, set[int]]]:
    """Return, by rule, the kernels that ran again and the processes that have any.

    Args:
        store: linked and classified.
        tree: its operators.
        engine: names of the nodes of the autograd engine.
        decided: processes that another rule has decided.
    """
    scopes = _scopes(store, tree, decided)
    if not scopes:
        return {}
    threads = sorted({scope[0] for scope in scopes})
    nodes = tree.named(engine) & np.isin(tree.thread, threads)
    scopes += [
        (thread, start_ns, end_ns, _NODE)
        for thread, start_ns, end_ns in zip(
            tree.thread[nodes].tolist(),
            tree.start_ns[nodes].tolist(),
            tree.end_ns[nodes].tolist(),
            strict=True,
        )
    ]
    launches = store.rows(_LAUNCHES, [threads])
    rules = _innermost(scopes, launches)
    found: dict[str, tuple[list[int], set[int]]] = {}
    for (activity, _, process, _), rule in zip(launches, rules, strict=True):
        if rule:
            activities, processes = found.setdefault(rule, ([], set()))
            activities.append(activity)
            processes.add(process)
    return {
        rule: (np.array(activities, np.int64), processes)
        for rule, (activities, processes) in found.items()
    }


def _scopes(store: Store, tree: OpTree, decided: set[int]) -> list[Scope]:
    found = [
        (thread, start_ns, end_ns, "R2" if is_frame else "R4")
        for thread, process, start_ns, end_ns, is_frame in store.rows(_RANGES)
        if process not in decided
    ]
    reentrant = tree.named(name_id for (name_id,) in store.rows(_REENTRANT))
    reentrant &= ~np.isin(tree.process, sorted(decided))
    return found + [
        (int(tree.thread[at]), int(tree.start_ns[at]), int(tree.end_ns[at]), "R3")
        for at in np.flatnonzero(reentrant).tolist()
    ]


def _innermost(scopes: list[Scope], launches: list[tuple[int, ...]]) -> list[str]:
    """Rule of the innermost scope around each launch; empty for a node of the engine or none."""
    thread = [scope[0] for scope in scopes] + [launch[1] for launch in launches]
    start = [scope[1] for scope in scopes] + [launch[3] for launch in launches]
    end = [scope[2] for scope in scopes] + [launch[3] + 1 for launch in launches]
    parent = parents(*(np.array(column, np.int64) for column in (thread, start, end)))
    found = []
    for index in range(len(scopes), len(thread)):
        outer = next((at for at in ancestors(int(parent[index]), parent) if at < len(scopes)), None)
        found.append("" if outer is None else scopes[outer][3])
    return found
