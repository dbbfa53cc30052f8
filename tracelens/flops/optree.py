"""Which operators were recorded, and how do they nest?"""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from tracelens.flops.nesting import Ints, parents
from tracelens.store import Store

Flags = npt.NDArray[np.bool_]

_OPS = """
SELECT op_id, coalesce(thread, -1)::BIGINT AS thread, coalesce(process, -1)::BIGINT AS process,
       start_ns, greatest(end_ns, start_ns) AS end_ns, coalesce(name_id, -1)::BIGINT AS name_id,
       coalesce(sequence, -1) AS sequence, coalesce(fwd_thread, -1) AS fwd_thread
FROM raw.op
WHERE start_ns IS NOT NULL AND end_ns IS NOT NULL
ORDER BY coalesce(external_id, 0), op_id
"""  # outer operators receive their external id first: it orders equal intervals


class OpTree:
    """All operators by position, and the one around each.

    Attributes:
        op_id: row ids.
        thread: thread of each, -1 for none.
        start_ns: start of each.
        end_ns: end of each.
        parent: position of the enclosing operator, -1 for none.
        process: process of each.
        name_id: name of each.
        sequence: autograd sequence number, -1 for none.
        fwd_thread: recorded forward thread, -1 for none.
    """

    def __init__(self, store: Store) -> None:
        columns = store.arrays(_OPS)
        self.op_id: Ints = columns["op_id"].astype(np.int64)
        self.thread: Ints = columns["thread"]
        self.start_ns: Ints = columns["start_ns"]
        self.process: Ints = columns["process"]
        self.name_id: Ints = columns["name_id"]
        self.sequence: Ints = columns["sequence"].astype(np.int64)
        self.fwd_thread: Ints = columns["fwd_thread"]
        self.end_ns: Ints = columns["end_ns"]
        self.parent = parents(self.thread, self.start_ns, self.end_ns)
        self._order = np.argsort(self.op_id)
        self._sorted = self.op_id[self._order]

    def __len__(self) -> int:
        return len(self.op_id)

    @property
    def has_sequence(self) -> Flags:
        """Whether an autograd sequence number was recorded."""
        found: Flags = self.sequence >= 0
        return found

    def positions(self, op_ids: Ints) -> Ints:
        """Return the position of each row id, -1 where there is no such operator."""
        if not len(self):
            return np.full(len(op_ids), -1, dtype=np.int64)
        at = np.minimum(np.searchsorted(self._sorted, op_ids), len(self) - 1)
        return np.where(self._sorted[at] == op_ids, self._order[at], -1).astype(np.int64)

    def named(self, name_ids: Iterable[int]) -> Flags:
        """Flag the operators that have one of the names."""
        return np.isin(self.name_id, np.fromiter(name_ids, dtype=np.int64))

    def inherited(self, flags: Flags) -> Flags:
        """Flag every operator that is flagged or lies inside one that is."""
        found = flags.copy()
        jump = self.parent.copy()
        while True:  # the jump doubles: a depth of 50 takes six rounds
            inside = jump >= 0
            if not inside.any():
                return found
            found[inside] |= found[jump[inside]]
            jump[inside] = jump[jump[inside]]

    def inside(self, flags: Flags) -> Flags:
        """Flag every operator that lies inside a flagged one."""
        around = self.inherited(flags)
        return np.where(self.parent >= 0, around[self.parent], False)
