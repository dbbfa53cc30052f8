import json
from pathlib import Path
from typing import Any

import pytest

from tracelens.errors import InputError, UsageError
from tracelens.flops import flops_per_token, load_model
from tracelens.flops.models import ModelShape
from tracelens.flops.presets import preset_names

PUBLISHED_TOTALS = {
    "GPT-2": 124_439_808,
    "GPT-2-medium": 354_823_168,
    "GPT-2-large": 774_030_080,
    "GPT-2-XL": 1_557_611_200,
    "Llama-3.2-1B": 1_235_814_400,
    "Llama-3.2-3B": 3_212_749_824,
    "Mistral-7B": 7_241_732_096,
    "Qwen2.5-7B": 7_615_616_512,
    "Qwen3-8B": 8_190_735_360,
    "Llama-3-8B": 8_030_261_248,
    "DeepSeek-V3": 671_026_404_352,
    "DeepSeek-V2": 235_741_434_880,
    "DeepSeek-V2-Lite": 15_706_484_224,
    "Qwen3-0.6B": 596_049_920,
    "Qwen3-1.7B": 1_720_574_976,
    "Qwen3-4B": 4_022_468_096,
    "Qwen3-14B": 14_768_307_200,
    "Qwen3-32B": 32_762_123_264,
    "Mamba-2.8B": 2_768_345_600,
    "Mamba2-2.7B": 2_702_599_680,
    "Nemotron-3-Nano": 31_577_937_344,
}

LLAMA_3_8B: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "vocab_size": 128256,
}
CONFIGS: dict[str, dict[str, Any]] = {
    "Llama-3-8B": LLAMA_3_8B,
    "Mixtral-8x7B": {
        "model_type": "mixtral",
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_attention_heads": 32,
        "num_hidden_layers": 32,
        "num_key_value_heads": 8,
        "num_local_experts": 8,
        "num_experts_per_tok": 2,
        "sliding_window": None,
        "tie_word_embeddings": False,
        "vocab_size": 32000,
    },
    "GPT-2": {
        "model_type": "gpt2",
        "n_embd": 768,
        "n_head": 12,
        "n_layer": 12,
        "n_positions": 1024,
        "vocab_size": 50257,
        "activation_function": "gelu_new",
    },
    "DeepSeek-V3": {
        "model_type": "deepseek_v3",
        "first_k_dense_replace": 3,
        "hidden_size": 7168,
        "intermediate_size": 18432,
        "kv_lora_rank": 512,
        "moe_intermediate_size": 2048,
        "moe_layer_freq": 1,
        "n_routed_experts": 256,
        "n_shared_experts": 1,
        "num_attention_heads": 128,
        "num_experts_per_tok": 8,
        "num_hidden_layers": 61,
        "num_key_value_heads": 128,
        "num_nextn_predict_layers": 1,
        "q_lora_rank": 1536,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "tie_word_embeddings": False,
        "v_head_dim": 128,
        "vocab_size": 129280,
    },
    "Qwen3-30B-A3B": {
        "model_type": "qwen3_moe",
        "decoder_sparse_step": 1,
        "head_dim": 128,
        "hidden_size": 2048,
        "intermediate_size": 6144,
        "mlp_only_layers": [],
        "moe_intermediate_size": 768,
        "num_attention_heads": 32,
        "num_experts": 128,
        "num_experts_per_tok": 8,
        "num_hidden_layers": 48,
        "num_key_value_heads": 4,
        "sliding_window": None,
        "tie_word_embeddings": False,
        "use_sliding_window": False,
        "vocab_size": 151936,
    },
    "Qwen2.5-7B": {
        "model_type": "qwen2",
        "hidden_size": 3584,
        "intermediate_size": 18944,
        "max_window_layers": 28,
        "num_attention_heads": 28,
        "num_hidden_layers": 28,
        "num_key_value_heads": 4,
        "sliding_window": 131072,
        "tie_word_embeddings": False,
        "use_sliding_window": False,
        "vocab_size": 152064,
    },
}


def test_parameter_counts_equal_the_published_ones(shared: Path) -> None:
    models = json.loads((shared / "data" / "models.json").read_text())
    assert len(models) == 14
    for name, entry in models.items():
        shape = load_model(name)
        assert {
            "total": shape.params_total,
            "active": shape.params_active,
            "nonemb_active": shape.params_nonemb_active,
            "mm": shape.params_mm,
        } == entry["params"], name


@pytest.mark.parametrize(("name", "total"), PUBLISHED_TOTALS.items())
def test_totals_of_presets(name: str, total: int) -> None:
    assert load_model(name).params_total == total


def test_every_preset_loads() -> None:
    assert len(preset_names()) == 34
    for name in preset_names():
        assert load_model(name).params_active > 0


@pytest.mark.parametrize(
    "spelling",
    ["llama3-8b", "LLAMA_3_8B", "meta-llama/Meta-Llama-3-8B-Instruct", "llama-3.1-8b", "llama38b"],
)
def test_names_compare_as_letters_and_digits(spelling: str) -> None:
    assert load_model(spelling) == load_model("Llama-3-8B")


