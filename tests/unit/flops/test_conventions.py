import csv
from dataclasses import replace
from pathlib import Path

import pytest

from tracelens.errors import UsageError
from tracelens.flops import flops_per_token, flops_per_token_by_convention, load_model
from tracelens.flops.conventions import CONVENTIONS, find_convention
from tracelens.flops.counting import flops_by_part, stage_fractions
from tracelens.flops.models import ModelShape

LENGTHS = {
    "GPT-3 175B": 2048,
    "Llama-3-8B": 8192,
    "Llama-3-70B": 8192,
    "Mixtral-8x7B": 4096,
    "DeepSeek-V3": 4096,
}
ROW_OF = {
    "causal": "exact_causal",
    "full": "exact_full_square",
    "megatron": "megatron>=2025-03",
    "megatron-2024": "megatron<2025-03",
    "bridge-2025": "megatron>=2025-03",
    "nemo": "nemo>=2025-08",
    "nemo-2024": "nanotron",
    "maxtext-2024": "exact_full_square",
    "maxtext": "maxtext>=2025-07",
    "palm": "palm",
    "kaplan": "kaplan_6N",
    "6n-matmul": "",
    "6n": "6N_all_params",
    "hf-trainer": "hf_trainer",
    "nanogpt": "nanogpt",
    "nanochat": "nanochat",
    "picotron": "picotron",
    "llm-foundry": "llmfoundry_mfu",
    "llm-foundry-hfu": "llmfoundry_hfu(ckpt)",
    "torchtitan": "torchtitan",
    "olmo-core": "olmo_core",
    "nanotron": "nanotron",
    "levanter": "levanter",
    "korthikanti": "korthikanti_model",
    "korthikanti-hw": "korthikanti_hw(paper)",
    "selective-hw": "selective_physical",
    "sc21": "sc21(full recomp)",
    "flopcounter-flash": "torch_flopctr_flash",
}


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_every_convention_on_five_models(shared: Path) -> None:
    table = {row["convention"]: row for row in _rows(shared / "data" / "flops_conventions.csv")}
    assert set(ROW_OF) == set(CONVENTIONS)
    for convention, row in ROW_OF.items():
        if not row:
            continue
        for model, seq_len in LENGTHS.items():
            expected = float(table[row][f"{model}_GF_per_token"]) * 1e9
            found = flops_per_token(model, seq_len=seq_len, convention=convention)
            assert found == pytest.approx(expected, rel=1e-11), (convention, model)


def test_default_is_the_exact_causal_mask() -> None:
    shape = ModelShape(layers=1, hidden=4, heads=2, ffn=8, vocab=10, glu=False)
    matrices = 4 * 4 * 4 + 2 * 4 * 8 + 4 * 10
    pairs = 6 * 7 // 2
    attention = 6 * (2 + 2) * 2 * pairs / 6
    assert flops_per_token(shape, seq_len=6) == 6 * matrices + attention


def test_windows_are_exact() -> None:
    whole = ModelShape(layers=2, hidden=4, heads=1, ffn=8, vocab=10)
    sliding = ModelShape(layers=2, hidden=4, heads=1, ffn=8, vocab=10, sliding_window=(3, 0))
    pairs_full, pairs_window = 8 * 9 // 2, sum(min(position, 3) for position in range(1, 9))
    difference = flops_per_token(whole, seq_len=8) - flops_per_token(sliding, seq_len=8)
    assert difference == 6 * (4 + 4) * (pairs_full - pairs_window) / 8
    square = flops_per_token(whole, seq_len=8, convention="full")
    assert square - flops_per_token(sliding, seq_len=8, convention="full") == 6 * 8 * (8 - 3)


def test_names_of_conventions() -> None:
    shape = load_model("gpt2")
    by_convention = flops_per_token_by_convention(shape, seq_len=1024)
    assert list(by_convention) == list(CONVENTIONS)
    assert by_convention["causal"] == flops_per_token(
        shape, seq_len=1024, convention="Exact_Causal"
    )
    with pytest.raises(UsageError, match="unknown convention 'quarter'"):
        flops_per_token(shape, seq_len=1024, convention="quarter")
    with pytest.raises(UsageError, match="sequence length out of range: 0"):
        flops_per_token(shape, seq_len=0)


# --- published figures -------------------------------------------------------------------------


def test_torchtitan_llama_3_8b() -> None:
    flop = flops_per_token("Llama-3-8B", seq_len=8192, convention="torchtitan")
    assert flop == pytest.approx(5.79e10, rel=2e-3)
    assert 6667 * flop / 989e12 == pytest.approx(0.3904, abs=5e-5)
    assert 5762 * flop / 989e12 == pytest.approx(0.3374, abs=5e-5)


def test_llama_3_70b_report_counts_no_attention() -> None:
    flop = flops_per_token("Llama-3-70B", seq_len=8192, convention="6n")
    assert 524_288 * flop / 8.621 / 64 == pytest.approx(402.2e12, rel=1e-3)


def test_palm_table() -> None:
    flop = flops_per_token("PaLM-540B", seq_len=2048, convention="palm")
    assert flop == pytest.approx(3.28e12, rel=2e-3)
    assert 238_300 * flop / (6144 * 275e12) == pytest.approx(0.462, abs=5e-4)


