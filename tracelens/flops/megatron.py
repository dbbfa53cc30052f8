"""What model and job do Megatron's arguments describe?

They come as a command line (``--num-layers 32``), as the list that Megatron prints when it starts
(``num_layers ....... 32``), or as the configuration that Megatron-Bridge and NeMo print
(``num_layers: 32``). What a text says of anything else is passed over.
"""

import re
from collections.abc import Mapping
from typing import Any

from tracelens.errors import UsageError
from tracelens.flops.models import ModelShape, layers_of_pattern

Arguments = Mapping[str, str]

_HINT = "give --model with a preset name or a config.json"
_PRINTED = re.compile(r"^\s*(?:\S{1,60}[:\]]\s*)?([a-z][a-z0-9_]{2,60}) \.{2,60} ?(.{0,2000})$")
_CONFIGURED = re.compile(r"^\s*([a-z][a-z0-9_]{2,60}): +(\S.{0,2000})$")
_OPTION = re.compile(r"^--([a-z][a-z0-9-]{2,60})(?:=(.*))?$")
_MOST_LINES = 200_000
_LONGEST_COMMAND = 100_000
_REPEATED = re.compile(r"\[([01, ]{1,2000})\](?:\*(\d{1,4}))?")
_NAMES = {
    "num_layers", "hidden_size", "ffn_hidden_size", "num_attention_heads", "num_query_groups",
    "group_query_attention", "kv_channels", "swiglu", "gated_linear_unit", "padded_vocab_size",
    "vocab_size", "untie_embeddings_and_output_weights", "share_embeddings_and_output_weights",
    "num_experts", "num_moe_experts", "moe_router_topk", "moe_ffn_hidden_size", "moe_layer_freq",
    "moe_shared_expert_intermediate_size", "moe_latent_size", "multi_latent_attention",
    "q_lora_rank", "kv_lora_rank", "qk_head_dim", "qk_pos_emb_head_dim", "v_head_dim",
    "mtp_num_layers", "hybrid_override_pattern", "hybrid_layer_pattern", "mamba_state_dim",
    "mamba_head_dim", "mamba_num_groups", "mamba_num_heads", "window_size",
    "window_attn_skip_freq", "add_bias_linear", "disable_bias_linear", "add_qkv_bias",
    "qk_layernorm", "position_embedding_type", "max_position_embeddings", "seq_length",
    "global_batch_size", "micro_batch_size", "world_size", "tensor_model_parallel_size",
    "pipeline_model_parallel_size", "context_parallel_size", "expert_model_parallel_size",
    "virtual_pipeline_model_parallel_size", "data_parallel_size", "activation_func",
    "seq_len",
}  # fmt: skip
_MESH = {
    "tp": "tensor_model_parallel_size",
    "pp": "pipeline_model_parallel_size",
    "cp": "context_parallel_size",
    "ep": "expert_model_parallel_size",
    "dp": "data_parallel_size",
}


def read_arguments(text: str) -> dict[str, str]:
    """Return the arguments that a text names, with dashes as underscores; the last one wins."""
    found: dict[str, str] = {}
    for line in text.splitlines()[:_MOST_LINES]:
        if "--" in line and len(line) < _LONGEST_COMMAND:
            found |= _of_command_line(line)
        match = _PRINTED.match(line) or _CONFIGURED.match(line)
        if match and match[1] in _NAMES:
            found[match[1]] = match[2].strip().strip("'\"")
    return found


def _of_command_line(line: str) -> dict[str, str]:
    found = {}
    words = line.replace("\\", " ").split()
    for at, word in enumerate(words):
        match = _OPTION.match(word)
        if match is None or match[1].replace("-", "_") not in _NAMES:
            continue
        follower = words[at + 1] if at + 1 < len(words) else ""
        value = match[2] if match[2] is not None else follower
        found[match[1].replace("-", "_")] = "true" if value.startswith("--") else value or "true"
    return found


def shape_of_arguments(arguments: Arguments) -> ModelShape:
    """Return the shape that the arguments describe.

    Raises:
        UsageError: naming the argument that is missing or not understood.
    """
    layers, heads = _required(arguments, "num_layers"), _required(arguments, "num_attention_heads")
    hidden = _required(arguments, "hidden_size")
    grouped = _flag(arguments, "group_query_attention", default="num_query_groups" in arguments)
    latent = _flag(arguments, "multi_latent_attention")
    gated = _flag(arguments, "swiglu") or _flag(arguments, "gated_linear_unit")
    learned = arguments.get("position_embedding_type", "learned_absolute") == "learned_absolute"
    # Bridge always prints gated_linear_unit and no position_embedding_type of its own
    is_bare = "position_embedding_type" not in arguments and "swiglu" not in arguments
    shape: dict[str, Any] = {
        "layers": layers,
        "hidden": hidden,
        "heads": heads,
        "kv_heads": _number(arguments, "num_query_groups") if grouped else heads,
        "head_dim": 0 if latent else _number(arguments, "kv_channels"),
        "ffn": _number(arguments, "ffn_hidden_size") or _default_ffn(hidden, gated=gated),
        "glu": gated,
        "vocab": _number(arguments, "padded_vocab_size") or _required(arguments, "vocab_size"),
        "tied_embeddings": _is_tied(arguments),
        "biases": _has_biases(arguments),
        "qkv_biases": _flag(arguments, "add_qkv_bias"),
        "qk_norm": _flag(arguments, "qk_layernorm") and not latent,
        "positions": _number(arguments, "max_position_embeddings")
        if learned and not is_bare
        else 0,
        "mtp_layers": _number(arguments, "mtp_num_layers"),
        "sliding_window": _windows(arguments, layers),
        "activation": arguments.get("activation_func", ""),
    }
    if latent:
        shape |= {
            "q_lora_rank": _number(arguments, "q_lora_rank"),
            "kv_lora_rank": _required(arguments, "kv_lora_rank"),
            "qk_nope_head_dim": _required(arguments, "qk_head_dim"),
            "qk_rope_head_dim": _required(arguments, "qk_pos_emb_head_dim"),
            "v_head_dim": _required(arguments, "v_head_dim"),
        }
    shape |= _experts(arguments, layers, shape["ffn"]) | _state_space(arguments, hidden)
    return ModelShape.from_mapping(shape)