def test_unknown_name_lists_near_ones() -> None:
    with pytest.raises(UsageError, match="unknown model 'llama3-9b'") as error:
        load_model("llama3-9b")
    assert "Llama-3-8B" in error.value.hint


@pytest.mark.parametrize("name", CONFIGS)
def test_hugging_face_configurations(name: str, tmp_path: Path) -> None:
    expected = load_model(name)
    shape = load_model(CONFIGS[name])
    assert shape.params_total == expected.params_total
    assert shape.params_active == expected.params_active
    assert shape.params_mm == expected.params_mm
    assert shape.sliding_window == expected.sliding_window == 0
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIGS[name]))
    assert load_model(path) == load_model(str(path)) == load_model(tmp_path) == shape


def test_windows_of_alternating_layers() -> None:
    config = LLAMA_3_8B | {
        "model_type": "gpt_oss",
        "num_hidden_layers": 4,
        "num_local_experts": 128,
        "num_experts_per_tok": 4,
        "sliding_window": 128,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
    }
    shape = load_model(config)
    assert shape.sliding_window == (128, 0, 128, 0)
    assert (shape.experts, shape.ffn_expert, shape.moe_layers) == (128, 14336, 4)


def test_one_head_of_keys_in_falcon() -> None:
    falcon = {
        "model_type": "falcon",
        "hidden_size": 4544,
        "num_attention_heads": 71,
        "num_hidden_layers": 32,
        "num_kv_heads": 71,
        "multi_query": True,
        "new_decoder_architecture": False,
        "vocab_size": 65024,
    }
    shape = load_model(falcon)
    assert (shape.kv_heads, shape.glu, shape.ffn) == (1, False, 4 * 4544)
    grouped = load_model(falcon | {"new_decoder_architecture": True, "num_kv_heads": 8})
    assert grouped.kv_heads == 8


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"vocab_size": None}, "'vocab_size' is missing"),
        ({"intermediate_size": None}, "'intermediate_size' is missing"),
        ({"num_attention_heads": "32"}, "'num_attention_heads' must be a whole number"),
        ({"model_type": "t5", "is_encoder_decoder": True}, "not a known decoder"),
        ({"model_type": "bert", "architectures": ["BertModel"]}, "'bert' is not a known decoder"),
        ({"vision_config": {"depth": 1}}, "'vision_config' is not a plain decoder"),
        ({"hybrid_override_pattern": "M-M*"}, "'hybrid_override_pattern' is not a plain"),
        ({"layer_types": ["linear_attention"] * 32}, "linear_attention"),
        ({"num_experts": 8, "num_experts_per_tok": 2}, "'moe_intermediate_size' is missing"),
        ({"model_type": "new", "hidden_act": "gelu"}, "cannot tell whether"),
        ({"hidden_size": 10**15}, "hidden is out of range"),
    ],
)
def test_what_is_not_understood_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        load_model(LLAMA_3_8B | change)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"hidden": 8}, "field 'layers' is missing"),
        ({"layer": 2}, "unknown field 'layer'"),
        ({"hidden": float("nan")}, "hidden must be a whole number"),
        ({"hidden": float("inf")}, "hidden must be a whole number"),
        ({"hidden": "8"}, "hidden must be a whole number"),
        ({"layers": 0}, "layers must be at least 1"),
        ({"experts": 4}, "experts need experts_per_token and ffn_expert"),
        ({"sliding_window": [1, 2, 3]}, "sliding_window needs one value"),
        ({"heads": 3}, "hidden is no multiple of heads"),
    ],
)
def test_fields_that_make_no_shape(values: dict[str, Any], message: str) -> None:
    base = {"layers": 2, "hidden": 8, "heads": 2, "ffn": 16, "vocab": 10}
    given = values if set(values) == {"hidden"} and values["hidden"] == 8 else base | values
    with pytest.raises(UsageError, match=message):
        ModelShape.from_mapping(given)


