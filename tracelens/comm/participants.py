"""Which kernels exchange data with other ranks, on which GPU, when?"""

from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np

from tracelens.store import Store

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Participants:
    """One row a kernel, by GPU and start; -1 or an empty text stands for what is not known.

    Attributes:
        activity_id: the kernel.
        gpu: where it ran.
        stream: on which stream.
        start_ns: start, on a clock that all files share as far as they say when they were made.
        end_ns: end.
        step: step that launched it.
        collective: what it does.
        bytes: size of its message.
        process_group: group that was recorded.
        seq: number within the group that was recorded.
        direction: ``send`` or ``recv`` of a message between two ranks.
        place: own place in the group.
        peer_place: place of the other one.
        ranks: rank of each GPU.
        clocks: file of each GPU, whose clock it is on.
        resolution_ns: steps of the coarsest clock.
    """

    activity_id: Array
    gpu: Array
    stream: Array
    start_ns: Array
    end_ns: Array
    step: Array
    collective: Array
    bytes: Array
    process_group: Array
    seq: Array
    direction: Array
    place: Array
    peer_place: Array
    ranks: dict[int, int]
    clocks: dict[int, int]
    resolution_ns: int

    @classmethod
    def of(cls, store: Store) -> "Participants":
        """Read them; every GPU of the run counts, whether it exchanges anything or not."""
        sql = resources.files("tracelens.comm").joinpath("participants.sql").read_text("utf-8")
        columns = store.arrays(sql)
        gpus = store.rows("SELECT gpu, rank, input FROM raw.gpu ORDER BY gpu")
        base_ns = dict(store.rows("SELECT input, coalesce(base_ns, 0) FROM raw.input"))
        first_ns = min(base_ns.values(), default=0)
        shift_ns = np.zeros(len(columns["gpu"]), np.int64)
        for clock, own_ns in base_ns.items():
            shift_ns[columns["clock"] == clock] = own_ns - first_ns
        resolution_ns = store.scalar("SELECT coalesce(max(resolution_ns), 1) FROM raw.input")
        return cls(
            start_ns=columns["start_ns"] + shift_ns,
            end_ns=columns["end_ns"] + shift_ns,
            ranks={gpu: rank for gpu, rank, _ in gpus},
            clocks={gpu: clock for gpu, _, clock in gpus},
            resolution_ns=int(resolution_ns),
            **{
                name: columns[name]
                for name in cls.__dataclass_fields__
                if name in columns and name not in {"start_ns", "end_ns"}
            },
        )
