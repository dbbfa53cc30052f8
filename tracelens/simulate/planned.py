"""A model whose kernels last a planned time: the layer of the scenario table S01-S45.

Forward: one matmul, one attention, one pointwise kernel a layer; backward twice, two and a half
times and twice as long. Shorter kernels get smaller shapes: no plan is faster than the device.
"""

from dataclasses import dataclass, replace

from tracelens.simulate import kernels
from tracelens.simulate.actions import Arg, Op, Work, scalar
from tracelens.simulate.attention import AttentionSize
from tracelens.simulate.model import Node, OpCall, matmul_flop

_ROWS, _COLUMNS = 8192, 4096
_ATTENTION = AttentionSize(batch=2, heads=16, seq=2048, dim=128)
_MATMUL_NS, _ATTENTION_NS = 400_000, 100_000
_STEP = 8
"""Tokens come in multiples of it: matmuls want aligned operands."""


@dataclass(frozen=True, slots=True)
class LayerTimes:
    """Durations in ns of the forward kernels of a layer, and the gradients that it reduces.

    Attributes:
        split_weights: backward of the matmul is two kernels, one of them for the weights.
        rows: tokens that the matmul takes; 0 is as many as take its time at 69 % of peak.
        heads: heads of attention; 0 is as many as take its time at 35 % of peak.
    """

    matmul_ns: int = _MATMUL_NS
    attention_ns: int = _ATTENTION_NS
    pointwise_ns: int = 30_000
    layers: int = 4
    bucket_elems: int = 0
    split_weights: bool = False
    rows: int = 0
    heads: int = 0

    @property
    def tokens(self) -> int:
        """Rows of the matmul."""
        return self.rows or max(_ROWS * self.matmul_ns // _MATMUL_NS // _STEP, 1) * _STEP

    def nodes(self) -> list[Node]:
        """All nodes in forward order."""
        return [node for _ in range(self.layers) for node in self.layer()]

    def layer(self) -> list[Node]:
        """The nodes of one layer, in forward order."""
        return [replace(self.matmul(), first=True), self.attention(), self.pointwise()]

    def matmul(self) -> Node:
        """A projection; its gradients complete the bucket of the layer."""
        data, weight = Arg((self.tokens, _COLUMNS)), Arg((_COLUMNS, _COLUMNS))
        if self.split_weights:
            return self._split_matmul(data, weight)
        both = Arg((self.tokens, 2 * _COLUMNS))
        forward = matmul_flop(self.tokens, _COLUMNS, _COLUMNS)
        backward = matmul_flop(self.tokens, 2 * _COLUMNS, _COLUMNS)
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

    def _split_matmul(self, data: Arg, weight: Arg) -> Node:
        flop = matmul_flop(self.tokens, _COLUMNS, _COLUMNS)
        across = Arg((_COLUMNS, self.tokens), transposed=True)

        def call(layout: str, left: Arg, right: Arg) -> OpCall:
            work = Work(kernels.gemm(layout), self.matmul_ns, flop)
            return OpCall((Op("aten::mm", (left, right)),), (work,))

        return Node(
            call("TN", data, weight),
            "MmBackward0",
            (call("NN", data, weight),),
            self.bucket_elems,
            weight=(call("NT", across, data),),
        )

    def attention(self) -> Node:
        """Causal attention over the whole sequence."""
        heads = self.heads or max(_ATTENTION.heads * self.attention_ns // _ATTENTION_NS, 1)
        size = replace(_ATTENTION, heads=heads)
        return size.node(self.attention_ns, self.attention_ns * 5 // 2)

    def pointwise(self) -> Node:
        """The activation."""
        elems = self.tokens * _COLUMNS
        data = Arg((self.tokens, _COLUMNS))
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
