"""What shape does a Hugging Face ``config.json`` describe?

Keys differ between model families; what is not understood is refused by name, because a wrong
FLOP count is worse than none.
"""

from collections.abc import Mapping
from typing import Any

from tracelens.errors import UsageError
from tracelens.flops.huggingface_hybrid import HYBRIDS, hybrid_fields
from tracelens.flops.layerlist import EXAMPLE
from tracelens.flops.models import ModelShape

_HINT = f"give --model-flops-per-step, or a JSON file with the layers: {EXAMPLE}"

_LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_HIDDEN = ("hidden_size", "n_embd", "d_model")
_HEADS = ("num_attention_heads", "n_head", "n_heads")
_KEY_HEADS = ("num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num")
_FFN = ("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size", "d_ff")
_HEAD_DIM = ("head_dim", "kv_channels", "attention_head_dim")
_VOCAB = ("vocab_size", "padded_vocab_size")
_EXPERTS = ("num_local_experts", "n_routed_experts", "num_experts", "moe_num_experts")
_TOP_K = ("num_experts_per_tok", "num_experts_per_token", "experts_per_token", "moe_topk")

_PLAIN_MLP = {
    "bloom", "codegen", "falcon", "gpt2", "gpt_bigcode", "gpt_neo", "gpt_neox", "gptj", "mpt",
    "nemotron", "nemotron_h", "opt", "phi", "starcoder2",
}  # fmt: skip
_GATED_MLP = {
    "cohere", "cohere2", "deepseek", "deepseek_v2", "deepseek_v3", "ernie4_5", "gemma", "gemma2",
    "gemma3_text", "glm", "glm4", "glm4_moe", "gpt_oss", "granite", "internlm2", "kimi_k2",
    "llama", "ministral", "mistral", "mixtral", "olmo", "olmo2", "olmo3", "olmoe", "phi3",
    "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "qwen3_next", "seed_oss", "smollm3", "stablelm",
    "yi", "jamba", "bamba", "granitemoehybrid",
}  # fmt: skip
_GATED_ACTIVATIONS = {"silu", "swish", "swiglu", "geglu"}
_FOUR_TIMES_HIDDEN = {"bloom", "codegen", "falcon", "gpt2", "gpt_bigcode", "gptj", "gpt_neo", "mpt"}
_TIED = {
    "bloom", "codegen", "cohere", "cohere2", "falcon", "gemma", "gemma2", "gemma3_text", "gpt2",
    "gpt_bigcode", "gpt_neo", "mpt", "opt", "starcoder2", "mamba", "mamba2", "falcon_mamba",
}  # fmt: skip
_LEARNED_POSITIONS = {"gpt2", "gpt_bigcode", "gpt_neo", "opt"}
_BIASES = {"gpt2", "gpt_neox", "gpt_bigcode", "opt", "bloom", "phi"}
_FOREIGN = (
    "text_config", "vision_config", "ssm_cfg", "mamba_d_state", "hybrid_override_pattern",
    "linear_num_value_heads", "linear_attn_config", "attn_layer_period", "index_topk",
    "attention_chunk_size", "state_size",
)  # fmt: skip
_OF_HYBRIDS = {
    "mamba_d_state", "hybrid_override_pattern", "linear_num_value_heads", "attn_layer_period",
    "state_size",
}  # fmt: skip
_WITHOUT_ATTENTION = {"mamba", "mamba2", "falcon_mamba"}
_SLIDING = {"sliding_attention", "sliding"}


def is_config(values: Mapping[str, Any]) -> bool:
    """Tell a Hugging Face configuration from a mapping of our own field names."""
    return "model_type" in values or any(key in values for key in (*_LAYERS[:2], *_HEADS[:2]))


def shape_of_config(config: Mapping[str, Any]) -> ModelShape:
    """Return the shape that a configuration describes.

    Raises:
        UsageError: naming the key that is missing, or the part that is not a plain decoder.
    """
    family = str(config.get("model_type", ""))
    _refuse_foreign(config, family)
    layers = _required(config, _LAYERS)
    hidden = _required(config, _HIDDEN)
    without_attention = family in _WITHOUT_ATTENTION
    heads = 0 if without_attention else _required(config, _HEADS)
    latent = _optional(config, ("kv_lora_rank",))
    shape: dict[str, Any] = {
        "layers": layers,
        "hidden": hidden,
        "heads": heads,
        "kv_heads": _key_heads(config),
        "head_dim": 0 if latent else _optional(config, _HEAD_DIM),
        "ffn": 0 if without_attention else _ffn(config, family, hidden),
        "glu": without_attention or _is_gated(config, family),
        "vocab": _required(config, _VOCAB),
        "sliding_window": _windows(config, family, layers),
        "mtp_layers": _optional(config, ("num_nextn_predict_layers",)),
        "tied_embeddings": bool(config.get("tie_word_embeddings", family in _TIED)),
        "biases": family in _BIASES,
        "qkv_biases": family.startswith("qwen2") or bool(config.get("attention_bias")),
        "qk_norm": family.startswith(("qwen3", "gemma3")),
        "sandwich_norms": family.startswith(("gemma2", "gemma3")),
        "activation": str(config.get("hidden_act") or config.get("hidden_activation") or ""),
    }
    if family in _LEARNED_POSITIONS:
        shape["positions"] = _optional(config, ("n_positions", "max_position_embeddings"))
    for key in ("q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim"):
        shape[key] = _optional(config, (key,)) if latent else 0
    shape["v_head_dim"] = _optional(config, ("v_head_dim",)) if latent else 0
    shape |= _experts(config, family, layers)
    if family in HYBRIDS:
        shape |= hybrid_fields(config, family, lambda *keys: _optional(config, keys))
    return ModelShape.from_mapping(shape)


