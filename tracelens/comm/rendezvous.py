"""Who came last to each exchange, and how long did the others wait for it?

The last arrival is the latest start on the common clock; what a member spent before it is waiting,
the rest is transfer. Nothing below three times the error of the clocks is called waiting, nobody is
blamed for being last by less, and an exchange that somebody left before everybody had come did not
need everybody: it is not divided.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tracelens.comm.clocks import RENDEZVOUS, Clock
from tracelens.comm.matching import UNMATCHED_LIMIT, Matched
from tracelens.comm.participants import Array, Participants

ERRORS = 3
"""A wait must be this many times larger than the error of the clocks."""
_NO_CLOCKS = "the clocks of its ranks could not be compared"
_NO_MATCH = "too many of its kernels have no partner on other ranks"
_NO_PARTNER = "its kernel has no partner on some rank"
_NOT_MET = "a rank left before the last one came"
_NOT_ALL = "not every rank of this operation needs all others"


@dataclass(frozen=True)
class Divided:
    """The exchanges of one channel.

    Attributes:
        matched: which kernels they are; n exchanges of m members.
        last: (n) place of the member that came last, -1 where clocks do not tell.
        lateness_ns: (n) how long after the one before it.
        transfer_ns: (n) from the last arrival to its own end.
        wait_ns: (n, m) from the start of a member to the last arrival.
        is_divided: (n) whether the above is known.
        reason: (n) why not; empty where it is.
    """

    matched: Matched
    last: Array
    lateness_ns: Array
    transfer_ns: Array
    wait_ns: Array
    is_divided: Array
    reason: list[str]


def divide(
    table: Participants, found: Sequence[Matched], clocks: dict[int, Clock]
) -> Iterator[Divided]:
    """Divide the exchanges of every channel into waiting and transfer."""
    for item in found:
        if len(item.rows):
            yield _divided(table, item, [clocks[table.clocks[gpu]] for gpu in item.gpus])


def _divided(table: Participants, item: Matched, clocks: list[Clock]) -> Divided:
    rows, present = item.rows, item.rows >= 0
    never = np.iinfo(np.int64).max
    start = np.stack([c.read(table.start_ns[rows[:, at]]) for at, c in enumerate(clocks)], axis=1)
    end = np.stack([c.read(table.end_ns[rows[:, at]]) for at, c in enumerate(clocks)], axis=1)
    order = np.sort(np.where(present, start, -never), axis=1)
    arrival, before = order[:, -1], order[:, -2]
    error_ns = ERRORS * max((clock.epsilon_ns or 0 for clock in clocks), default=0)
    first_end = np.where(present, end, never).min(axis=1)
    last = np.where(present, start, -never).argmax(axis=1)
    wait = np.clip(arrival[:, None] - start, 0, end - start)
    wait[wait <= error_ns] = 0
    reason = _reasons(table, item, clocks)
    met = first_end + error_ns >= arrival
    reason = [why or ("" if ok else _NOT_MET) for why, ok in zip(reason, met.tolist(), strict=True)]
    divided = np.array([not why for why in reason], dtype=bool)
    known = divided & (arrival - before > error_ns)
    at = np.arange(len(rows))
    return Divided(
        item,
        np.where(known, last, -1),
        arrival - before,
        end[at, last] - arrival,
        wait,
        divided,
        reason,
    )


def _reasons(table: Participants, item: Matched, clocks: list[Clock]) -> list[str]:
    """Why an exchange cannot be divided, before anybody looks at its times."""
    why = item.channel.lacks
    if not why and item.unmatched_frac > UNMATCHED_LIMIT:
        why = _NO_MATCH
    if not why and (len({clock.part for clock in clocks}) > 1 or clocks[0].epsilon_ns is None):
        why = _NO_CLOCKS
    if why:
        return [why] * len(item.rows)
    whole = np.all(item.rows >= 0, axis=1)
    allowed = np.isin(table.collective[item.rows.max(axis=1)], [*RENDEZVOUS, "send_recv"])
    found = np.where(allowed, np.where(whole, "", _NO_PARTNER), _NOT_ALL)
    return [str(why) for why in found]
