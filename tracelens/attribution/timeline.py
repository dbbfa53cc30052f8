"""Flatten labelled, overlapping intervals into disjoint stretches, the most telling label first."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
FAR_NS = 2**61  # far enough, and the length of all time still fits 64 bits


@dataclass(frozen=True)
class Timeline:
    """Disjoint stretches that cover all of time.

    Attributes:
        edges: starts of the stretches; the first is far in the past.
        label: priority that wins each stretch; ``unrecorded`` where nothing was recorded.
        unrecorded: the label of stretches without any interval.
    """

    edges: Array
    label: Array
    unrecorded: int

    def label_at(self, at_ns: Array) -> Array:
        """Return the label at each instant."""
        return self.label[np.searchsorted(self.edges, at_ns, side="right") - 1]

    def pieces(self, start_ns: Array, end_ns: Array) -> "Pieces":
        """Cut intervals at the edges.

        Args:
            start_ns: starts of n intervals.
            end_ns: their ends.
        """
        low = np.searchsorted(self.edges, start_ns, side="right") - 1
        high = np.searchsorted(self.edges, end_ns, side="left")
        count = np.maximum(high - low, 0)
        source = np.repeat(np.arange(len(start_ns)), count)
        offset = np.cumsum(count) - count
        stretch = np.arange(int(count.sum())) - np.repeat(offset - low, count)
        ends = np.append(self.edges[1:], FAR_NS)
        return Pieces(
            source,
            np.maximum(self.edges[stretch], start_ns[source]),
            np.minimum(ends[stretch], end_ns[source]),
            self.label[stretch],
            ends[stretch] - self.edges[stretch],
        )


@dataclass(frozen=True)
class Pieces:
    """Parts of intervals that lie within one stretch each.

    Attributes:
        source: which interval a piece belongs to.
        start_ns: starts.
        end_ns: ends.
        label: label of the stretch.
        stretch_ns: length of the whole stretch that the piece lies in.
    """

    source: Array
    start_ns: Array
    end_ns: Array
    label: Array
    stretch_ns: Array

    def where(self, chosen: Array) -> "Pieces":
        """Return some of the pieces."""
        columns = (self.source, self.start_ns, self.end_ns, self.label, self.stretch_ns)
        return Pieces(*(column[chosen] for column in columns))

    def is_silent(self, label: int, longer_than_ns: int) -> Array:
        """Tell which pieces lie in a long stretch of a label."""
        silent: Array = (self.label == label) & (self.stretch_ns > longer_than_ns)
        return silent

    def all_as(self, label: int) -> "Pieces":
        """Return the pieces with one label for all."""
        return replace(self, label=np.full(len(self.label), label))

    def unless(self, kept: int, label: int) -> "Pieces":
        """Return the pieces with ``label`` for all that are not ``kept``, as if without end."""
        other = self.label != kept
        return replace(
            self,
            label=np.where(other, label, self.label),
            stretch_ns=np.where(other, FAR_NS, self.stretch_ns),
        )


def flatten(start_ns: Array, end_ns: Array, priority: Array, labels: int) -> Timeline:
    """Build a timeline.

    Args:
        start_ns: starts of labelled intervals, in any order, overlapping or not.
        end_ns: ends.
        priority: label of each interval, 0 the strongest, below ``labels``.
        labels: number of labels; stretches without an interval get this value.
    """
    edges = np.unique(np.concatenate([start_ns, end_ns, [-FAR_NS]]).astype(np.int64))
    low = np.searchsorted(edges, start_ns)
    high = np.searchsorted(edges, end_ns)
    winner = np.full(len(edges), labels, dtype=np.int64)
    for label in range(labels - 1, -1, -1):
        chosen = priority == label
        steps = np.bincount(low[chosen], minlength=len(edges)).astype(np.int64)
        steps -= np.bincount(high[chosen], minlength=len(edges))
        winner[np.cumsum(steps) > 0] = label
    changes = np.concatenate([[True], winner[1:] != winner[:-1]])
    return Timeline(edges[changes], winner[changes], labels)
