"""What shape does a hybrid Hugging Face configuration describe: state space, linear attention?

Each family names its layers in its own way; here they all become mixers and feeds, one a layer.
"""

from collections.abc import Callable, Mapping
from typing import Any

from tracelens.errors import UsageError
from tracelens.flops.models import layers_of_pattern

Config = Mapping[str, Any]
Fields = dict[str, Any]
Number = Callable[..., int]

_HINT = "give the layers as a list instead, or --model-flops-per-step"


def hybrid_fields(config: Config, family: str, number: Number) -> Fields:
    """Return the fields that the layers of a hybrid family add to the shape.

    Args:
        config: the configuration.
        family: its ``model_type``.
        number: reads a whole number under the first of several keys; 0 where there is none.

    Raises:
        UsageError: if the layers are not described as the family does it.
    """
    return HYBRIDS[family](config, number)


def _mamba(config: Config, number: Number) -> Fields:
    layers, hidden = _layers(number), number("hidden_size", "d_model")
    rank = config.get("time_step_rank")
    return {
        "mixers": ("mamba",) * layers,
        "feeds": ("none",) * layers,
        "ssm_inner": number("intermediate_size") or (number("expand") or 2) * hidden,
        "ssm_state": number("state_size") or 16,
        "ssm_conv": number("conv_kernel") or 4,
        "ssm_rank": rank if isinstance(rank, int) else -(-hidden // 16),
    }


def _mamba2(_config: Config, number: Number) -> Fields:
    layers, hidden = _layers(number), number("hidden_size")
    inner = (number("expand") or 2) * hidden
    return {
        "mixers": ("mamba2",) * layers,
        "feeds": ("none",) * layers,
        "ssm_inner": inner,
        "ssm_heads": number("num_heads") or inner // (number("head_dim") or 64),
        "ssm_groups": number("n_groups") or 1,
        "ssm_state": number("state_size") or 128,
        "ssm_conv": number("conv_kernel") or 4,
    }


def _nemotron(config: Config, number: Number) -> Fields:
    heads = number("mamba_num_heads")
    return {
        **layers_of_pattern(config.get("hybrid_override_pattern") or ""),
        "glu": False,
        "ffn_latent": number("moe_latent_size"),
        "ffn_shared": number("moe_shared_expert_intermediate_size"),
        "ssm_inner": heads * number("mamba_head_dim"),
        "ssm_heads": heads,
        "ssm_groups": number("n_groups", "mamba_n_groups"),
        "ssm_state": number("ssm_state_size"),
        "ssm_conv": number("conv_kernel") or 4,
    }


def _jamba(_config: Config, number: Number) -> Fields:
    layers, hidden = _layers(number), number("hidden_size")
    attention = _every(number, "attn_layer", layers)
    experts = _every(number, "expert_layer", layers)
    return {
        "mixers": tuple("attention" if chosen else "mamba" for chosen in attention),
        "feeds": tuple("moe" if chosen else "dense" for chosen in experts),
        "ssm_inner": (number("mamba_expand") or 2) * hidden,
        "ssm_state": number("mamba_d_state"),
        "ssm_conv": number("mamba_d_conv") or 4,
        "ssm_rank": number("mamba_dt_rank") or -(-hidden // 16),
    }


def _every(number: Number, name: str, layers: int) -> list[bool]:
    period, offset = number(f"{name}_period") or 1, number(f"{name}_offset")
    return [layer % period == offset for layer in range(layers)]


def _bamba(config: Config, number: Number) -> Fields:
    layers = _layers(number)
    indices = config.get("attn_layer_indices") or ()
    heads = number("mamba_n_heads")
    return {
        "mixers": tuple("attention" if at in indices else "mamba2" for at in range(layers)),
        "feeds": ("dense",) * layers,
        **_granite_state_space(number, heads),
    }


def _granite(config: Config, number: Number) -> Fields:
    names = {"attention": "attention", "mamba": "mamba2"}
    kinds = _layer_types(config, _layers(number), names)
    experts = bool(number("num_local_experts"))
    return {
        "mixers": kinds,
        "feeds": ("moe" if experts else "dense",) * len(kinds),
        "ffn": number("shared_intermediate_size") or number("intermediate_size"),
        "ffn_shared": number("shared_intermediate_size") if experts else 0,
        **_granite_state_space(number, number("mamba_n_heads")),
    }


def _granite_state_space(number: Number, heads: int) -> Fields:
    head = number("mamba_d_head")
    inner = heads * head if head else (number("mamba_expand") or 2) * number("hidden_size")
    return {
        "ssm_inner": inner,
        "ssm_heads": heads,
        "ssm_groups": number("mamba_n_groups") or 1,
        "ssm_state": number("mamba_d_state"),
        "ssm_conv": number("mamba_d_conv") or 4,
    }


def _qwen_next(config: Config, number: Number) -> Fields:
    layers = _layers(number)
    interval = number("full_attention_interval") or 4
    kinds = tuple("delta" if (at + 1) % interval else "attention" for at in range(layers))
    if config.get("layer_types"):
        names = {"full_attention": "attention", "linear_attention": "delta"}
        kinds = _layer_types(config, layers, names)
    return {
        "mixers": kinds,
        "query_gate": True,
        "delta_key_heads": number("linear_num_key_heads"),
        "delta_value_heads": number("linear_num_value_heads"),
        "delta_key_dim": number("linear_key_head_dim"),
        "delta_value_dim": number("linear_value_head_dim"),
        "delta_conv": number("linear_conv_kernel_dim") or 4,
    }


def _layer_types(config: Config, layers: int, names: Mapping[str, str]) -> tuple[str, ...]:
    kinds = config.get("layer_types")
    kinds = kinds if isinstance(kinds, list) else []
    unknown = {str(kind) for kind in kinds} - set(names)
    if unknown or len(kinds) != layers:
        raise UsageError(
            f"model configuration: layer_types holds {len(kinds)} layers, kinds not known: "
            f"{sorted(unknown)}",
            hint=_HINT,
        )
    return tuple(names[kind] for kind in kinds)


def _layers(number: Number) -> int:
    return min(number("num_hidden_layers", "n_layer"), 10_000)


HYBRIDS: dict[str, Callable[[Config, Number], Fields]] = {
    "mamba": _mamba,
    "falcon_mamba": _mamba,
    "mamba2": _mamba2,
    "nemotron_h": _nemotron,
    "jamba": _jamba,
    "bamba": _bamba,
    "granitemoehybrid": _granite,
    "qwen3_next": _qwen_next,
}
"""Families by ``model_type``."""