def job_of_arguments(arguments: Arguments) -> dict[str, Any]:
    """Return what the arguments say of the job: batch, sequence length, world and mesh."""
    mesh = {name: _number(arguments, key) for name, key in _MESH.items()}
    job: dict[str, Any] = {
        "seq_len": _number(arguments, "seq_length") or _number(arguments, "seq_len"),
        "global_batch_size": _number(arguments, "global_batch_size"),
        "micro_batch_size": _number(arguments, "micro_batch_size"),
        "world_size": _number(arguments, "world_size"),
        "mesh": {name: size for name, size in mesh.items() if size},
    }
    return {name: value for name, value in job.items() if value}


def _experts(arguments: Arguments, layers: int, ffn: int) -> dict[str, Any]:
    experts = _number(arguments, "num_experts") or _number(arguments, "num_moe_experts")
    if not experts:
        return {}
    return {
        "experts": experts,
        "experts_per_token": _number(arguments, "moe_router_topk") or 2,
        "ffn_expert": _number(arguments, "moe_ffn_hidden_size") or ffn,
        "ffn_shared": _number(arguments, "moe_shared_expert_intermediate_size"),
        "ffn_latent": _number(arguments, "moe_latent_size"),
        "feeds": _moe_layers(arguments.get("moe_layer_freq", "1"), layers),
    }


def _moe_layers(text: str, layers: int) -> tuple[str, ...]:
    """``2`` means every second layer; ``([0]*3+[1]*58)`` says it for each; never evaluated."""
    if text.isdecimal() and len(text) < 6 and int(text):
        chosen = [int(layer % int(text) == 0) for layer in range(min(layers, 10_000))]
    else:
        chosen = []
        for items, times in _REPEATED.findall(text.replace(" ", "")):
            chosen += [int(item) for item in items.split(",") if item] * int(times or 1)
            if len(chosen) > 10_000:
                break
    if len(chosen) != layers:
        raise UsageError(f"moe_layer_freq {text!r} does not name {layers} layers", hint=_HINT)
    return tuple("moe" if item else "dense" for item in chosen)


def _state_space(arguments: Arguments, hidden: int) -> dict[str, Any]:
    pattern = arguments.get("hybrid_layer_pattern") or arguments.get("hybrid_override_pattern", "")
    if pattern.lower() in {"", "none", "null"}:
        return {}
    head = _number(arguments, "mamba_head_dim") or 64
    heads = _number(arguments, "mamba_num_heads") or 2 * hidden // head
    return {
        **layers_of_pattern(pattern),
        "ssm_inner": heads * head,
        "ssm_heads": heads,
        "ssm_groups": _number(arguments, "mamba_num_groups") or 8,
        "ssm_state": _number(arguments, "mamba_state_dim") or 128,
    }


def _windows(arguments: Arguments, layers: int) -> Any:
    numbers = re.findall(r"-?\d{1,12}", arguments.get("window_size", ""))
    if not numbers or int(numbers[0]) <= 0:
        return 0
    window, skip = int(numbers[0]) + 1, arguments.get("window_attn_skip_freq", "")
    if skip.isdecimal() and len(skip) < 6 and int(skip) > 1:  # every n-th layer sees everything
        return tuple(window if (at + 1) % int(skip) else 0 for at in range(min(layers, 10_000)))
    return window


def _is_tied(arguments: Arguments) -> bool:
    if "share_embeddings_and_output_weights" in arguments:
        return _flag(arguments, "share_embeddings_and_output_weights")
    return not _flag(arguments, "untie_embeddings_and_output_weights")


def _has_biases(arguments: Arguments) -> bool:
    if _flag(arguments, "disable_bias_linear"):
        return False
    return _flag(arguments, "add_bias_linear", default="add_bias_linear" not in arguments)


def _default_ffn(hidden: int, *, gated: bool) -> int:
    """Megatron's own default: 4 h, or two thirds of it rounded to 64 when gated."""
    return int(4 * hidden * 2 / 3) // 64 * 64 if gated else 4 * hidden


def _flag(arguments: Arguments, name: str, *, default: bool = False) -> bool:
    text = arguments.get(name, "").lower()
    return default if text not in {"true", "false"} else text == "true"


def _number(arguments: Arguments, name: str) -> int:
    text = arguments.get(name, "")
    digits = text.replace("_", "").replace(",", "")
    return int(digits) if digits.isascii() and digits.isdecimal() and len(digits) < 16 else 0


def _required(arguments: Arguments, name: str) -> int:
    value = _number(arguments, name)
    if not value:
        raise UsageError(f"Megatron arguments: {name!r} is missing", hint=_HINT)
    return value
