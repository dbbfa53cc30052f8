"""Which kernels of different ranks are one exchange?

By the recorded number within the group, else by the order within the step; operation and bytes must
agree. Where sequences differ, their longest common part is matched and the rest is counted. Without
steps the sequences may begin at different places: that shift is chosen which leaves the ends of
exchanges the most constant distance apart.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

import numpy as np

from tracelens.comm.channels import Channel
from tracelens.comm.participants import Array, Participants

UNMATCHED_LIMIT = 0.05
"""Above this share of kernels without partners a channel is not divided."""
_SAME_BYTES = frozenset({"all_reduce", "all_gather", "reduce_scatter", "send_recv"})
_MOST_SHIFT = 64
_LEAST_OVERLAP = 3
_STEADY_NS = 1_000

_Token = tuple[str, int]


@dataclass(frozen=True)
class Matched:
    """The exchanges of a channel.

    Attributes:
        channel: whose.
        gpus: m members.
        rows: (n, m) rows of ``Participants``; -1 where a member has no part in it.
        unmatched: kernels without partners.
        total: kernels that had to find one.
    """

    channel: Channel
    gpus: tuple[int, ...]
    rows: Array
    unmatched: int
    total: int

    @property
    def unmatched_frac(self) -> float:
        """Share of kernels without partners."""
        return self.unmatched / self.total if self.total else 0.0


def match(channel: Channel, table: Participants) -> Matched:
    """Match the exchanges of a channel."""
    gpus = tuple(channel.members)
    found: list[list[int]] = []
    total = 0
    for lists in _by_step(channel, table):
        total += sum(len(rows) for rows in lists)
        found += _matched(lists, table)
    rows = np.array(found, dtype=np.int64).reshape(len(found), len(gpus))
    whole = (rows >= 0).sum(axis=1) > 1
    rows = rows[whole]
    return Matched(channel, gpus, rows, total - int((rows >= 0).sum()), total)


def _by_step(channel: Channel, table: Participants) -> list[list[Array]]:
    """Lists of each step; what was launched outside steps is left out where there are any."""
    steps = {gpu: table.step[rows] for gpu, rows in channel.members.items()}
    numbers = sorted(set(np.concatenate(list(steps.values())).tolist()) - {-1})
    if not numbers:
        return [list(channel.members.values())]
    return [
        [rows[steps[gpu] == number] for gpu, rows in channel.members.items()] for number in numbers
    ]


def _matched(lists: list[Array], table: Participants) -> list[list[int]]:
    numbered = [table.seq[rows] for rows in lists]
    if all(len(numbers) and (numbers >= 0).all() for numbers in numbered):
        return _by_key(lists, [numbers.tolist() for numbers in numbered])
    tokens = [_tokens(rows, lists, table) for rows in lists]
    if all(other == tokens[0] for other in tokens) and table.step[lists[0]].min(initial=0) >= 0:
        return [[int(row) for row in rows] for rows in zip(*lists, strict=True)]
    longest = max(range(len(lists)), key=lambda place: (len(lists[place]), -place))
    stepped = all(table.step[rows].min(initial=0) >= 0 for rows in lists)
    result = np.full((len(lists[longest]), len(lists)), -1, dtype=np.int64)
    result[:, longest] = lists[longest]
    for place, rows in enumerate(lists):
        if place == longest:
            continue
        pairs = (
            _common(tokens[longest], tokens[place])
            if stepped
            else _shifted((lists[longest], rows), (tokens[longest], tokens[place]), table)
        )
        for at, other in pairs:
            result[at, place] = rows[other]
    return [[int(value) for value in row] for row in result]


def _tokens(rows: Array, lists: list[Array], table: Participants) -> list[_Token]:
    """Operation and bytes, the latter where every member recorded them and they must agree."""
    known = all((table.bytes[other] >= 0).all() for other in lists)
    return [
        (op, size if known and op in _SAME_BYTES else -1)
        for op, size in zip(
            table.collective[rows].tolist(), table.bytes[rows].tolist(), strict=True
        )
    ]


def _by_key(lists: list[Array], numbers: list[list[int]]) -> list[list[int]]:
    found: dict[int, list[int]] = defaultdict(lambda: [-1] * len(lists))
    for place, (rows, keys) in enumerate(zip(lists, numbers, strict=True)):
        for row, key in zip(rows.tolist(), keys, strict=True):
            found[key][place] = row
    return [found[key] for key in sorted(found)]


def _common(reference: list[_Token], other: list[_Token]) -> list[tuple[int, int]]:
    blocks = SequenceMatcher(None, reference, other, autojunk=False).get_matching_blocks()
    return [(at + step, to + step) for at, to, size in blocks for step in range(size)]


def _shifted(
    rows: tuple[Array, Array],
    tokens: tuple[Sequence[_Token], Sequence[_Token]],
    table: Participants,
) -> list[tuple[int, int]]:
    best: tuple[tuple[int, int], list[tuple[int, int]]] | None = None
    for shift in range(-_MOST_SHIFT, _MOST_SHIFT + 1):
        first, last = max(0, shift), min(len(tokens[0]), len(tokens[1]) + shift)
        pairs = [(at, at - shift) for at in range(first, last)]
        same = [(at, to) for at, to in pairs if tokens[0][at] == tokens[1][to]]
        if len(same) < max(_LEAST_OVERLAP, len(pairs) - 1):
            continue
        at, to = np.array(same).T
        apart = table.end_ns[rows[0][at]] - table.end_ns[rows[1][to]]
        middle = int(np.median(apart))
        spread = int(np.median(np.abs(apart - middle)))
        score = (spread // _STEADY_NS, abs(middle))
        if best is None or score < best[0]:
            best = (score, same)
    return best[1] if best else []
