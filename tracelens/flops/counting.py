"""How many FLOPs does a token cost, part by part, under one way of counting?

Every total is forward plus backward; a multiply-add is two FLOP. Backward costs twice as much as
forward: once for the gradient of the data and once for that of the weights, unless they are frozen.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import fsum

from tracelens.errors import UsageError
from tracelens.flops.conventions import (
    CONVENTIONS,
    DEFAULT_CONVENTION,
    Convention,
    find_convention,
)
from tracelens.flops.models import ModelShape
from tracelens.flops.parts import IDLE_EXPERTS, LATENT_NORMS, MTP_HEAD, NORMS, Part
from tracelens.flops.presets import Model, ModelLike, load_model

_MAX_SEQ_LEN = 1 << 40
_CORE = {"scores", "values"}
_CORE_AGAIN = {"flash": 0.5, "core": 1.0, "core-x3": 3.0}


@dataclass(frozen=True)
class PartFlop:
    """FLOPs of one part for one token.

    Attributes:
        name: name of the part.
        layer: number of its layer, ``None`` outside the layers.
        forward_flop: forward pass.
        backward_flop: backward pass.
        again_flop: what the convention counts as recomputed.
    """

    name: str
    layer: int | None
    forward_flop: float
    backward_flop: float
    again_flop: float = 0.0

    @property
    def flop(self) -> float:
        """All of them."""
        return self.forward_flop + self.backward_flop + self.again_flop


def flops_per_token(
    model: ModelLike,
    *,
    seq_len: int,
    convention: str = DEFAULT_CONVENTION,
    documents: Sequence[int] | None = None,
) -> float:
    """Return the FLOPs of training on one token, forward and backward.

    Args:
        model: a preset name, the path of a configuration, a mapping or a shape.
        seq_len: tokens a sequence.
        convention: the way of counting; ``causal`` counts the exact mask.
        documents: lengths of documents that are packed into sequences and do not see each other,
            where the convention tells them apart.

    Raises:
        UsageError: if the model, the convention or the length makes no sense.
    """
    counted = find_convention(convention)
    parts = flops_by_part(model, seq_len=seq_len, convention=convention, documents=documents)
    flop = fsum(part.flop for part in parts)
    return flop * 4 / 3 if counted.recompute == "all" else flop


def flops_per_token_by_convention(model: ModelLike, *, seq_len: int) -> dict[str, float]:
    """Return the FLOPs of one token under every convention."""
    shape = load_model(model)
    return {name: flops_per_token(shape, seq_len=seq_len, convention=name) for name in CONVENTIONS}


def flops_by_part(
    model: ModelLike,
    *,
    seq_len: int,
    convention: str = DEFAULT_CONVENTION,
    documents: Sequence[int] | None = None,
) -> list[PartFlop]:
    """Return the FLOPs of one token, part by part in the order of the forward pass.

    Raises:
        UsageError: if the model, the convention or the length makes no sense.
    """
    counted = find_convention(convention)
    lengths = tuple(documents) if documents and counted.documents else (seq_len,)
    if not all(1 <= length <= _MAX_SEQ_LEN for length in (seq_len, *lengths)):
        raise UsageError(f"sequence length out of range: {seq_len}")
    shape = _as_counted(load_model(model), counted)
    found = (_count(part, shape, counted, lengths) for part in _chosen(shape, counted))
    return [part for part in found if part.flop]


def stage_fractions(
    model: ModelLike, *, seq_len: int, layers_of_stage: Sequence[Sequence[int]], convention: str
) -> list[float]:
    """Return the share of the model FLOPs that each pipeline stage does; they sum to 1.

    The head and multi-token prediction belong to the last stage. Tensor, context and balanced
    expert parallelism divide a stage evenly, so a GPU does its stage's share over its GPUs.

    Args:
        model: what ``flops_per_token`` takes.
        seq_len: tokens a sequence.
        layers_of_stage: numbers of the layers of each stage.
        convention: the way of counting.

    Raises:
        UsageError: if a layer is missing or given twice.
    """
    shape = load_model(model)
    owner = {layer: stage for stage, layers in enumerate(layers_of_stage) for layer in layers}
    given = sum(len(layers) for layers in layers_of_stage)
    if sorted(owner) != list(range(shape.layers)) or given != shape.layers:
        raise UsageError(f"pipeline stages must hold each of {shape.layers} layers once")
    flop = [0.0] * len(layers_of_stage)
    for part in flops_by_part(shape, seq_len=seq_len, convention=convention):
        first = part.name in {"embedding", "positions"}
        last = len(flop) - 1
        stage = 0 if first else last if part.layer is None else owner.get(part.layer, last)
        flop[stage] += part.flop
    return [stage / fsum(flop) for stage in flop]


def _as_counted(model: Model, counted: Convention) -> Model:
    """The model that a convention takes this one for."""
    if not isinstance(model, ModelShape):
        return model
    if counted.gated_if_silu and model.activation not in {"", "silu", "swish", "swiglu"}:
        model = replace(model, glu=False)
    if counted.ssm_twice_hidden and model.ssm_inner:
        model = replace(model, ssm_inner=2 * model.hidden)
    return model


def _chosen(model: Model, counted: Convention) -> Iterator[Part]:
    tied = model.tied_embeddings
    left_out = {
        "embedding": not counted.embedding,
        "positions": counted.positions == "no" or (counted.positions == "tied" and not tied),
        "head": counted.head == "no" or (counted.head == "untied" and tied),
        "router": not counted.router,
        IDLE_EXPERTS: counted.experts != "all",
        "final_norm": counted.norms == "no",
        **dict.fromkeys(NORMS[:1] + NORMS[2:], counted.norms != "all"),
    }
    for part in model.parts:
        if not left_out.get(part.name) and (counted.mtp or not part.is_mtp):
            yield part
    if counted.latent_norms and isinstance(model, ModelShape):
        yield Part(name=LATENT_NORMS, weights=_latent_norm_weights(model))


def _latent_norm_weights(model: ModelShape) -> int:
    layers = model.layers + model.mtp_layers
    latent = (model.q_lora_rank + model.kv_lora_rank) * layers if model.kv_lora_rank else 0
    return latent + 3 * model.hidden * model.mtp_layers


def _count(part: Part, model: Model, counted: Convention, lengths: tuple[int, ...]) -> PartFlop:
    weights, core = _weights(part, model, counted), float(part.core_flop)
    if part.width and counted.attention != "none":
        width = part.width if counted.width == "heads" else model.hidden
        context = _mean_context(part, counted, lengths)
        core += 2 * width * context
        if counted.mask and part.name == "scores":
            core += 3 * lengths[0] * model.heads
    forward = 2 * weights + core
    backward = (2 if model.frozen else 4) * weights + 2 * core
    again = 0.0
    if counted.recompute == "layers" and part.layer is not None:
        again = forward
    elif part.name in _CORE:
        again = _CORE_AGAIN.get(counted.recompute, 0.0) * core
    return PartFlop(part.name, part.layer, forward, backward, again)


def _weights(part: Part, model: Model, counted: Convention) -> int:
    if part.name in {"head", MTP_HEAD}:
        return -(-model.vocab // counted.vocab_multiple) * counted.vocab_multiple * model.hidden
    return part.weights


def _mean_context(part: Part, counted: Convention, lengths: tuple[int, ...]) -> float:
    window = part.window if counted.windowed else 0
    attention = counted.attention if part.is_causal else "full"
    keys = fsum(length * _context(attention, length, window) for length in lengths)
    return keys / sum(lengths)


def _context(attention: str, seq_len: int, window: int) -> float:
    """Keys that a query meets on average."""
    clipped = min(window, seq_len) if window else seq_len
    if attention == "full":
        return clipped
    if attention == "exact" or clipped < seq_len:
        # The first `clipped` queries meet 1, 2, ... keys, every later one meets `clipped`.
        return clipped - clipped * (clipped - 1) / (2 * seq_len)
    return seq_len / 2