def test_gpt_oss_as_corrected() -> None:
    flop = flops_per_token("GPT-OSS-120B", seq_len=4096, convention="megatron")
    assert flop == pytest.approx(32.6e9, rel=2e-3)


# --- parts -------------------------------------------------------------------------------------


def test_parts_of_one_layer_by_hand() -> None:
    shape = ModelShape(
        layers=2,
        hidden=8,
        heads=4,
        kv_heads=2,
        ffn=16,
        vocab=10,
        experts=4,
        experts_per_token=2,
        ffn_expert=6,
        ffn_shared=5,
        dense_layers=1,
    )
    parts = {(part.layer, part.name): part for part in flops_by_part(shape, seq_len=3)}
    forward = {key: part.forward_flop for key, part in parts.items()}
    assert forward == {
        (0, "qkv"): 2 * 8 * (8 + 2 * 4),
        (0, "scores"): 2 * 8 * 2,  # three queries meet 1, 2 and 3 keys: 2 on average
        (0, "values"): 2 * 8 * 2,
        (0, "out"): 2 * 8 * 8,
        (0, "mlp"): 2 * 3 * 8 * 16,
        (1, "qkv"): 2 * 8 * (8 + 2 * 4),
        (1, "scores"): 2 * 8 * 2,
        (1, "values"): 2 * 8 * 2,
        (1, "out"): 2 * 8 * 8,
        (1, "router"): 2 * 8 * 4,
        (1, "experts"): 2 * 3 * 8 * 6 * 2,
        (1, "shared_experts"): 2 * 3 * 8 * 5,
        (None, "head"): 2 * 8 * 10,
    }
    assert all(part.backward_flop == 2 * part.forward_flop for part in parts.values())
    everything = {
        part.name: part.forward_flop for part in flops_by_part(shape, seq_len=3, convention="6n")
    }
    assert everything["idle_experts"] == 2 * 3 * 8 * 6 * 2


def test_frozen_weights_get_no_gradient() -> None:
    shape = ModelShape(layers=1, hidden=8, heads=2, ffn=16, vocab=10)
    weights, attention = shape.params_mm, 6 * 16 * 2.5
    assert flops_per_token(shape, seq_len=4) == 6 * weights + attention
    assert flops_per_token(replace(shape, frozen=True), seq_len=4) == 4 * weights + attention


def test_documents_do_not_see_each_other() -> None:
    shape = ModelShape(layers=1, hidden=8, heads=2, ffn=16, vocab=10)
    alone = flops_per_token(shape, seq_len=8)
    packed = flops_per_token(shape, seq_len=8, documents=[5, 3])
    pairs = 5 * 6 // 2 + 3 * 4 // 2
    assert alone - packed == pytest.approx(6 * 16 * (8 * 9 / 2 - pairs) / 8, rel=1e-12)
    blind = flops_per_token(shape, seq_len=8, documents=[5, 3], convention="megatron-2024")
    assert blind == flops_per_token(shape, seq_len=8, convention="megatron-2024")


def test_tied_embedding_counts_once() -> None:
    tied = ModelShape(layers=1, hidden=8, heads=2, ffn=16, vocab=10, tied_embeddings=True)
    free = replace(tied, tied_embeddings=False)
    assert flops_per_token(free, seq_len=4) == flops_per_token(tied, seq_len=4)
    difference = [
        flops_per_token(free, seq_len=4, convention=name)
        - flops_per_token(tied, seq_len=4, convention=name)
        for name in ("palm", "hf-trainer", "kaplan")
    ]
    assert difference == [6 * 80, 6 * 80, 0]


def test_head_belongs_to_the_last_stage() -> None:
    halves = [list(range(16)), list(range(16, 32))]
    first, last = stage_fractions(
        "Llama-3-8B", seq_len=8192, layers_of_stage=halves, convention="causal"
    )
    whole = flops_per_token("Llama-3-8B", seq_len=8192)
    head = 6 * 128256 * 4096
    assert head / 1e9 == pytest.approx(3.15, abs=5e-3)
    assert (last - first) * whole == pytest.approx(head, rel=1e-12)
    assert first + last == pytest.approx(1, abs=1e-15)
    with pytest.raises(UsageError, match="each of 32 layers once"):
        stage_fractions("Llama-3-8B", seq_len=8192, layers_of_stage=halves[:1], convention="causal")


def test_every_convention_says_what_it_chooses() -> None:
    assert find_convention("causal").choices() == (
        "attention exact, embedding no, head yes, experts active, router yes, MTP no, "
        "recompute none, windowed, documents"
    )
    assert find_convention("picotron").choices() == (
        "attention full of model width, embedding yes, head yes, experts all, router yes, MTP no, "
        "recompute none, positions yes, norms all"
    )
    texts = {convention.choices() for convention in CONVENTIONS.values()}
    same = [name for name in CONVENTIONS if name in {"nanochat", "nemo-2024", "maxtext-2024"}]
    assert len(texts) >= len(CONVENTIONS) - len(same)
