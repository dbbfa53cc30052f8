"""Which operators and kernels make up one forward and backward pass of a small GPT?"""

from dataclasses import replace

from tracelens.simulate import kernels
from tracelens.simulate.actions import Arg, Kernel, Op, Work, scalar
from tracelens.simulate.attention import AttentionSize
from tracelens.simulate.model import (
    BF16_BYTES,
    SMALL_KERNEL_NS,
    Efficiency,
    Node,
    OpCall,
    Shape,
    bytes_ns,
    flop_ns,
    matmul_flop,
)


class Gpt:
    """Builds the nodes of a model; times follow from shapes."""

    def __init__(self, shape: Shape, efficiency: Efficiency) -> None:
        self._shape = shape
        self._efficiency = efficiency

    def nodes(self) -> list[Node]:
        """All nodes in forward order."""
        shape = self._shape
        nodes = [self._embedding()]
        for layer in range(shape.layers):
            nodes += self._layer(layer)
        return [*nodes, self._norm(), self._head(), self._softmax(), self._loss()]

    def parameters(self) -> int:
        """Weights of the matrices."""
        shape = self._shape
        return shape.layers * self._layer_parameters() + 2 * shape.vocab * shape.hidden

    def _layer_parameters(self) -> int:
        shape = self._shape
        return 4 * shape.hidden * shape.hidden + 2 * shape.hidden * shape.ffn

    def _layer(self, layer: int) -> list[Node]:
        shape = self._shape
        h, f = shape.hidden, shape.ffn
        # Embedding gradients travel with the first layer: they are the last to be ready.
        last_bucket = layer == 0
        bucket = 0 if last_bucket else self._layer_parameters()
        return [
            self._norm(bucket),
            self._linear(3 * h, h),
            self._attention(),
            self._linear(h, h),
            self._residual(),
            self._norm(),
            self._linear(f, h),
            self._gelu(),
            self._linear(h, f),
            self._residual(),
        ]

    def _memory(self, kernel: Kernel, passes: int, elems: int) -> Work:
        return Work(kernel, bytes_ns(passes * elems * BF16_BYTES))

    def _embedding(self) -> Node:
        shape = self._shape
        indices = Arg((shape.batch, shape.seq), "long int")
        table = Arg((shape.vocab, shape.hidden))
        grad = Arg((shape.batch, shape.seq, shape.hidden))
        elems = shape.tokens * shape.hidden
        forward = Op("aten::embedding", (table, indices, scalar("-1"), scalar("False")))
        backward = Op(
            "aten::embedding_dense_backward",
            (grad, indices, scalar(str(shape.vocab)), scalar("-1"), scalar("False")),
        )
        return Node(
            OpCall((forward,), (self._memory(kernels.embedding(shape.tokens), 2, elems),)),
            "EmbeddingBackward0",
            (
                OpCall(
                    (backward,),
                    (self._memory(kernels.embedding_backward(shape.tokens), 3, elems),),
                ),
            ),
            shape.vocab * shape.hidden + self._layer_parameters(),
        )

    def _norm(self, bucket_elems: int = 0) -> Node:
        shape = self._shape
        elems = shape.tokens * shape.hidden
        data = Arg((shape.batch, shape.seq, shape.hidden))
        weight = Arg((shape.hidden,))
        statistic = Arg((shape.batch, shape.seq, 1), "float")
        size = Arg(type="ScalarList", concrete=f"[{shape.hidden}]")
        grad_input, grad_weight = kernels.norm_backward(shape.tokens, shape.hidden)
        return Node(
            OpCall(
                (
                    Op(
                        "aten::layer_norm",
                        (data, size, weight, weight, scalar("1e-05"), scalar("False")),
                    ),
                    Op("aten::native_layer_norm", (data, size, weight, weight, scalar("1e-05"))),
                ),
                (self._memory(kernels.norm(shape.tokens), 2, elems),),
            ),
            "NativeLayerNormBackward0",
            (
                OpCall(
                    (
                        Op(
                            "aten::native_layer_norm_backward",
                            (
                                data,
                                data,
                                size,
                                statistic,
                                statistic,
                                weight,
                                weight,
                                Arg(type="ScalarList", concrete="[True, True, True]"),
                            ),
                        ),
                    ),
                    (
                        self._memory(grad_input, 3, elems),
                        self._memory(grad_weight, 2, elems),
                    ),
                ),
                self._sum(),
            ),
            bucket_elems,
        )

    def _sum(self) -> OpCall:
        """The gradients of the two branches of a residual connection meet."""
        shape = self._shape
        elems = shape.tokens * shape.hidden
        data = Arg((shape.batch, shape.seq, shape.hidden))
        return OpCall(
            (Op("aten::add", (data, data, scalar("1"))),),
            (self._memory(kernels.add(elems), 3, elems),),
        )

    def _residual(self) -> Node:
        return Node(self._sum(), "AddBackward0", ())

    def _matmul(self, left: Arg, right: Arg, kernel: Kernel, permille: int) -> OpCall:
        flop = matmul_flop(left.dims[0], right.dims[1], left.dims[1])
        work = Work(kernel, flop_ns(flop.executed, permille), flop)
        return OpCall((Op("aten::mm", (left, right)),), (work,))

    def _linear(self, out: int, inp: int, forward_permille: int | None = None) -> Node:
        shape, efficiency = self._shape, self._efficiency
        data, grad = Arg((shape.tokens, inp)), Arg((shape.tokens, out))
        forward = self._matmul(
            data,
            Arg((inp, out), transposed=True),
            kernels.gemm("TN"),
            forward_permille or efficiency.forward,
        )
        linear = Op(
            "aten::linear",
            (Arg((shape.batch, shape.seq, inp)), Arg((out, inp)), scalar("")),
        )
        return Node(
            OpCall((linear, *forward.ops), forward.works),
            "MmBackward0",
            (
                self._matmul(
                    Arg((out, shape.tokens), transposed=True),
                    data,
                    kernels.xmma_gemm(out, inp),
                    efficiency.wgrad,
                ),
                self._matmul(grad, Arg((out, inp)), kernels.gemm("NN"), efficiency.dgrad),
            ),
        )

    def _head(self) -> Node:
        shape = self._shape
        node = self._linear(shape.vocab, shape.hidden, self._efficiency.head)
        return replace(node, bucket_elems=shape.vocab * shape.hidden)

    def _gelu(self) -> Node:
        shape = self._shape
        elems = shape.tokens * shape.ffn
        data = Arg((shape.batch, shape.seq, shape.ffn))
        approximate = Arg(type="", concrete="")
        return Node(
            OpCall(
                (Op("aten::gelu", (data, approximate)),),
                (self._memory(kernels.gelu(elems), 2, elems),),
            ),
            "GeluBackward0",
            (
                OpCall(
                    (Op("aten::gelu_backward", (data, data, approximate)),),
                    (self._memory(kernels.gelu_backward(elems), 3, elems),),
                ),
            ),
        )

    def _attention(self) -> Node:
        shape, efficiency = self._shape, self._efficiency
        size = AttentionSize(shape.batch, shape.heads, shape.seq, shape.head_dim)
        flop = size.causal_flop
        rows, _, convert = size.backward_kernels()
        elems = shape.tokens * shape.hidden
        return size.node(
            flop_ns(flop, efficiency.attention),
            flop_ns(flop * 5 // 2, efficiency.attention_backward),
            before=(self._memory(rows, 2, elems),),
            after=(self._memory(convert, 3, elems),),
        )

    def _softmax(self) -> Node:
        shape = self._shape
        elems = shape.tokens * shape.vocab
        logits = Arg((shape.tokens, shape.vocab))
        return Node(
            OpCall(
                (
                    Op("aten::log_softmax", (logits, scalar("1"), scalar(""))),
                    Op("aten::_log_softmax", (logits, scalar("1"), scalar("False"))),
                ),
                (self._memory(kernels.softmax(shape.tokens), 2, elems),),
            ),
            "LogSoftmaxBackward0",
            (
                OpCall(
                    (
                        Op(
                            "aten::_log_softmax_backward_data",
                            (logits, logits, scalar("1"), scalar("")),
                        ),
                    ),
                    (self._memory(kernels.softmax_backward(shape.tokens), 3, elems),),
                ),
            ),
        )

    def _loss(self) -> Node:
        shape = self._shape
        logits = Arg((shape.tokens, shape.vocab))
        target = Arg((shape.tokens,), "long int")
        rest = (scalar(""), scalar("1"), scalar("-100"))
        grad = Arg()
        return Node(
            OpCall(
                (
                    Op("aten::nll_loss_nd", (logits, target, *rest)),
                    Op("aten::nll_loss_forward", (logits, target, *rest)),
                ),
                (Work(kernels.loss("forward"), 3 * SMALL_KERNEL_NS),),
            ),
            "NllLossBackward0",
            (
                OpCall(
                    (Op("aten::nll_loss_backward", (grad, logits, target, *rest, grad)),),
                    (Work(kernels.loss("backward"), 2 * SMALL_KERNEL_NS),),
                ),
            ),
        )
