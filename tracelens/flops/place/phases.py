"""To which pass does every GPU activity belong: forward, backward or optimizer?

By the best evidence there is of it:

* the kernel itself, if it is one of an optimizer;
* a range of the launching thread that says optimizer (``Optimizer.step``);
* its operator: what runs inside the autograd engine is backward, what runs with grad mode on
  outside of it is forward, in a process that runs backward at all;
* a range that says forward, backward or optimizer, on the launching thread, else on any thread of
  the process (the autograd engine launches while the caller waits inside ``backward``);
* where nothing else tells on a GPU, attention kernels by their name: what lies between two of one
  pass belongs to it. Between the last of forward and the first of backward nothing is concluded.

A process without any backward pass or optimizer has no phases. What is recomputed in backward is
backward. Gradient clipping, logging and copies of data, run without grad mode, belong to none of
the three.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from tracelens.flops.nesting import Ints
from tracelens.flops.optree import Flags, OpTree
from tracelens.flops.place.launches import Launches
from tracelens.store import Store

PHASES = ("forward", "backward", "optimizer")
FORWARD, BACKWARD, OPTIMIZER = range(3)
SOURCES = ("class", "operator", "range", "sequence")
NONE = -1

_LABELLED_OPS = "SELECT name_id FROM raw.host_label WHERE target = 'op' AND label = ?"
_RANGES = """
SELECT coalesce(r.thread, -1)::BIGINT AS thread, coalesce(r.process, -1)::BIGINT AS process,
    r.start_ns, r.end_ns, l.label
FROM raw.range AS r
JOIN raw.host_label AS l ON l.name_id = r.name_id AND l.target = 'phase'
WHERE r.end_ns > r.start_ns AND l.label IN ('forward', 'backward', 'optimizer')
ORDER BY r.start_ns, r.end_ns DESC
"""
_MARKS = """
SELECT a.activity_id, a.gpu::BIGINT AS gpu, a.start_ns,
    CASE
        WHEN c.class = 'optimizer' THEN 2
        WHEN c.class = 'attention' AND k.is_backward THEN 1
        WHEN c.class = 'attention' THEN 0
        ELSE -1
    END AS mark
