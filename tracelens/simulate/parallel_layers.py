"""Which exchanges lie inside a layer: tensor, sequence, context and expert parallelism?"""

from dataclasses import replace

from tracelens.simulate.model import LayerExchange, Node
from tracelens.simulate.planned import LayerTimes

_ACTIVATIONS = 33_554_432
_KEYS_AND_VALUES = 8_388_608


def _exchanging(name: str, exchange: LayerExchange) -> Node:
    return Node(None, f"{name}Backward", (), exchange=exchange)


def tensor_parallel(times: LayerTimes, dur_ns: int) -> tuple[Node, ...]:
    """All-reduce after each layer, of activations and, in backward, of their gradients."""
    reduce = _exchanging(
        "_ReduceFromModelParallelRegion",
        LayerExchange("tp", "allreduce", "allreduce", _ACTIVATIONS, dur_ns),
    )
    return tuple(node for _ in range(times.layers) for node in (*times.layer(), reduce))


def sequence_parallel(times: LayerTimes, ranks: int, dur_ns: int) -> tuple[Node, ...]:
    """All-gather before the matmul and reduce-scatter after attention, each half hidden."""
    gather = _exchanging(
        "_GatherFromSequenceParallelRegion",
        LayerExchange(
            "tp",
            "_allgather_base",
            "_reduce_scatter_base",
            _ACTIVATIONS // ranks,
            dur_ns,
            halved=True,
        ),
    )
    scatter = _exchanging(
        "_ReduceScatterToSequenceParallelRegion",
        LayerExchange(
            "tp", "_reduce_scatter_base", "_allgather_base", _ACTIVATIONS, dur_ns, halved=True
        ),
    )
    matmul, attention, pointwise = times.layer()
    layer = (
        replace(gather, first=True),
        replace(matmul, first=False),
        attention,
        scatter,
        pointwise,
    )
    return layer * times.layers


def context_parallel(times: LayerTimes, ranks: int, dur_ns: int) -> tuple[Node, ...]:
    """Attention in as many parts as ranks; beside each, keys and values go around the ring."""
    part = replace(times, attention_ns=times.attention_ns // ranks).attention()
    step = _exchanging(
        "RingAttention",
        LayerExchange("cp", "ring", "ring", _KEYS_AND_VALUES, dur_ns, beside=True),
    )
    matmul, _, pointwise = times.layer()
    layer = (matmul, *(step, part) * (ranks - 1), part, pointwise)
    return layer * times.layers


def experts(times: LayerTimes, load_permille: int, dur_ns: int) -> tuple[Node, ...]:
    """Tokens travel to their experts and back; ``load_permille``: tokens of this rank's experts."""
    exchange = LayerExchange("ep", "all_to_allv", "all_to_allv", _ACTIVATIONS, dur_ns)
    expert = replace(
        times,
        matmul_ns=times.matmul_ns * load_permille // 1_000,
        rows=times.tokens * load_permille // 1_000,
    ).matmul()
    matmul, attention, pointwise = times.layer()
    dispatch, combine = (_exchanging(name, exchange) for name in ("_Dispatch", "_Combine"))
    return (matmul, attention, dispatch, expert, combine, pointwise) * times.layers
