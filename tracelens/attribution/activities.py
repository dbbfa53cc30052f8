"""What the sweep needs to know of the activities of one GPU, as arrays in time order."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tracelens.store import Store
from tracelens.taxonomy import CLASS_LEAF, Kind, kind_of_leaf

Array = np.ndarray[Any, Any]
NO_TIME = -(2**62)
"""Stands for an unknown launch time: earlier than any time of a trace."""

_ACTIVITIES = """
SELECT
    a.activity_id, a.start_ns, a.end_ns, a.stream, a.name_id, a.kind = 'kernel' AS is_kernel,
    coalesce(c.class, 'other') AS class,
    coalesce(d.dimension, 'unknown') AS dimension,
    r.activity_id IS NOT NULL AS recomputed,
    coalesce(a.copy_kind, '') LIKE 'uvm%' AS migration,
    coalesce(l.call_id, -1) AS call_id,
    coalesce(h.start_ns, $no_time) AS launch_start_ns,
    coalesce(h.end_ns, $no_time) AS launch_end_ns,
    coalesce(h.thread, -1) AS thread,
    coalesce(h.name_id, -1) AS call_name_id
FROM raw.activity AS a
LEFT JOIN raw.activity_class AS c USING (activity_id)
LEFT JOIN raw.activity_dimension AS d USING (activity_id)
LEFT JOIN raw.recomputed AS r USING (activity_id)
LEFT JOIN raw.link AS l USING (activity_id)
LEFT JOIN raw.host_call AS h USING (call_id)
WHERE a.gpu = $gpu
ORDER BY a.start_ns, a.activity_id
"""


@dataclass(frozen=True)
class Activities:
    """Activities of one GPU, ascending by (start, id). All arrays have one length.

    Attributes:
        activity_id: row id.
        start_ns: start.
        end_ns: end.
        stream: stream.
        name_id: name.
        is_kernel: whether it is a kernel, not a copy, a memset or a graph.
        leaf: position in ``leaves`` of the leaf that its time is charged to.
        kind: ``taxonomy.Kind``.
        migration: unified-memory migration; never ends a gap.
        call_id: launching host call, -1 where none is recorded.
        launch_start_ns: start of that call, ``NO_TIME`` where none is recorded.
        launch_end_ns: end of that call.
        thread: host thread of that call, -1.
        call_name_id: name of that call, -1.
        leaves: leaf ids.
    """

    activity_id: Array
    start_ns: Array
    end_ns: Array
    stream: Array
    name_id: Array
    is_kernel: Array
    leaf: Array
    kind: Array
    migration: Array
    call_id: Array
    launch_start_ns: Array
    launch_end_ns: Array
    thread: Array
    call_name_id: Array
    leaves: tuple[str, ...]

    @property
    def launched(self) -> Array:
        """Whether the launch was recorded."""
        return self.call_id >= 0


def load_activities(store: Store, gpu: int) -> Activities:
    """Read the activities of one GPU."""
    columns = store.arrays(_ACTIVITIES, {"gpu": gpu, "no_time": NO_TIME})
    names = [
        leaf_of(str(kernel_class), str(dimension), recomputed=bool(recomputed))
        for kernel_class, dimension, recomputed in zip(
            columns.pop("class"), columns.pop("dimension"), columns.pop("recomputed"), strict=True
        )
    ]
    leaves = tuple(dict.fromkeys(names))
    code = {leaf: position for position, leaf in enumerate(leaves)}
    leaf = np.array([code[name] for name in names], dtype=np.int64)
    kinds = np.array([int(kind_of_leaf(name)) for name in leaves], dtype=np.int64)
    kind = kinds[leaf] if leaves else leaf
    return Activities(leaf=leaf, kind=kind, leaves=leaves, **columns)


def leaf_of(kernel_class: str, dimension: str, *, recomputed: bool) -> str:
    """Return the leaf that an activity is charged to.

    Args:
        kernel_class: its class.
        dimension: parallel dimension, for communication.
        recomputed: whether it repeats forward work during backward.
    """
    leaf = CLASS_LEAF[kernel_class]
    kind = kind_of_leaf(leaf)
    if kind == Kind.COMM:
        return f"comm.{dimension}.undivided"
    if recomputed and kind == Kind.FLOP:
        return {"flop.gemm": "flop.recompute.gemm", "flop.attn": "flop.recompute.attn"}.get(
            leaf, "flop.recompute"
        )
    if recomputed and kind == Kind.COMPUTE:
        return "compute.recompute"
    return leaf
