"""What is a model to the simulator: nodes of an autograd graph, and how long do kernels take?

Durations: FLOPs at a stated fraction of 989.4 TFLOP/s (H100 SXM, dense bf16), or bytes moved at
2.6 TB/s plus 1.5 us. A matmul is 2·M·N·K FLOPs.
"""

from dataclasses import dataclass

from tracelens.simulate.actions import Flop, Op, Work

PEAK_FLOP_PER_NS = 989_400
BYTES_PER_NS = 2_600
SMALL_KERNEL_NS = 1_500
BF16_BYTES = 2


@dataclass(frozen=True, slots=True)
class Shape:
    """A decoder-only transformer and the batch that one rank processes at once."""

    layers: int = 4
    hidden: int = 1024
    heads: int = 16
    ffn: int = 4096
    vocab: int = 32_768
    seq: int = 2048
    batch: int = 8

    @property
    def tokens(self) -> int:
        """Tokens of one micro-batch on one rank."""
        return self.seq * self.batch

    @property
    def head_dim(self) -> int:
        """Width of one attention head."""
        return self.hidden // self.heads

    def as_dict(self) -> dict[str, int | bool]:
        """The shape in the keys that the ``model`` option reads."""
        return {
            "layers": self.layers,
            "hidden": self.hidden,
            "heads": self.heads,
            "kv_heads": self.heads,
            "head_dim": self.head_dim,
            "ffn": self.ffn,
            "glu": False,
            "vocab": self.vocab,
            "tied_embeddings": False,
        }


@dataclass(frozen=True, slots=True)
class Efficiency:
    """Fraction of peak, in thousandths, that FLOP-bearing kernels reach."""

    forward: int = 700
    dgrad: int = 680
    wgrad: int = 640
    head: int = 740
    attention: int = 400
    attention_backward: int = 340


AT_PEAK = Efficiency(1000, 1000, 1000, 1000, 1000, 1000)


@dataclass(frozen=True, slots=True)
class OpCall:
    """Operators, outermost first, and what the innermost launches."""

    ops: tuple[Op, ...]
    works: tuple[Work, ...]


@dataclass(frozen=True, slots=True)
class LayerExchange:
    """What ranks exchange in the middle of a layer.

    Attributes:
        dim: parallel dimension.
        forward_op: collective of the forward pass, or ``ring``: send to the next, receive from the
            previous rank.
        backward_op: the same for backward.
        halved: in two halves: the next node waits for the first, the one after for the second.
        beside: the next node does not wait; the one after does.
    """

    dim: str
    forward_op: str
    backward_op: str
    elems: int
    dur_ns: int
    halved: bool = False
    beside: bool = False


@dataclass(frozen=True, slots=True)
class Node:
    """A forward operator with its node of the autograd graph.

    Attributes:
        bucket_elems: gradients that are complete after this node and reduced together; 0: none.
        weight: the part of backward that only the optimizer needs; may be put off.
        exchange: what ranks exchange within this node.
        first: it begins a layer.
    """

    forward: OpCall | None
    backward_name: str
    backward: tuple[OpCall, ...]
    bucket_elems: int = 0
    weight: tuple[OpCall, ...] = ()
    exchange: LayerExchange | None = None
    first: bool = False


def flop_ns(flop: int, permille: int) -> int:
    """Duration of ``flop`` at a fraction of peak, rounded up."""
    return -(-flop * 1_000 // (PEAK_FLOP_PER_NS * permille))


def bytes_ns(size_bytes: int) -> int:
    """Duration of moving bytes through memory."""
    return SMALL_KERNEL_NS + size_bytes // BYTES_PER_NS


def matmul_flop(m: int, n: int, k: int) -> Flop:
    """FLOPs of one matmul."""
    flop = 2 * m * n * k
    return Flop(flop, flop, flop)