FROM raw.activity AS a
JOIN raw.activity_class AS c USING (activity_id)
LEFT JOIN raw.kernel_tiling AS k USING (name_id)
WHERE a.kind = 'kernel' AND NOT starts_with(c.class, 'collective:') AND c.class <> 'p2p:sendrecv'
ORDER BY a.gpu, a.start_ns, a.activity_id
"""


@dataclass(frozen=True)
class Phases:
    """One activity a position.

    Attributes:
        phase: index into ``PHASES``, -1 where nothing tells.
        source: index into ``SOURCES``, -1 where nothing tells.
    """

    phase: Ints
    source: Ints


def find_phases(store: Store, tree: OpTree, launches: Launches) -> Phases:
    """Return the phase of every activity."""
    found = Phases(np.full(len(launches), NONE), np.full(len(launches), NONE))
    ranges = _Ranges.read(store)
    own, any_thread = ranges.around(launches)
    _set(found, launches.is_optimizer, OPTIMIZER, "class")
    _set(found, own == OPTIMIZER, OPTIMIZER, "range")
    by_op = _by_operator(store, tree, launches, ranges.processes(BACKWARD))
    _set(found, by_op >= 0, by_op, "operator")
    for by_range in (own, any_thread):
        _set(found, by_range >= 0, by_range, "range")
    by_sequence = _by_sequence(store, launches, found.phase)
    _set(found, by_sequence >= 0, by_sequence, "sequence")
    return found


def _set(found: Phases, chosen: Flags, phase: Ints | int, source: str) -> None:
    chosen = chosen & (found.phase < 0)
    found.phase[chosen] = phase[chosen] if isinstance(phase, np.ndarray) else phase
    found.source[chosen] = SOURCES.index(source)


def _by_operator(store: Store, tree: OpTree, launches: Launches, trained: Iterable[int]) -> Ints:
    if not len(tree):
        return np.full(len(launches), NONE)
    backward, optimizer = (
        tree.inherited(tree.named(row[0] for row in store.rows(_LABELLED_OPS, [label])))
        for label in ("backward", "optimizer")
    )
    trains = np.union1d(tree.process[backward | optimizer], np.array(list(trained), np.int64))
    forward = tree.inherited(tree.has_sequence & (tree.fwd_thread <= 0))
    forward &= np.isin(tree.process, trains)
    phase = np.where(forward, FORWARD, NONE)
    phase[backward] = BACKWARD
    phase[optimizer] = OPTIMIZER
    return np.where(launches.op >= 0, phase[launches.op], NONE)


@dataclass(frozen=True)
class _Ranges:
    """Ranges that say a phase, by ascending start; of equal starts the longest first."""

    thread: Ints
    process: Ints
    start_ns: Ints
    end_ns: Ints
    phase: Ints

    @classmethod
    def read(cls, store: Store) -> "_Ranges":
        columns = store.arrays(_RANGES)
        labels = columns.pop("label").astype(str)
        phase = np.array([PHASES.index(label) for label in labels], np.int64)
        return cls(**columns, phase=phase)

    def processes(self, phase: int) -> list[int]:
        """Processes with a range of a phase."""
        return [int(process) for process in np.unique(self.process[self.phase == phase])]

    def around(self, launches: Launches) -> tuple[Ints, Ints]:
        """Phase of the outermost range around each launch: on its thread, on any thread."""
        own = np.full(len(launches), NONE)
        anywhere = own.copy()
        for key, asked, found in (
            (self.thread, launches.thread, own),
            (self.process, launches.process, anywhere),
        ):
            for number in np.unique(key):
                here = (asked == number) & (launches.at_ns >= 0)
                found[here] = self._at(key == number, launches.at_ns[here])
        return own, anywhere

    def _at(self, chosen: Flags, at_ns: Ints) -> Ints:
        start, end, phase = (column[chosen] for column in (self.start_ns, self.end_ns, self.phase))
        # Outermost: it begins when all that began before it have ended.
        reach = np.maximum.accumulate(end)
        outer = np.concatenate([[True], start[1:] >= reach[:-1]])
        start, end, phase = start[outer], end[outer], phase[outer]
        last = np.searchsorted(start, at_ns, side="right") - 1
        inside = (last >= 0) & (at_ns < end[np.maximum(last, 0)])
        return np.where(inside, phase[np.maximum(last, 0)], NONE)


def _by_sequence(store: Store, launches: Launches, known: Ints) -> Ints:
    """Phases of what lies between attention and optimizer kernels, GPU by GPU."""
    found = np.full(len(launches), NONE)
    told = np.unique(launches.gpu[np.isin(known, (FORWARD, BACKWARD))])
    columns = store.arrays(_MARKS)
    for gpu in np.setdiff1d(columns["gpu"], told):
        here = columns["gpu"] == gpu
        phase = _between(columns["mark"][here].astype(np.int64))
        ids = columns["activity_id"][here]
        found[np.searchsorted(launches.activity_id, ids)] = phase
    return found


def _between(mark: Ints) -> Ints:
    """Phase of each kernel of a sequence by the marks before and after it."""
    if not {FORWARD, BACKWARD} <= set(mark.tolist()):
        return np.full(len(mark), NONE)
    at = np.flatnonzero(mark >= 0)
    position = np.arange(len(mark))
    last = np.searchsorted(at, position, side="right") - 1
    following = np.searchsorted(at, position, side="left")
    before = np.where(last >= 0, mark[at[np.maximum(last, 0)]], OPTIMIZER)
    after = np.where(following < len(at), mark[at[np.minimum(following, len(at) - 1)]], NONE)
    phase = np.where(before == after, before, NONE)
    phase = np.where((before == BACKWARD) & (after == OPTIMIZER), BACKWARD, phase)
    return np.where((before == OPTIMIZER) & (after == FORWARD), FORWARD, phase)
