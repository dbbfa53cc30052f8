"""Matmuls that cannot reach the peak: in 32 bits, in too many waves, or bound by memory.

On an H100 SXM: 989.4 TFLOP/s in bf16, 66.9 TFLOP/s in fp32, 3.35 TB/s, 132 multiprocessors.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from tracelens.simulate.actions import Arg, Kernel, Op, Work
from tracelens.simulate.kernels import xmma_gemm
from tracelens.simulate.model import PEAK_FLOP_PER_NS, Node, OpCall, matmul_flop

_FP32_FLOP_PER_NS = 66_900
_BYTES_PER_NS = 3_350
_MULTIPROCESSORS = 132
_TILE = 128


@dataclass(frozen=True, slots=True)
class Matmul:
    """``m`` x ``k`` times ``k`` x ``n``, twice as much in the backward pass."""

    m: int
    n: int
    k: int
    dtype: str = "c10::BFloat16"

    @property
    def flop(self) -> int:
        """FLOPs of the forward pass."""
        return 2 * self.m * self.n * self.k

    def backward(self) -> tuple["Matmul", "Matmul"]:
        """The gradients of the right and of the left operand."""
        right, left = Matmul(self.k, self.n, self.m), Matmul(self.m, self.k, self.n)
        return replace(right, dtype=self.dtype), replace(left, dtype=self.dtype)

    def work(self, launch: "Launching") -> Work:
        """The kernel that does it."""
        kernel, dur_ns = launch(self)
        return Work(kernel, dur_ns, matmul_flop(self.m, self.n, self.k))

    def node(self, launch: "Launching") -> Node:
        """The node of the graph."""
        left, right, out = (
            Arg(dims, self.dtype) for dims in ((self.m, self.k), (self.k, self.n), (self.m, self.n))
        )
        turned_left, turned_right = (
            Arg(arg.dims[::-1], self.dtype, transposed=True) for arg in (left, right)
        )
        of_right, of_left = self.backward()
        return Node(
            OpCall((Op("aten::mm", (left, right)),), (self.work(launch),)),
            "MmBackward0",
            (
                OpCall((Op("aten::mm", (turned_left, out)),), (of_right.work(launch),)),
                OpCall((Op("aten::mm", (out, turned_right)),), (of_left.work(launch),)),
            ),
        )


Launching = Callable[[Matmul], tuple[Kernel, int]]
"""Which kernel does a matmul, and how long it takes."""


def single_precision() -> Node:
    """A matmul that was left in 32 bits, at the peak for 32 bits."""
    name = "ampere_sgemm_128x128_nn"

    def launch(matmul: Matmul) -> tuple[Kernel, int]:
        grid = (-(-matmul.n // _TILE), -(-matmul.m // _TILE), 1)
        kernel = Kernel("flop.gemm", name, name, grid, (256, 1, 1), 122, 32_768)
        return kernel, -(-matmul.flop // _FP32_FLOP_PER_NS)

    return Matmul(4096, 4096, 1024, "float").node(launch)


def one_tile_too_many() -> Node:
    """133 tiles on 132 multiprocessors: two waves, the second of one tile."""

    def launch(matmul: Matmul) -> tuple[Kernel, int]:
        tiles = -(-matmul.m // _TILE) * -(-matmul.n // _TILE)
        slots = -(-tiles // _MULTIPROCESSORS) * _MULTIPROCESSORS
        dur_ns = -(-matmul.flop * slots // (tiles * PEAK_FLOP_PER_NS))
        return xmma_gemm(matmul.m, matmul.n), dur_ns

    # 133 = 19 x 7, and long enough that memory does not set the pace.
    return Matmul(19 * _TILE, 7 * _TILE, 8192).node(launch)


def few_rows() -> Node:
    """A matmul of 16 rows: the weights are read once for little work."""

    def launch(matmul: Matmul) -> tuple[Kernel, int]:
        moved = 2 * (matmul.m * matmul.k + matmul.k * matmul.n + matmul.m * matmul.n)
        return xmma_gemm(matmul.m, matmul.n), -(-moved // _BYTES_PER_NS)

    return Matmul(16, 8192, 8192).node(launch)
