"""Between which bounds lie the FLOPs of attention over packed sequences?

Where each sequence ends stands in a tensor whose values no profiler records. What is recorded: the
tokens T of all sequences together, how many sequences n at most, and how long the longest is at
most. The pairs of query and key of one sequence grow with its length ever faster, so they are
fewest for n sequences of equal length and most for as many as possible of the greatest length.
"""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Packing:
    """What is known of the sequences of one call.

    Attributes:
        tokens: of all sequences together.
        sequences: at most; some may be empty.
        longest: tokens of one sequence at most.
    """

    tokens: int
    sequences: int
    longest: int

    @property
    def is_possible(self) -> bool:
        """Whether so many tokens fit into the sequences."""
        return 0 < self.tokens <= self.sequences * self.longest


def bounds(packing: Packing, pairs: Callable[[int], int]) -> tuple[int, int]:
    """Return the least and the most pairs of query and key, for one head.

    Args:
        packing: a possible one.
        pairs: pairs of one sequence of a length; its growth must never slow down.
    """
    length, longer = divmod(packing.tokens, packing.sequences)
    least = longer * pairs(length + 1) + (packing.sequences - longer) * pairs(length)
    full, rest = divmod(packing.tokens, packing.longest)
    return least, full * pairs(packing.longest) + pairs(rest)
