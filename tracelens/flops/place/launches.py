"""From where on the host was every GPU activity launched?"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tracelens.flops.nesting import Ints
from tracelens.flops.optree import OpTree
from tracelens.store import Store

Flags = npt.NDArray[np.bool_]

_LAUNCHES = """
SELECT a.activity_id, a.gpu::BIGINT AS gpu, coalesce(a.process, -1)::BIGINT AS process,
    coalesce(c.class, '') = 'optimizer' AS is_optimizer,
    coalesce(l.op_id, -1) AS op_id, coalesce(h.thread, -1)::BIGINT AS thread,
    coalesce(h.start_ns, -1) AS at_ns
FROM raw.activity AS a
LEFT JOIN raw.activity_class AS c USING (activity_id)
LEFT JOIN (
    SELECT activity_id, max(call_id) AS call_id, max(op_id) AS op_id FROM raw.link
    GROUP BY activity_id
) AS l USING (activity_id)
LEFT JOIN raw.host_call AS h USING (call_id)
ORDER BY a.activity_id
"""


@dataclass(frozen=True)
class Launches:
    """One GPU activity a position.

    Attributes:
        activity_id: row ids.
        gpu: where it ran.
        process: who launched it.
        is_optimizer: whether it is a kernel of an optimizer.
        op: position in the tree of operators of the innermost one around its launch, -1 for none.
        thread: thread that launched it, -1 where not recorded.
        at_ns: start of the launch, -1 where not recorded.
    """

    activity_id: Ints
    gpu: Ints
    process: Ints
    is_optimizer: Flags
    op: Ints
    thread: Ints
    at_ns: Ints

    def __len__(self) -> int:
        return len(self.activity_id)


def read_launches(store: Store, tree: OpTree) -> Launches:
    """Read all activities, with the operator, thread and instant of their launch."""
    columns = store.arrays(_LAUNCHES)
    return Launches(
        activity_id=columns["activity_id"],
        gpu=columns["gpu"],
        process=columns["process"],
        is_optimizer=columns["is_optimizer"].astype(bool),
        op=tree.positions(columns["op_id"]),
        thread=columns["thread"],
        at_ns=columns["at_ns"],
    )
