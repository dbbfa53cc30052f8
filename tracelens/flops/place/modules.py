"""Which part of the model launched every GPU activity?

By the best evidence there is of it, as a path from the outermost to the innermost part:

* frames of ``nn.Module`` around the launch; in backward those around the forward operator that has
  the same autograd sequence number;
* ranges that people set (NVTX, ``record_function``) and that say neither step, pass nor cause;
* compiled regions.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tracelens.flops.nesting import Ints, innermost, parents
from tracelens.flops.optree import OpTree
from tracelens.flops.place.launches import Launches
from tracelens.store import Store

SOURCES = ("frame", "range", "compiled")
SEPARATOR = "/"
_FRAME = "nn.Module: "
_LONGEST = 400
"""Characters of a path; a deeper one keeps its innermost parts."""

_SCOPES = """
SELECT r.thread, r.start_ns, r.end_ns, n.name,
    CASE
        WHEN m.label = 'frame' THEN 'frame'
        WHEN m.label = 'compiled' THEN 'compiled'
        ELSE 'range'
    END AS source
FROM raw.range AS r
JOIN raw.name AS n USING (name_id)
LEFT JOIN raw.host_label AS m ON m.name_id = r.name_id AND m.target = 'module'
WHERE r.thread IS NOT NULL AND r.end_ns > r.start_ns AND (
    m.label IS NOT NULL OR (r.kind <> 'python' AND NOT EXISTS (
        SELECT 1 FROM raw.host_label AS l
        WHERE l.name_id = r.name_id AND l.target IN ('range', 'phase', 'rerun')
    ))
)
UNION ALL
SELECT o.thread, o.start_ns, o.end_ns, n.name, 'compiled'
FROM raw.op AS o
JOIN raw.name AS n USING (name_id)
JOIN raw.host_label AS m
    ON m.name_id = o.name_id AND m.target = 'module' AND m.label = 'compiled'
WHERE o.thread IS NOT NULL AND o.end_ns > o.start_ns
"""

Texts = npt.NDArray[np.object_]


@dataclass(frozen=True)
class Modules:
    """One activity a position.

    Attributes:
        path: index into ``paths``, -1 where nothing tells.
        source: index into ``SOURCES``, -1 where nothing tells.
        paths: distinct paths.
    """

    path: Ints
    source: Ints
    paths: list[str]


def find_modules(store: Store, tree: OpTree, launches: Launches) -> Modules:
    """Return the module of every activity."""
    columns = store.arrays(_SCOPES)
    found = Modules(np.full(len(launches), -1), np.full(len(launches), -1), [])
    numbers: dict[str, int] = {}
    kinds = columns["source"].astype(str)
    origin = _forward_of_backward(tree, launches)
    for source, kind in enumerate(SOURCES):
        chosen = kinds == kind
        if not chosen.any():
            continue
        scopes = _Scopes.of(*(columns[name][chosen] for name in ("thread", "start_ns", "end_ns")))
        paths = _paths(columns["name"][chosen], scopes.parent, is_frame=kind == "frame")
        index = np.array([numbers.setdefault(path, len(numbers)) for path in paths], np.int64)
        for thread, at_ns in ((launches.thread, launches.at_ns), origin):
            scope = scopes.around(thread, at_ns)
            new = (scope >= 0) & (found.path < 0)
            found.path[new] = index[scope[new]]
            found.source[new] = source
    found.paths.extend(numbers)
    return found


@dataclass(frozen=True)
class _Scopes:
    thread: Ints
    start_ns: Ints
    end_ns: Ints
    parent: Ints

    @classmethod
    def of(cls, thread: Ints, start_ns: Ints, end_ns: Ints) -> "_Scopes":
        thread = thread.astype(np.int64)
        return cls(thread, start_ns, end_ns, parents(thread, start_ns, end_ns))

    def around(self, thread: Ints, at_ns: Ints) -> Ints:
        """Innermost scope around each instant of a thread, -1 for none."""
        return innermost(self.parent, self.thread, self.start_ns, self.end_ns, (thread, at_ns))


def _paths(names: Texts, parent: Ints, *, is_frame: bool) -> list[str]:
    """Path of every scope; an outer one is asked for before what lies in it."""
    paths: dict[int, str] = {-1: ""}
    for index in range(len(names)):
        chain, outermost = [], index
        while outermost not in paths:
            chain.append(outermost)
            outermost = int(parent[outermost])
        for at in reversed(chain):
            name = str(names[at]).removeprefix(_FRAME) if is_frame else str(names[at])
            outer = paths[int(parent[at])]
            paths[at] = (f"{outer}{SEPARATOR}{name}" if outer else name)[-_LONGEST:]
    return [paths[index] for index in range(len(names))]


def _forward_of_backward(tree: OpTree, launches: Launches) -> tuple[Ints, Ints]:
    """Thread and start of the forward operator whose gradient each activity computes, else -1.

    Sequence numbers count by thread: one that two threads gave is no evidence.
    """
    if not len(tree):
        return np.full(len(launches), -1), np.full(len(launches), -1)
    node = _node(tree)
    is_node = tree.has_sequence & (tree.fwd_thread > 0)
    forward = np.flatnonzero(tree.has_sequence & ~is_node & (node < 0))
    process, sequence = tree.process[forward], tree.sequence[forward]
    order = np.lexsort((tree.start_ns[forward], sequence, process))
    forward, process, sequence = forward[order], process[order], sequence[order]
    # The operator that made the node is the last of those that saw its number.
    last = np.ones(len(forward), bool)
    last[:-1] = (process[1:] != process[:-1]) | (sequence[1:] != sequence[:-1])
    group = np.cumsum(last) - last
    threads = tree.thread[forward]
    mixed = np.zeros(int(last.sum()), bool)
    np.logical_or.at(mixed, group, threads != threads[last][group])
    made = {
        (int(process[at]), int(sequence[at])): int(forward[at])
        for at in np.flatnonzero(last).tolist()
        if not mixed[group[at]]
    }
    maker = np.full(len(tree) + 1, -1)
    for at in np.unique(node[node >= 0]).tolist():
        maker[at] = made.get((int(tree.process[at]), int(tree.sequence[at])), -1)
    own = np.where(launches.op >= 0, node[launches.op], -1)
    found = maker[own]
    return (
        np.where(found >= 0, tree.thread[found], -1),
        np.where(found >= 0, tree.start_ns[found], -1),
    )


def _node(tree: OpTree) -> Ints:
    """For every operator the innermost node of the backward pass around it or itself, else -1."""
    is_node = tree.has_sequence & (tree.fwd_thread > 0)
    found = np.where(is_node, np.arange(len(tree)), -1)
    outer = tree.parent.copy()
    while True:
        open_ = (found < 0) & (outer >= 0)
        if not open_.any():
            return found
        found[open_] = np.where(is_node[outer[open_]], outer[open_], -1)
        outer[open_] = tree.parent[outer[open_]]