def _refuse_foreign(config: Mapping[str, Any], family: str) -> None:
    own = _OF_HYBRIDS if family in HYBRIDS else set()
    for key in _FOREIGN:
        if config.get(key) and key not in own:
            raise UsageError(f"model {family}: {key!r} is not a plain decoder", hint=_HINT)
    architectures = config.get("architectures") or ()
    decoder = any("CausalLM" in str(name) or "LMHead" in str(name) for name in architectures)
    known = family in _PLAIN_MLP or family in _GATED_MLP or family in HYBRIDS
    if config.get("is_encoder_decoder") or not (decoder or known):
        raise UsageError(f"model type {family!r} is not a known decoder", hint=_HINT)


def _required(config: Mapping[str, Any], keys: tuple[str, ...]) -> int:
    value = _optional(config, keys)
    if not value:
        raise UsageError(f"model configuration: {keys[0]!r} is missing", hint=_HINT)
    return value


def _optional(config: Mapping[str, Any], keys: tuple[str, ...]) -> int:
    for key in keys:
        value = config.get(key)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int):
            raise UsageError(f"model configuration: {key!r} must be a whole number", hint=_HINT)
        return value
    return 0


def _key_heads(config: Mapping[str, Any]) -> int:
    if config.get("multi_query") and not config.get("new_decoder_architecture"):
        return 1  # Falcon-7B writes num_kv_heads = 71 beside it; the model has one
    return _optional(config, _KEY_HEADS)


def _ffn(config: Mapping[str, Any], family: str, hidden: int) -> int:
    width = _optional(config, _FFN)
    if not width and family in _FOUR_TIMES_HIDDEN:
        return (_optional(config, ("expansion_ratio",)) or 4) * hidden
    return width or _required(config, _FFN)


def _is_gated(config: Mapping[str, Any], family: str) -> bool:
    if family in _PLAIN_MLP:
        return False
    activation = str(config.get("hidden_act", config.get("hidden_activation", ""))).lower()
    if family in _GATED_MLP or activation in _GATED_ACTIVATIONS:
        return True
    raise UsageError(
        f"model type {family!r}: cannot tell whether the feed-forward layers are gated", hint=_HINT
    )


def _windows(config: Mapping[str, Any], family: str, layers: int) -> int | tuple[int, ...]:
    window = _optional(config, ("sliding_window",))
    if config.get("use_sliding_window") is False:
        window = 0
    kinds = config.get("layer_types")
    if isinstance(kinds, list) and family not in HYBRIDS:
        unknown = {str(kind) for kind in kinds} - _SLIDING - {"full_attention"}
        if unknown or len(kinds) != layers:
            raise UsageError(
                f"model configuration: layer_types holds {len(kinds)} layers, kinds not known: "
                f"{sorted(unknown)}",
                hint=_HINT,
            )
        return tuple(window if kind in _SLIDING else 0 for kind in kinds)
    return _windows_by_family(config, family, layers, window) if window else 0


def _windows_by_family(
    config: Mapping[str, Any], family: str, layers: int, window: int
) -> int | tuple[int, ...]:
    if family in {"gpt_oss", "gemma2"}:
        return tuple(window if layer % 2 == 0 else 0 for layer in range(layers))
    period = _optional(config, ("sliding_window_pattern",))
    if family == "gemma3_text" or period:
        return tuple(window if (layer + 1) % (period or 6) else 0 for layer in range(layers))
    if family.startswith(("qwen2", "qwen3")):
        first = _optional(config, ("max_window_layers",))
        return tuple(window if layer >= first else 0 for layer in range(layers))
    return window


def _experts(config: Mapping[str, Any], family: str, layers: int) -> dict[str, int]:
    experts = _optional(config, _EXPERTS)
    if experts <= 1:
        return {}
    shares_width = family in {"mixtral", "gpt_oss", "olmoe", "jamba", "granitemoehybrid"}
    width = _optional(config, ("moe_intermediate_size",))
    if not width:
        if not shares_width:
            raise UsageError("model configuration: 'moe_intermediate_size' is missing", hint=_HINT)
        width = _required(config, _FFN)
    shared = _optional(config, ("shared_expert_intermediate_size",))
    return {
        "experts": experts,
        "experts_per_token": _required(config, _TOP_K),
        "ffn_expert": width,
        "ffn_shared": shared or _optional(config, ("n_shared_experts",)) * width,
        "dense_layers": _dense_layers(config, layers),
    }


def _dense_layers(config: Mapping[str, Any], layers: int) -> int:
    leading = _optional(config, ("first_k_dense_replace",))
    every = _optional(config, ("decoder_sparse_step", "moe_layer_freq")) or 1
    named = config.get("mlp_only_layers") or ()
    dense = {layer for layer in named if isinstance(layer, int) and 0 <= layer < layers}
    dense |= set(range(min(leading, layers)))
    if "decoder_sparse_step" in config:
        dense |= {layer for layer in range(layers) if (layer + 1) % every}
    else:
        dense |= {layer for layer in range(layers) if layer % every}
    return len(dense)
