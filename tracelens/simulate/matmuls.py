"""Matmuls that cannot reach the peak: in 32 bits, in too many waves, or bound by memory.

On an H100 SXM: 989.4 TFLOP/s in bf16, 66.9 TFLOP/s in fp32, 3.35 TB/s, 132 multiprocessors.
"""

from dataclasses import dataclass

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

    def node(self, kernel: Kernel, dur_ns: int) -> Node:
        """The node of the graph: each of its three matmuls takes the same time."""
        left, right, out = (
            Arg(dims, self.dtype) for dims in ((self.m, self.k), (self.k, self.n), (self.m, self.n))
        )
        work = Work(kernel, dur_ns, matmul_flop(self.m, self.n, self.k))
        turned_left, turned_right = (
            Arg(arg.dims[::-1], self.dtype, transposed=True) for arg in (left, right)
        )
        return Node(
            OpCall((Op("aten::mm", (left, right)),), (work,)),
            "MmBackward0",
            (
                OpCall((Op("aten::mm", (turned_left, out)),), (work,)),
                OpCall((Op("aten::mm", (out, turned_right)),), (work,)),
            ),
        )


def single_precision() -> Node:
    """A matmul that was left in 32 bits, at the peak for 32 bits."""
    matmul = Matmul(4096, 4096, 1024, "float")
    name = "ampere_sgemm_128x128_nn"
    kernel = Kernel("flop.gemm", name, name, (32, 32, 1), (256, 1, 1), 122, 32_768)
    return matmul.node(kernel, -(-matmul.flop // _FP32_FLOP_PER_NS))


def one_tile_too_many() -> Node:
    """133 tiles on 132 multiprocessors: two waves, the second of one tile."""
    tiles = _MULTIPROCESSORS + 1
    matmul = Matmul(tiles * _TILE, _TILE, 4096)
    wave_ns = -(-matmul.flop * _MULTIPROCESSORS // (tiles * PEAK_FLOP_PER_NS))
    return matmul.node(xmma_gemm(matmul.m, matmul.n), 2 * wave_ns)


def few_rows() -> Node:
    """A matmul of 16 rows: the weights are read once for little work."""
    matmul = Matmul(16, 8192, 8192)
    moved = 2 * (matmul.m * matmul.k + matmul.k * matmul.n + matmul.m * matmul.n)
    return matmul.node(xmma_gemm(matmul.m, matmul.n), -(-moved // _BYTES_PER_NS))
