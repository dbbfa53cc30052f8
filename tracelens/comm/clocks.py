"""How far apart are the clocks of the files?

All members of a rendezvous finish nearly together, so the middle difference between their ends is
the difference between their clocks; starts say nothing, for they are what is asked about. A message
may end on one side before it ends on the other, so both directions between two ranks are averaged,
as network time protocols do. Offsets are the solution of least squares over the graph of all clocks
that meet, outliers weighted down (Huber); a drift is fitted where the meetings span long enough.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tracelens.comm.matching import UNMATCHED_LIMIT, Matched
from tracelens.comm.participants import Array, Participants
from tracelens.units import NS_PER_S

_STRICT = frozenset({"all_reduce", "all_gather", "reduce_scatter", "barrier"})
RENDEZVOUS = _STRICT | {"all_to_all"}
"""Collectives that nobody leaves before everybody has come."""
LEAST_RENDEZVOUS = 8
LEAST_MEETINGS = 20
"""Fewer exchanges between two clocks do not tell their difference. An all-to-all or a message may
end on one side before it ends on the other: more of them are needed."""
_DRIFT_SPAN_NS = 2 * NS_PER_S
_DRIFT_MEETINGS = 50
_PPB = 1_000_000_000
_MAD_TO_SIGMA = 1.4826
_HUBER = 1.345
_ROUNDS = 10


@dataclass(frozen=True)
class Meetings:
    """Ends of the exchanges between two clocks, ``first`` below ``second``.

    Attributes:
        at_ns: when, on the first clock.
        strict: how many are collectives whose members end together.
        apart_ns: end on the second clock less end on the first.
        by_messages: whether they are messages; ``towards`` then tells those to the second clock.
        towards: direction of each message.
    """

    first: int
    second: int
    at_ns: Array
    apart_ns: Array
    by_messages: bool
    towards: Array
    strict: int

    def difference_ns(self) -> float:
        """The difference that has to be taken from the second clock."""
        if not self.by_messages:
            return float(np.median(self.apart_ns))
        there, back = self.apart_ns[self.towards], self.apart_ns[~self.towards]
        return float(np.median(there) + np.median(back)) / 2

    def tells(self) -> bool:
        """Whether there are enough of them."""
        if self.by_messages and not 0 < int(self.towards.sum()) < len(self.towards):
            return False
        return self.strict >= LEAST_RENDEZVOUS or len(self.apart_ns) >= LEAST_MEETINGS


@dataclass(frozen=True)
class Clock:
    """What makes the times of a file comparable.

    Attributes:
        part: clocks of one part can be compared.
        offset_ns: to add.
        drift_ppb: what the clock gains, in billionths, since ``reference_ns``.
        epsilon_ns: what is left of the differences between ends; ``None`` where nothing tells.
        method: one_clock, collectives, messages or none.
    """

    part: int
    offset_ns: int
    drift_ppb: int
    reference_ns: int
    epsilon_ns: int | None
    method: str

    def read(self, time_ns: Array) -> Array:
        """Return times on the common clock."""
        since = time_ns - self.reference_ns
        # Split, so that neither the product nor a float loses a nanosecond.
        gained = since // _PPB * self.drift_ppb + since % _PPB * self.drift_ppb // _PPB
        common: Array = time_ns + self.offset_ns - gained
        return common


def align(table: Participants, found: Sequence[Matched]) -> dict[int, Clock]:
    """Return the clock of every file."""
    clocks = sorted(set(table.clocks.values()))
    good = [item for item in found if item.unmatched_frac <= UNMATCHED_LIMIT]
    meetings = [item for item in _meetings(table, good) if item.tells()]
    reference_ns = int(table.start_ns.min()) if len(table.start_ns) else 0
    parts, methods, meetings = _parts(clocks, meetings)
    offsets = _solve(clocks, parts, meetings, [item.difference_ns() for item in meetings])
    drifts = _drifts(clocks, parts, meetings)
    if any(drifts.values()):
        meetings = [_without_drift(item, drifts, reference_ns) for item in meetings]
        offsets = _solve(clocks, parts, meetings, [item.difference_ns() for item in meetings])
    plain = {
        clock: Clock(
            parts[clock],
            round(-offsets[clock]),
            round(drifts[clock] * _PPB),
            reference_ns,
            None,
            methods[clock],
        )
        for clock in clocks
    }
    return _with_epsilon(table, good, plain)


def _meetings(table: Participants, found: Sequence[Matched]) -> Iterator[Meetings]:
    """Pair the clocks of every channel; messages only count where no collectives do."""
    at: dict[tuple[int, int, bool], list[Array]] = defaultdict(list)
    for item in found:
        by_messages = item.channel.is_message
        for one in range(len(item.gpus)):
            for other in range(len(item.gpus)):
                first, second = (table.clocks[item.gpus[place]] for place in (one, other))
                if first >= second:
                    continue
                rows = item.rows[(item.rows[:, one] >= 0) & (item.rows[:, other] >= 0)]
                if not by_messages:
                    rows = rows[np.isin(table.collective[rows[:, one]], list(RENDEZVOUS))]
                ends = table.end_ns[rows[:, one]], table.end_ns[rows[:, other]]
                sends = table.direction[rows[:, one]] == "send"
                firm = np.isin(table.collective[rows[:, one]], list(_STRICT))
                apart = ends[1] - ends[0]
                at[first, second, by_messages].append(np.array([ends[0], apart, sends, firm]))
    for (first, second, by_messages), parts in at.items():
        joined = np.concatenate(parts, axis=1)
        towards = joined[2].astype(bool)
        strict = int(joined[3].sum())
        yield Meetings(first, second, joined[0], joined[1], by_messages, towards, strict)


def _parts(
    clocks: Sequence[int], meetings: list[Meetings]
) -> tuple[dict[int, int], dict[int, str], list[Meetings]]:
    """Join clocks that meet, by collectives first; leave out messages between those joined so."""
    part = {clock: clock for clock in clocks}
    method = dict.fromkeys(clocks, "one_clock" if len(clocks) == 1 else "none")
    kept = []
    for by_messages in (False, True):
        before = dict(part)
        for item in meetings:
            joined = by_messages and before[item.first] == before[item.second]
            if item.by_messages != by_messages or joined:
                continue
            kept.append(item)
            low, high = sorted((part[item.first], part[item.second]))
            part = {clock: low if own == high else own for clock, own in part.items()}
            for clock in (item.first, item.second):
                if method[clock] != "collectives":
                    method[clock] = "messages" if by_messages else "collectives"
    return part, method, kept


def _solve(
    clocks: Sequence[int],
    parts: dict[int, int],
    meetings: Sequence[Meetings],
    differences: Sequence[float],
) -> dict[int, float]:
    """Least squares over the graph; the first clock of each part is right."""
    place = {clock: at for at, clock in enumerate(clocks)}
    if not meetings:
        return dict.fromkeys(clocks, 0.0)
    matrix = np.zeros((len(meetings), len(clocks)))
    for row, item in enumerate(meetings):
        matrix[row, place[item.second]], matrix[row, place[item.first]] = 1, -1
    target = np.array(differences)
    weight = np.sqrt([len(item.apart_ns) for item in meetings])
    free = [place[clock] for clock in clocks if parts[clock] != clock]
    solution = np.zeros(len(clocks))
    huber = np.ones(len(meetings))
    for _ in range(_ROUNDS if free else 0):
        scale = weight * np.sqrt(huber)
        solved, *_ = np.linalg.lstsq(matrix[:, free] * scale[:, None], target * scale, rcond=None)
        solution[free] = solved
        left = np.abs(matrix @ solution - target)
        sigma = _MAD_TO_SIGMA * float(np.median(left))
        if sigma <= 1:
            break
        huber = np.minimum(1, _HUBER * sigma / np.maximum(left, 1))
    return {clock: float(solution[at]) for clock, at in place.items()}


def _drifts(
    clocks: Sequence[int], parts: dict[int, int], meetings: Sequence[Meetings]
) -> dict[int, float]:
    """Nanoseconds that each clock gains a nanosecond, against the first of its part."""
    long = [
        item
        for item in meetings
        if len(item.at_ns) >= _DRIFT_MEETINGS and np.ptp(item.at_ns) >= _DRIFT_SPAN_NS
    ]
    if len(long) < len(meetings) or not long:
        return dict.fromkeys(clocks, 0.0)
    gained = _solve(clocks, parts, long, [_slope(item) * _PPB for item in long])
    return {clock: ppb / _PPB for clock, ppb in gained.items()}


def _slope(item: Meetings) -> float:
    """The line through the differences, far ones left out once."""
    at, apart = (item.at_ns - item.at_ns[0]).astype(float), item.apart_ns.astype(float)
    slope, start = np.polyfit(at, apart, 1)
    left = np.abs(apart - start - slope * at)
    near = left <= 3 * _MAD_TO_SIGMA * float(np.median(left)) + 1
    slope, _ = np.polyfit(at[near], apart[near], 1)
    return float(slope)


def _without_drift(item: Meetings, drifts: dict[int, float], reference_ns: int) -> Meetings:
    gain = drifts[item.second] - drifts[item.first]
    apart = item.apart_ns - np.rint(gain * (item.at_ns - reference_ns)).astype(np.int64)
    return replace(item, apart_ns=apart)


def _with_epsilon(
    table: Participants, found: Sequence[Matched], clocks: dict[int, Clock]
) -> dict[int, Clock]:
    """Measure what the alignment leaves, in every part: the deviation of ends from their middle."""
    left: dict[int, list[Array]] = defaultdict(list)
    for item in found:
        own = [clocks[table.clocks[gpu]] for gpu in item.gpus]
        if len(item.gpus) < 2 or len({clock.part for clock in own}) > 1:
            continue
        whole = item.rows[(item.rows >= 0).all(axis=1)]
        if not item.channel.is_message and len(whole):
            whole = whole[np.isin(table.collective[whole[:, 0]], list(RENDEZVOUS))]
        ends = np.stack(
            [clock.read(table.end_ns[whole[:, place]]) for place, clock in enumerate(own)]
        )
        middle = np.sort(ends, axis=0)[len(own) // 2]
        left[own[0].part].append(np.abs(ends - middle).ravel())
    found_ns = {}
    for part, parts in left.items():
        joined = np.concatenate(parts)
        if len(joined):
            sigma = _MAD_TO_SIGMA * float(np.median(joined[joined > 0])) if joined.any() else 0.0
            found_ns[part] = max(round(sigma), table.resolution_ns // 2)
    return {clock: replace(own, epsilon_ns=found_ns.get(own.part)) for clock, own in clocks.items()}
