"""How is a training job spread over GPUs: pipeline, shards, recompute, and what disturbs it?"""

from dataclasses import dataclass, replace
from typing import Literal

from tracelens.simulate.actions import Group
from tracelens.simulate.job import Job, Script
from tracelens.simulate.mesh import Mesh
from tracelens.simulate.model import Node
from tracelens.simulate.parallel_script import ParallelScript
from tracelens.simulate.pipeline import Pipeline

_ALONE = Mesh((("dp", 1),))


@dataclass(frozen=True, slots=True)
class Sharding:
    """Fully sharded parameters: gathered before each layer, gradients scattered after it.

    Attributes:
        prefetch: layers that are gathered ahead of the one that runs.
    """

    gather_ns: int
    scatter_ns: int
    elems: int
    prefetch: int = 0


@dataclass(frozen=True, slots=True)
class Pause:
    """The host of one rank collects garbage before the optimizer of one step."""

    rank: int
    step: int
    dur_ns: int


@dataclass(frozen=True, slots=True)
class ParallelJob(Job):
    """A job on a mesh of ranks; ``nodes`` are those of one stage, or of one chunk of it.

    Attributes:
        recompute: what backward runs again instead of keeping activations.
        grad_norm_ns: all-reduce of the gradient norm before the optimizer; 0: none.
        loader_ranks: the only ranks with a slow loader; empty: all.
        rank_nodes: ranks that run other nodes.
    """

    mesh: Mesh = _ALONE
    pipeline: Pipeline | None = None
    sharding: Sharding | None = None
    recompute: Literal["", "full", "attention"] = ""
    grad_norm_ns: int = 0
    loader_ranks: tuple[int, ...] = ()
    rank_nodes: tuple[tuple[int, tuple[Node, ...]], ...] = ()
    pause: Pause | None = None

    def groups(self, rank: int) -> tuple[Group, ...]:
        """The process groups of a rank."""
        return self.mesh.groups(rank)

    def script(self, rank: int) -> Script:
        """The host programs of one rank."""
        nodes = dict(self.rank_nodes).get(rank, self.nodes)
        loads = not self.loader_ranks or rank in self.loader_ranks
        return ParallelScript(
            replace(self, nodes=nodes, loader_ns=self.loader_ns if loads else 0), rank
        )
