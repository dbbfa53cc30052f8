"""In which order does a pipeline stage run forward and backward passes?

GPipe (Huang 2018), 1F1B (PipeDream-Flush, Narayanan 2021), interleaved 1F1B as in Megatron-LM, and
ZB-H1 (Qi 2023): backward without the weight gradients, which stage r puts off by r micro-batches.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Schedule = Literal["gpipe", "1f1b", "interleaved", "zb-h1"]
Pass = Literal["forward", "backward", "weight"]


@dataclass(frozen=True, slots=True)
class Task:
    """One pass of one micro-batch through one chunk of layers."""

    kind: Pass
    micro_batch: int
    chunk: int = 0


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A pipeline.

    Attributes:
        chunks: groups of layers on each stage; more than one only when interleaved.
        transfer_ns: time to send activations, or their gradients, to the neighbor.
        elems: elements of such a message.
    """

    schedule: Schedule = "1f1b"
    stages: int = 4
    chunks: int = 1
    transfer_ns: int = 40_000
    elems: int = 8_388_608

    def tasks(self, stage: int, micro_batches: int) -> list[Task]:
        """What a stage does in a step, in order."""
        if self.schedule == "gpipe":
            return list(_gpipe(micro_batches))
        if self.schedule == "interleaved":
            return list(self._interleaved(stage, micro_batches))
        return list(self._one_forward_one_backward(stage, micro_batches))

    def _one_forward_one_backward(self, stage: int, micro_batches: int) -> Iterator[Task]:
        ahead = min(self.stages - stage - 1, micro_batches)
        split = self.schedule == "zb-h1"
        for index in range(ahead):
            yield Task("forward", index)
        for index in range(micro_batches):
            if index + ahead < micro_batches:
                yield Task("forward", index + ahead)
            yield Task("backward", index)
            if split and index >= stage:
                yield Task("weight", index - stage)
        for index in range(
            max(0, micro_batches - stage) if split else micro_batches, micro_batches
        ):
            yield Task("weight", index)

    def _interleaved(self, stage: int, micro_batches: int) -> Iterator[Task]:
        if micro_batches % self.stages:
            raise ValueError("interleaving takes whole rounds of micro-batches")
        total = micro_batches * self.chunks
        ahead = min(total, 2 * (self.stages - stage - 1) + (self.chunks - 1) * self.stages)
        for index in range(ahead):
            yield self._numbered("forward", index)
        for index in range(total):
            if index + ahead < total:
                yield self._numbered("forward", index + ahead)
            yield self._numbered("backward", index)

    def _numbered(self, kind: Pass, index: int) -> Task:
        """The ``index``-th pass: rounds of as many micro-batches as stages, chunk after chunk."""
        full_round, place = divmod(index, self.stages * self.chunks)
        chunk, offset = divmod(place, self.stages)
        if kind == "backward":
            chunk = self.chunks - 1 - chunk
        return Task(kind, full_round * self.stages + offset, chunk)


def _gpipe(micro_batches: int) -> Iterator[Task]:
    for index in range(micro_batches):
        yield Task("forward", index)
    for index in reversed(range(micro_batches)):
        yield Task("backward", index)


def alternating(micro_batches: int) -> list[Task]:
    """Without a pipeline: backward follows each forward pass."""
    return [Task(kind, index) for index in range(micro_batches) for kind in ("forward", "backward")]
