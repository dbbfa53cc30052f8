"""Compare the ranks of a run: match what they do together, align their clocks, find who waited."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tracelens.comm.channels import recorded_channels
from tracelens.comm.clocks import Clock, align
from tracelens.comm.matching import Matched, match
from tracelens.comm.participants import Participants
from tracelens.comm.rendezvous import Divided, divide
from tracelens.comm.unnamed import inferred_channels
from tracelens.store import Store


def compare_ranks(store: Store) -> None:
    """Fill ``raw.clock``, ``raw.exchange`` and ``raw.exchange_member``.

    Keeps the sections ``clock_alignment`` and ``matching`` of the answer. One GPU alone has nobody
    to be compared with.
    """
    table = Participants.of(store)
    if len(table.ranks) < 2:
        return
    channels = recorded_channels(store, table)
    channels += inferred_channels(table, _missing_ranks(store, table))
    found = [match(channel, table) for channel in channels]
    clocks = align(table, found)
    _write_clocks(store, table, clocks)
    _write_exchanges(store, table, list(divide(table, found, clocks)))
    _tell(store, table, found, clocks)


def _missing_ranks(store: Store, table: Participants) -> bool:
    """Whether ranks are known to be missing; an unknown size is that of the ranks given."""
    size = store.scalar("SELECT max(world_size) FROM raw.process")
    ranks = set(table.ranks.values())
    return ranks != set(range(size or len(ranks)))


def _write_clocks(store: Store, table: Participants, clocks: dict[int, Clock]) -> None:
    own = [clocks[clock] for clock in table.clocks.values()]
    columns: dict[str, Any] = {
        name: [getattr(clock, name) for clock in own]
        for name in ("part", "offset_ns", "drift_ppb", "reference_ns", "method")
    }
    columns["epsilon_ns"] = pa.array([clock.epsilon_ns for clock in own], pa.int64())
    store.append("clock", {"gpu": list(table.clocks), **columns})


def _write_exchanges(store: Store, table: Participants, found: Sequence[Divided]) -> None:
    first = 0
    for channel, item in enumerate(found):
        count = len(item.matched.rows)
        numbers = np.arange(first, first + count, dtype=np.int64)
        first += count
        gpus = np.array(item.matched.gpus)
        unknown = ~item.is_divided
        store.append(
            "exchange",
            {
                "exchange": numbers,
                "channel": np.full(count, channel, np.int32),
                "members": (item.matched.rows >= 0).sum(axis=1).astype(np.int32),
                "expected": pa.array([item.matched.channel.expected] * count, pa.int32()),
                "last_gpu": pa.array(gpus[item.last], pa.int32(), mask=item.last < 0),
                "lateness_ns": pa.array(item.lateness_ns, mask=unknown),
                "transfer_ns": pa.array(item.transfer_ns, mask=unknown),
                "reason": pa.array([why or None for why in item.reason], pa.string()),
            },
        )
        at, place = np.nonzero(item.matched.rows >= 0)
        store.append(
            "exchange_member",
            {
                "exchange": numbers[at],
                "activity_id": table.activity_id[item.matched.rows[at, place]],
                "wait_ns": pa.array(item.wait_ns[at, place], mask=unknown[at]),
            },
        )


def _tell(
    store: Store, table: Participants, found: Sequence[Matched], clocks: dict[int, Clock]
) -> None:
    errors = [clock.epsilon_ns for clock in clocks.values()]
    methods = Counter(clock.method for clock in clocks.values())
    store.put_result(
        "clock_alignment",
        {
            "method": "none" if methods["none"] else max(methods, key=lambda name: methods[name]),
            "epsilon_ns": None
            if any(error is None for error in errors)
            else max(error for error in errors if error is not None),
            "parts": len({clock.part for clock in clocks.values()}),
            "reason": _why_not(clocks),
        },
    )
    counted: dict[str, int] = defaultdict(int)
    for item in found:
        counted["kernels"] += item.total
        counted["unmatched"] += item.unmatched
    store.put_result(
        "matching",
        {
            "kernels": len(table.activity_id),
            "outside_steps": int((table.step < 0).sum()),
            "compared": counted["kernels"],
            "unmatched": counted["unmatched"],
        },
    )


def _why_not(clocks: dict[int, Clock]) -> str | None:
    if len({clock.part for clock in clocks.values()}) > 1:
        return "too few collectives that all ranks take part in: record more steps"
    return None
