"""Megatron arguments and torchtitan configurations."""

from pathlib import Path

import pytest

from tracelens.errors import InputError, UsageError
from tracelens.flops import load_model
from tracelens.flops.megatron import job_of_arguments, read_arguments, shape_of_arguments
from tracelens.flops.torchtitan import job_of_torchtitan

LLAMA_COMMAND = """
torchrun --nproc_per_node 8 pretrain_gpt.py \\
    --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 \\
    --num-attention-heads 32 --group-query-attention --num-query-groups 8 \\
    --swiglu --disable-bias-linear --untie-embeddings-and-output-weights \\
    --position-embedding-type rope --normalization RMSNorm --vocab-size=128256 \\
    --seq-length 8192 --micro-batch-size 1 --global-batch-size 128 \\
    --tensor-model-parallel-size 2 --pipeline-model-parallel-size 4 --max-position-embeddings 8192
"""
DEEPSEEK_PRINTED = """
using world size: 256, data-parallel size: 16
------------------------ arguments ------------------------
  add_bias_linear ................................. False
  add_qkv_bias .................................... False
  expert_model_parallel_size ...................... 32
  ffn_hidden_size ................................. 18432
  global_batch_size ............................... 2048
  group_query_attention ........................... False
  hidden_size ..................................... 7168
  kv_channels ..................................... 128
  kv_lora_rank .................................... 512
  max_position_embeddings ......................... 4096
  moe_ffn_hidden_size ............................. 2048
  moe_layer_freq .................................. ([0]*3+[1]*58)
  moe_router_topk ................................. 8
  moe_shared_expert_intermediate_size ............. 2048
  mtp_num_layers .................................. 1
  multi_latent_attention .......................... True
  num_attention_heads ............................. 128
  num_experts ..................................... 256
  num_layers ...................................... 61
  num_query_groups ................................ 1
  padded_vocab_size ............................... 129280
  pipeline_model_parallel_size .................... 16
  position_embedding_type ......................... rope
  q_lora_rank ..................................... 1536
  qk_head_dim ..................................... 128
  qk_layernorm .................................... True
  qk_pos_emb_head_dim ............................. 64
  seq_length ...................................... 4096
  swiglu .......................................... True
  untie_embeddings_and_output_weights ............. True
  v_head_dim ...................................... 128
  world_size ...................................... 256
-------------------- end of arguments ---------------------
"""
GPT_BRIDGE = """
model:
  add_bias_linear: true
  ffn_hidden_size: 3072
  gated_linear_unit: false
  hidden_size: 768
  num_attention_heads: 12
  num_layers: 12
  num_query_groups: null
  position_embedding_type: learned_absolute
  max_position_embeddings: 1024
  share_embeddings_and_output_weights: true
  vocab_size: 50257
"""


@pytest.mark.parametrize(
    ("text", "preset"),
    [
        (LLAMA_COMMAND, "Llama-3-8B"),
        (DEEPSEEK_PRINTED, "DeepSeek-V3"),
        (GPT_BRIDGE, "GPT-2"),
    ],
)
def test_arguments_give_the_published_shape(text: str, preset: str, tmp_path: Path) -> None:
    path = tmp_path / "arguments.txt"
    path.write_text(text)
    shape = load_model(path)
    assert shape.parts == load_model(preset).parts
    assert shape.params_total == load_model(preset).params_total


def test_job_of_arguments() -> None:
    assert job_of_arguments(read_arguments(LLAMA_COMMAND)) == {
        "seq_len": 8192,
        "global_batch_size": 128,
        "micro_batch_size": 1,
        "mesh": {"tp": 2, "pp": 4},
    }
    assert job_of_arguments(read_arguments(DEEPSEEK_PRINTED)) == {
        "seq_len": 4096,
        "global_batch_size": 2048,
        "world_size": 256,
        "mesh": {"pp": 16, "ep": 32},
    }


def test_hybrid_arguments() -> None:
    text = """
  hidden_size ......... 2688
  hybrid_override_pattern .... MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME
  num_layers .......... 52
  num_attention_heads . 32
  num_attention_heads .. 32
  group_query_attention .. True
  num_query_groups .... 2
  kv_channels ......... 128
  ffn_hidden_size ..... 1856
  num_experts ......... 128
  moe_router_topk ..... 6
  moe_ffn_hidden_size .. 1856
  moe_shared_expert_intermediate_size .. 3712
  mamba_num_heads ..... 64
  mamba_head_dim ...... 64
  mamba_state_dim ..... 128
  mamba_num_groups .... 8
  padded_vocab_size ... 131072
  untie_embeddings_and_output_weights .. True
  add_bias_linear ..... False
  position_embedding_type .. none
"""
    assert shape_of_arguments(read_arguments(text)).parts == load_model("Nemotron-3-Nano").parts


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden_size": ""}, "'hidden_size' is missing"),
        ({"num_layers": "__import__('os')"}, "'num_layers' is missing"),
        ({"moe_layer_freq": "__import__('os')"}, "does not name 61 layers"),
        ({"moe_layer_freq": "[1]*9999+[0]*9999"}, "does not name 61 layers"),
        ({"num_layers": "9" * 15}, "does not name"),
    ],
)
def test_arguments_that_are_not_understood(change: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        shape_of_arguments(read_arguments(DEEPSEEK_PRINTED) | change)


def test_text_without_arguments_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("num_layers is what?\n" + "." * 100_000)
    with pytest.raises(InputError, match="not a model configuration") as error:
        load_model(path)
    assert "Megatron arguments" in error.value.hint


TITAN = """
[model]
name = "llama3"
flavor = "8B"
[training]
seq_len = 8192
local_batch_size = 2
global_batch_size = 64
[parallelism]
data_parallel_shard_degree = -1
tensor_parallel_degree = 2
"""


def test_torchtitan(tmp_path: Path) -> None:
    import tomllib

    path = tmp_path / "llama3_8b.toml"
    path.write_text(TITAN)
    assert load_model(path) == load_model("Llama-3-8B")
    assert job_of_torchtitan(tomllib.loads(TITAN)) == {
        "seq_len": 8192,
        "micro_batch_size": 2,
        "global_batch_size": 64,
        "mesh": {"tp": 2},
    }
    path.write_text(TITAN.replace("8B", "9B"))
    with pytest.raises(UsageError, match="torchtitan model llama3 9B is not known"):
        load_model(path)
    path.write_text("[model")
    with pytest.raises(InputError, match="not TOML"):
        load_model(path)
