"""Which ranks form a process group, and what do frameworks call that group?

Descriptions are those of Megatron-LM (``create_group(group_desc=...)``) and of PyTorch's
DeviceMesh.
"""

from dataclasses import dataclass
from functools import cache
from typing import Literal

from tracelens.simulate.actions import Group

_DESCRIPTIONS = {
    "megatron": {
        "tp": "TENSOR_MODEL_PARALLEL_GROUP",
        "cp": "CONTEXT_PARALLEL_GROUP",
        "ep": "EXPERT_MODEL_PARALLEL_GROUP",
        "dp": "DATA_PARALLEL_GROUP",
        "pp": "PIPELINE_MODEL_PARALLEL_GROUP",
        "world": "MODEL_PARALLEL_GROUP",
    },
    "torch": {
        "tp": "mesh_tp",
        "cp": "mesh_cp",
        "ep": "mesh_ep",
        "dp": "mesh_dp",
        "fsdp": "mesh_dp_shard",
        "pp": "mesh_pp",
        "world": "mesh_world",
    },
}
_DATA = frozenset({"dp", "fsdp"})


@dataclass(frozen=True, slots=True)
class Mesh:
    """How ranks are laid out.

    Attributes:
        sizes: dimensions with their sizes, the one that varies fastest first.
        style: whose descriptions the groups carry.
    """

    sizes: tuple[tuple[str, int], ...]
    style: Literal["megatron", "torch"] = "megatron"

    @property
    def world_size(self) -> int:
        """Number of ranks."""
        product = 1
        for _, size in self.sizes:
            product *= size
        return product

    def size(self, dim: str) -> int:
        """Ranks along a dimension; 1 where the mesh has none such."""
        return dict(self.sizes).get(dim, 1)

    def place(self, dim: str, rank: int) -> int:
        """Coordinate of a rank along a dimension."""
        stride = 1
        for name, size in self.sizes:
            if name == dim:
                return rank // stride % size
            stride *= size
        return 0

    def group(self, dim: str, rank: int) -> Group:
        """The group of a rank along a dimension; ``world``: all but data parallelism."""
        return next(group for group in _groups_along(self, dim) if rank in group.ranks)

    def groups(self, rank: int) -> tuple[Group, ...]:
        """All groups that a rank is in."""
        return tuple(self.group(dim, rank) for dim in self._dims())

    def _dims(self) -> tuple[str, ...]:
        return (*(name for name, _ in self.sizes), "world")

    def groups_along(self, dim: str) -> list[Group]:
        """All groups of a dimension; numbered in the order in which every rank makes them."""
        number = 1
        for name in self._dims():
            members = self._members(name)
            if name == dim:
                description = _DESCRIPTIONS[self.style][dim]
                return [
                    Group(str(number + index), description, dim, ranks)
                    for index, ranks in enumerate(members)
                ]
            number += len(members)
        raise ValueError(f"the mesh has no dimension {dim}")

    def _members(self, dim: str) -> list[tuple[int, ...]]:
        apart = {name for name, _ in self.sizes} - {dim}
        if dim == "world":
            apart &= _DATA
        keys: dict[tuple[int, ...], list[int]] = {}
        for rank in range(self.world_size):
            key = tuple(self.place(name, rank) for name in sorted(apart))
            keys.setdefault(key, []).append(rank)
        return [tuple(ranks) for ranks in keys.values()]


@cache
def _groups_along(mesh: Mesh, dim: str) -> list[Group]:
    return mesh.groups_along(dim)
