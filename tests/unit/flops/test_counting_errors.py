"""Counting errors that public tools made, each with what this one says instead."""

from dataclasses import replace
from typing import Any

import pytest

from tracelens.flops import assign_flops, flops_per_token, load_model, peak_flop_per_s
from tracelens.flops.counting import flops_by_part, stage_fractions
from tracelens.flops.models import ModelShape
from tracelens.flops.shapes import op_flop


def _shape(name: str) -> ModelShape:
    found = load_model(name)
    assert isinstance(found, ModelShape)
    return found


def test_1_inner_width_of_state_space_layers_is_the_models_own() -> None:
    own = flops_per_token("Nemotron-3-Nano", seq_len=8192)
    twice_hidden = flops_per_token("Nemotron-3-Nano", seq_len=8192, convention="megatron")
    assert own / 1e9 == pytest.approx(20.82, abs=0.01)
    assert twice_hidden / 1e9 == pytest.approx(22.28, abs=0.01)


def test_2_gated_layers_have_three_matrices_whatever_the_activation() -> None:
    right = flops_per_token("GPT-OSS-120B", seq_len=4096, convention="megatron")
    wrong = flops_per_token("GPT-OSS-120B", seq_len=4096, convention="bridge-2025")
    assert (round(right / 1e9, 1), round(wrong / 1e9, 1)) == (32.6, 27.2)
    shape = _shape("GPT-OSS-120B")
    for activation in ("silu", "gelu", "quick_gelu"):
        same = replace(shape, activation=activation)
        assert flops_per_token(same, seq_len=4096) == flops_per_token(shape, seq_len=4096)


def test_3_virtual_chunks_do_not_count_tokens_again() -> None:
    plain = [list(range(16)), list(range(16, 32))]
    chunked = [[*range(8), *range(16, 24)], [*range(8, 16), *range(24, 32)]]
    shares = [
        stage_fractions("Llama-3-8B", seq_len=8192, layers_of_stage=layers, convention="causal")
        for layers in (plain, chunked)
    ]
    assert [sum(share) for share in shares] == pytest.approx([1, 1], abs=1e-15)
    assert shares[0] == pytest.approx(shares[1], rel=1e-12)


def test_4_latent_attention_is_as_wide_as_its_heads() -> None:
    scores, values = (
        next(p for p in flops_by_part("DeepSeek-V3", seq_len=4096) if p.name == name)
        for name in ("scores", "values")
    )
    assert scores.forward_flop == 2 * 128 * 192 * (4096 + 1) / 2
    assert values.forward_flop == 2 * 128 * 128 * (4096 + 1) / 2


def test_5_only_active_experts_count() -> None:
    causal, everything = (
        flops_per_token("DeepSeek-V3", seq_len=4096, convention=name)
        for name in ("causal", "hf-trainer")
    )
    assert everything / causal == pytest.approx(16.05, abs=0.01)


def test_6_backward_attention_needs_four_products() -> None:
    dims = [[2, 16, 128, 64]] * 4
    record = ("aten::_scaled_dot_product_flash_attention_backward", [dims[0], *dims, [2, 16, 128]])
    concrete = [""] * 11 + ["False"]
    found = op_flop(record[0], [*record[1], [], [], [], [], [], []], None, concrete)
    assert found is not None
    pairs = 2 * 16 * 128 * 128 * 64
    assert (found.model_flop, found.executed_flop) == (4 * 2 * pairs, 5 * 2 * pairs)
    flash, full = (
        flops_per_token("Llama-3-8B", seq_len=8192, convention=name)
        for name in ("flopcounter-flash", "full")
    )
    assert flash / full == pytest.approx(1.0371, abs=1e-4)


def test_7_a_parent_and_its_child_count_once(run: Any) -> None:
    run.gpu()
    dims = {"input_dims": [[4, 8], [16, 8]]}
    run.op("aten::linear", 0, 10, **dims)
    inner = run.op("aten::addmm", 1, 9, input_dims=[[16], [4, 8], [8, 16]])
    for start in (20, 30):  # split-K: two kernels of one operator
        run.kernel("gemm", start, start + 5, op=inner)
    store = run.done()
    assign_flops(store)
    assert store.scalar("SELECT sum(executed_flop) FROM raw.activity_flop") == 2 * 4 * 8 * 16


def test_8_a_multiply_add_is_two_flop() -> None:
    found = op_flop("aten::mm", [[3, 5], [5, 7]])
    assert found is not None
    assert found.model_flop == 2 * 3 * 5 * 7


def test_9_cores_without_weights_have_a_backward_pass() -> None:
    shape = ModelShape(
        layers=1,
        hidden=8,
        heads=0,
        ffn=0,
        vocab=10,
        mixers=("delta",),
        feeds=("none",),
        delta_key_heads=2,
        delta_value_heads=2,
        delta_key_dim=4,
        delta_value_dim=4,
    )
    scan = next(part for part in flops_by_part(shape, seq_len=4) if part.name == "scan")
    assert scan.forward_flop == 2 * (4 * 24 + 4 * 2 * 16)
    assert scan.flop == 3 * scan.forward_flop


@pytest.mark.parametrize(
    ("name", "tera"),
    [("NVIDIA L40S", 362.05), ("NVIDIA L4", 121), ("NVIDIA H200", 989.4), ("NVIDIA H20", 148)],
)
def test_10_the_peak_is_that_of_the_device(name: str, tera: float) -> None:
    found = peak_flop_per_s(name, dtype="bf16")
    assert found is not None
    assert found / 1e12 == pytest.approx(tera, rel=5e-3)


def test_10_an_unknown_device_has_no_peak() -> None:
    assert peak_flop_per_s("NVIDIA X999", dtype="bf16") is None


@pytest.mark.parametrize(("dtype", "factor"), [("c10::Float4_e2m1fn_x2", 4), ("c10::BFloat16", 2)])
def test_11_packed_operands_hold_two_values(dtype: str, factor: int) -> None:
    found = op_flop("aten::_scaled_mm", [[16, 32], [32, 8]], [dtype, dtype])
    assert found is not None
    assert found.model_flop == factor * 16 * 32 * 8