@pytest.mark.parametrize("content", ["", "[1]", "{", "[" * 100_000])
def test_files_that_are_no_configuration(content: str, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(content)
    with pytest.raises(InputError, match=r"config\.json: not"):
        load_model(path)


def test_missing_file_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        load_model(str(tmp_path / "config.json"))


# --- families beyond the plain decoder ---------------------------------------------------------

GEMMA_2_9B = {
    "model_type": "gemma2",
    "num_hidden_layers": 42,
    "hidden_size": 3584,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 256,
    "intermediate_size": 14336,
    "vocab_size": 256000,
    "hidden_activation": "gelu_pytorch_tanh",
    "sliding_window": 4096,
}
JAMBA = {
    "model_type": "jamba",
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 65536,
    "num_experts": 16,
    "num_experts_per_tok": 2,
    "attn_layer_period": 8,
    "attn_layer_offset": 4,
    "expert_layer_period": 2,
    "expert_layer_offset": 1,
    "mamba_d_state": 16,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
    "mamba_dt_rank": 256,
    "tie_word_embeddings": False,
    "hidden_act": "silu",
}
NANO = {
    "model_type": "nemotron_h",
    "num_hidden_layers": 52,
    "hidden_size": 2688,
    "num_attention_heads": 32,
    "num_key_value_heads": 2,
    "head_dim": 128,
    "intermediate_size": 1856,
    "moe_intermediate_size": 1856,
    "moe_shared_expert_intermediate_size": 3712,
    "n_routed_experts": 128,
    "num_experts_per_tok": 6,
    "vocab_size": 131072,
    "mamba_num_heads": 64,
    "mamba_head_dim": 64,
    "ssm_state_size": 128,
    "n_groups": 8,
    "mlp_hidden_act": "relu2",
    "hybrid_override_pattern": "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME",
}
QWEN_NEXT = {
    "model_type": "qwen3_next",
    "num_hidden_layers": 48,
    "hidden_size": 2048,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "head_dim": 256,
    "intermediate_size": 5120,
    "moe_intermediate_size": 512,
    "shared_expert_intermediate_size": 512,
    "num_experts": 512,
    "num_experts_per_tok": 10,
    "vocab_size": 151936,
    "tie_word_embeddings": False,
    "full_attention_interval": 4,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
    "hidden_act": "silu",
}
MAMBA = {
    "model_type": "mamba",
    "num_hidden_layers": 64,
    "hidden_size": 2560,
    "intermediate_size": 5120,
    "state_size": 16,
    "conv_kernel": 4,
    "time_step_rank": 160,
    "vocab_size": 50280,
}


def test_gemma_2_alternates_windows_and_has_its_published_size() -> None:
    shape = load_model(GEMMA_2_9B)
    assert shape.params_total == 9_241_705_984
    assert shape.sliding_window == (4096, 0) * 21


def test_jamba_lacks_only_the_norms_inside_its_mamba_layers() -> None:
    shape = load_model(JAMBA)
    assert 51_570_323_328 - shape.params_total == 28 * (256 + 2 * 16)
    assert [shape.mixers.count(kind) for kind in ("attention", "mamba")] == [4, 28]


def test_a_hybrid_configuration_equals_its_preset() -> None:
    assert load_model(NANO).params_total == load_model("Nemotron-3-Nano").params_total
    assert load_model(NANO).parts == load_model("Nemotron-3-Nano").parts
    assert load_model(MAMBA).parts == load_model("Mamba-2.8B").parts


def test_linear_attention_layers() -> None:
    shape = load_model(QWEN_NEXT)
    assert shape.mixers == ("delta", "delta", "delta", "attention") * 12
    assert round(shape.params_total / 1e9, 1) == 79.7


LAYERS: dict[str, Any] = {
    "layers": [
        {
            "repeat": 2,
            "linear": [[8, 32], [32, 8]],
            "attention": {"heads": 2, "qk_dim": 4, "causal": False},
        },
        {"linear": [[8, 8]], "flop_per_token": 100},
    ],
    "head": [8, 10],
}


def test_a_list_of_layers(tmp_path: Path) -> None:
    path = tmp_path / "layers.json"
    path.write_text(json.dumps(LAYERS))
    matrices = 2 * 2 * 8 * 32 + 8 * 8 + 8 * 10
    attention = 2 * 6 * (8 + 8) * 6  # a bidirectional query meets all six keys
    for model in (LAYERS, path, str(path)):
        assert flops_per_token(model, seq_len=6) == 6 * matrices + attention + 300
    assert load_model(LAYERS).params_total == matrices
    assert (
        flops_per_token(LAYERS, seq_len=6, convention="megatron")
        == 6 * (matrices + 8 * (128 - 10)) + attention + 300
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layers": []}, "'layers' must be a list"),
        ({"layers": [3]}, r"layers\[0\] must be an object"),
        ({"layers": [{"linear": [[8]]}]}, r"\[8\] must be \[in, out\]"),
        ({"layers": [{"repeat": 1e9}]}, "'repeat' must be a whole number"),
        ({"layers": [{"repeat": 20_000}]}, "'repeat' must be a whole number up to 10000"),
        ({"layers": [{"conv": 3}]}, "unknown field 'conv'"),
        ({"layers": [{"attention": {"heads": 2}}]}, "'qk_dim' is missing"),
        ({"depth": 3}, "unknown field 'depth'"),
    ],
)
def test_lists_that_are_not_understood(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        load_model(LAYERS | change)


def test_an_unknown_architecture_says_what_to_give_instead() -> None:
    with pytest.raises(UsageError, match="'bert' is not a known decoder") as error:
        load_model(LLAMA_3_8B | {"model_type": "bert", "architectures": ["BertModel"]})
    assert "--model-flops-per-step" in error.value.hint
    assert '"linear": [[1024, 4096]' in error.value.hint
