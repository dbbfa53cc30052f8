"""A model whose kernels last a planned time: the layer of the scenario table S01-S45.

Forward: one matmul, one attention, one pointwise kernel a layer; backward twice, two and a half
times and twice as long.
"""

from dataclasses import dataclass

from tracelens.simulate import kernels
from tracelens.simulate.actions import Arg, Op, Work, scalar
from tracelens.simulate.attention import AttentionSize
from tracelens.simulate.model import Node, OpCall, matmul_flop

_ROWS, _COLUMNS = 8192, 4096
_ATTENTION = AttentionSize(batch=2, heads=16, seq=2048, dim=128)


@dataclass(frozen=True, slots=True)
class LayerTimes:
    """Durations in ns of the forward kernels of a layer, and the bytes that it reduces."""

    matmul_ns: int = 400_000
    attention_ns: int = 100_000
    pointwise_ns: int = 30_000
    layers: int = 4
    bucket_elems: int = 0

    def nodes(self) -> list[Node]:
        """All nodes in forward order."""
        return [
            node
            for _ in range(self.layers)
            for node in (self._matmul(), self._attention(), self._pointwise())
        ]

    def _matmul(self) -> Node:
        data, weight = Arg((_ROWS, _COLUMNS)), Arg((_COLUMNS, _COLUMNS))
        both = Arg((_ROWS, 2 * _COLUMNS))
        forward = matmul_flop(_ROWS, _COLUMNS, _COLUMNS)
        backward = matmul_flop(_ROWS, 2 * _COLUMNS, _COLUMNS)
        return Node(
            OpCall(
                (Op("aten::mm", (data, weight)),),
                (Work(kernels.gemm("TN"), self.matmul_ns, forward),),
            ),
            "MmBackward0",
            (
                OpCall(
                    (Op("aten::mm", (data, Arg((_COLUMNS, both.dims[1])))),),
                    (Work(kernels.gemm("NN"), 2 * self.matmul_ns, backward),),
                ),
            ),
            self.bucket_elems,
        )

    def _attention(self) -> Node:
        return _ATTENTION.node(self.attention_ns, self.attention_ns * 5 // 2)

    def _pointwise(self) -> Node:
        elems = _ROWS * _COLUMNS
        data = Arg((_ROWS, _COLUMNS))
        return Node(
            OpCall(
                (Op("aten::gelu", (data, scalar(""))),),
                (Work(kernels.gelu(elems), self.pointwise_ns),),
            ),
            "GeluBackward0",
            (
                OpCall(
                    (Op("aten::gelu_backward", (data, data, scalar(""))),),
                    (Work(kernels.gelu_backward(elems), 2 * self.pointwise_ns),),
                ),
            ),
        )
