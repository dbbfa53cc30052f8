"""Which operators, kernels and FLOPs does causal attention take?

Forward 4·b·h·d a pair of query and key: s² pairs, of which the causal mask keeps s·(s+1)/2. Flash
backward executes 2.5 times the forward, because it recomputes the scores, and is credited twice.
"""

from dataclasses import dataclass

from tracelens.simulate import kernels
from tracelens.simulate.actions import Arg, Flop, Kernel, Op, Work, scalar
from tracelens.simulate.model import Node, OpCall

_TILE_ROWS = 128


@dataclass(frozen=True, slots=True)
class AttentionSize:
    """Sizes of one call of attention."""

    batch: int
    heads: int
    seq: int
    dim: int

    @property
    def full_flop(self) -> int:
        """FLOPs of the forward pass if no score were masked."""
        return 4 * self.batch * self.heads * self.seq * self.seq * self.dim

    @property
    def causal_flop(self) -> int:
        """FLOPs of the forward pass under the causal mask."""
        return 2 * self.batch * self.heads * self.seq * (self.seq + 1) * self.dim

    def backward_kernels(self) -> tuple[Kernel, Kernel, Kernel]:
        """Row sums, the work, conversion of dQ."""
        return kernels.flash_backward(self._blocks, self.heads, self.batch)

    def node(
        self,
        forward_ns: int,
        backward_ns: int,
        *,
        before: tuple[Work, ...] = (),
        after: tuple[Work, ...] = (),
    ) -> Node:
        """The node of the graph; ``before`` and ``after`` surround the work of backward."""
        causal, full = self.causal_flop, self.full_flop
        forward = Work(
            kernels.flash_forward(self._blocks, self.heads, self.batch),
            forward_ns,
            Flop(causal, causal, full),
        )
        backward = Work(
            self.backward_kernels()[1],
            backward_ns,
            Flop(causal * 5 // 2, causal * 2, full * 2),
        )
        return Node(
            OpCall(self._forward_ops(), (forward,)),
            "ScaledDotProductFlashAttentionBackward0",
            (OpCall((self._backward_op(),), (*before, backward, *after)),),
        )

    @property
    def _blocks(self) -> int:
        return -(-self.seq // _TILE_ROWS)

    def _forward_ops(self) -> tuple[Op, ...]:
        head = Arg((self.batch, self.heads, self.seq, self.dim))
        by_token = Arg((self.batch, self.seq, self.heads, self.dim))
        none, no, yes, zero = scalar(""), scalar("False"), scalar("True"), scalar("0.")
        length = scalar(str(self.seq))
        return (
            Op(
                "aten::scaled_dot_product_attention",
                (head, head, head, none, zero, yes, none, no),
            ),
            Op(
                "aten::_scaled_dot_product_flash_attention",
                (head, head, head, zero, yes, no, none),
            ),
            Op(
                "aten::_flash_attention_forward",
                (by_token,) * 3
                + (none, none, length, length, zero, yes, no, scalar("0.125"))
                + (none,) * 4,
            ),
        )

    def _backward_op(self) -> Op:
        head = Arg((self.batch, self.heads, self.seq, self.dim))
        statistic = Arg((self.batch, self.heads, self.seq), "float")
        seed = Arg((), "unsigned long int")
        none, length = scalar(""), scalar(str(self.seq))
        return Op(
            "aten::_scaled_dot_product_flash_attention_backward",
            (head,) * 5
            + (statistic, none, none, length, length, scalar("0."), scalar("True"))
            + (seed, seed, none),
        )
