"""Which parts does a model consist of, layer by layer, and what does each cost a token?

A part has parameters that multiply a token once (2 FLOP each, forward), components of the attention
product (2 FLOP each for every key that a query meets), or a core without parameters (the scan of a
state-space layer). What of them counts is the business of a convention, not of this list.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tracelens.flops.models import ModelShape

IDLE_EXPERTS = "idle_experts"
MTP_HEAD = "mtp_head"
TABLES = ("embedding", "positions")
NORMS = ("norms", "final_norm", "final_bias")
LATENT_NORMS = "latent_norms"
UNMULTIPLIED = frozenset((*TABLES, *NORMS, IDLE_EXPERTS, LATENT_NORMS))
"""Parts whose parameters no matrix product of an active token uses."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """One part of one layer.

    Attributes:
        name: qkv, scores, values, out, mlp, experts, shared_experts, router, mixer, scan, head, ...
        layer: number of the layer; those of multi-token prediction follow the last one; ``None``
            outside the layers.
        weights: parameters.
        width: components of the attention product, over all heads.
        window: keys that a query sees at most; 0 for all.
        is_causal: whether a query sees earlier keys only.
        core_flop: forward FLOP a token that have no parameters and no keys.
        is_mtp: whether it belongs to multi-token prediction.
    """

    name: str
    layer: int | None = None
    weights: int = 0
    width: int = 0
    window: int = 0
    is_causal: bool = True
    core_flop: int = 0
    is_mtp: bool = False


def parts_of(model: "ModelShape") -> tuple[Part, ...]:
    """Return every part of a decoder, in the order of the forward pass."""
    found = [
        Part(name="embedding", weights=0 if model.tied_embeddings else model.head_weights),
        Part(name="positions", weights=model.positions * model.hidden),
    ]
    for layer in range(model.layers):
        found += _layer(model, layer, model.mixer_of(layer), model.feed_of(layer))
    found.append(Part(name="final_norm", weights=model.hidden))
    found.append(Part(name="final_bias", weights=model.hidden if model.biases else 0))
    found.append(Part(name="head", weights=model.head_weights))
    for extra in range(model.mtp_layers):
        found += _mtp_layer(model, model.layers + extra)
    return tuple(part for part in found if part.weights or part.width or part.core_flop)


def _layer(model: "ModelShape", layer: int, mixer: str, feed: str) -> list[Part]:
    norm = model.hidden * (2 if model.biases else 1) * (2 if model.sandwich_norms else 1)
    norms = norm * ((mixer != "none") + (feed != "none"))
    found = []
    if mixer == "attention":
        found += list(_attention(model, layer))
        norms += _attention_vectors(model)
    elif mixer != "none":
        weights, core_flop, vectors = _MIXERS[mixer](model)
        found.append(Part(name="mixer", layer=layer, weights=weights))
        found.append(Part(name="scan", layer=layer, core_flop=core_flop))
        norms += vectors
    found += list(_feed(model, layer, feed))
    if model.biases and feed != "none":
        norms += model.hidden + model.ffn * (2 if model.glu else 1)
    return [*found, Part(name="norms", layer=layer, weights=norms)]


def _attention(model: "ModelShape", layer: int) -> Iterator[Part]:
    out = model.heads * model.v_dim * model.hidden
    window = model.window_of(min(layer, model.layers - 1))
    yield Part(name="qkv", layer=layer, weights=_query_key_value(model))
    for name, dim in (("scores", model.qk_dim), ("values", model.v_dim)):
        yield Part(name=name, layer=layer, width=model.heads * dim, window=window)
    yield Part(name="out", layer=layer, weights=out)


def _query_key_value(model: "ModelShape") -> int:
    queries = model.heads * model.qk_dim
    if not model.kv_lora_rank:
        keys_values = model.key_heads * (model.qk_dim + model.v_dim)
        return model.hidden * (queries * (2 if model.query_gate else 1) + keys_values)
    rank = model.q_lora_rank
    query = rank * (model.hidden + queries) if rank else model.hidden * queries
    down = model.hidden * (model.kv_lora_rank + model.qk_rope_head_dim)
    up = model.kv_lora_rank * model.heads * (model.qk_nope_head_dim + model.v_dim)
    return query + down + up


def _attention_vectors(model: "ModelShape") -> int:
    found = model.q_lora_rank + model.kv_lora_rank if model.kv_lora_rank else 0
    if model.qk_norm:
        found += 2 * model.qk_dim
    if model.biases or model.qkv_biases:
        found += model.heads * model.qk_dim + model.key_heads * (model.qk_dim + model.v_dim)
    return found + (model.hidden if model.biases else 0)


def _feed(model: "ModelShape", layer: int, feed: str) -> Iterator[Part]:
    column = model.matrices * model.hidden
    if feed == "dense":
        yield Part(name="mlp", layer=layer, weights=column * model.ffn)
    elif feed == "moe":
        width = model.ffn_latent or model.hidden
        expert = model.matrices * width * model.ffn_expert
        idle = model.experts - model.experts_per_token
        latent = 2 * model.hidden * model.ffn_latent
        yield Part(name="router", layer=layer, weights=model.hidden * model.experts)
        yield Part(name="experts", layer=layer, weights=expert * model.experts_per_token + latent)
        yield Part(name=IDLE_EXPERTS, layer=layer, weights=expert * idle)
        yield Part(name="shared_experts", layer=layer, weights=column * model.ffn_shared)


def _mtp_layer(model: "ModelShape", layer: int) -> Iterator[Part]:
    """One more layer of the last kind, its 2h x h input projection, and one more head."""
    last = _layer(model, layer, "attention", model.feed_of(model.layers - 1))
    last.append(Part(name="mtp_projection", layer=layer, weights=2 * model.hidden**2))
    last.append(Part(name=MTP_HEAD, layer=layer, weights=model.head_weights))
    for part in last:
        if part.name != "norms":
            yield Part(**{**part.__dict__, "is_mtp": True})


# --- layers without attention: (weights, forward FLOP of the core, other parameters) ------------


def _mamba2(model: "ModelShape") -> tuple[int, int, int]:
    """State-space duality (arXiv 2405.21060), counted as Megatron does; the core is the scan."""
    inner, mixed = model.ssm_inner, 2 * model.ssm_groups * model.ssm_state
    weights = model.hidden * (2 * inner + mixed + model.ssm_heads) + inner * model.hidden
    vectors = (inner + mixed) * (model.ssm_conv + 1) + 3 * model.ssm_heads + inner
    return weights, 7 * inner * model.ssm_state, vectors


def _mamba1(model: "ModelShape") -> tuple[int, int, int]:
    """Selective scan (arXiv 2312.00752): steps and states are projected per channel."""
    inner, state, rank = model.ssm_inner, model.ssm_state, model.ssm_rank
    weights = 3 * model.hidden * inner + inner * (rank + 2 * state) + rank * inner
    vectors = inner * (model.ssm_conv + 1) + inner + inner * state + inner
    return weights, 7 * inner * state, vectors


def _delta(model: "ModelShape") -> tuple[int, int, int]:
    """Gated delta rule (arXiv 2412.06464), counted as Megatron does."""
    keys = model.delta_key_heads * model.delta_key_dim
    values = model.delta_value_heads * model.delta_value_dim
    heads, channels = model.delta_value_heads, 2 * keys + values
    weights = model.hidden * (2 * keys + 2 * values + 2 * heads) + values * model.hidden
    core = 2 * (model.delta_conv * channels + 4 * heads * model.delta_value_dim**2)
    return weights, core, model.delta_conv * channels + 2 * heads + model.delta_value_dim


_MIXERS = {"mamba2": _mamba2, "mamba": _mamba1, "delta": _delta}
MIXERS = ("attention", "none", *_MIXERS)
FEEDS = ("dense", "moe", "none")
