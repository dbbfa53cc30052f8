import csv
from pathlib import Path

import pytest

from tracelens.errors import UsageError
from tracelens.flops import flops_per_token, flops_per_token_by_convention, load_model
from tracelens.flops.conventions import CONVENTIONS
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
    "nemo": "nemo>=2025-08",
    "maxtext": "maxtext>=2025-07",
    "palm": "palm",
    "kaplan": "kaplan_6N",
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


def test_deepseek_isca_prints_both(shared: Path) -> None:
    rows = [row for row in _rows(shared / "data" / "published_mfu.csv") if "deepseek" in row["id"]]
    assert len(rows) == 2
    convention = {"deepseek_full": "megatron-2024", "deepseek_causal": "nemo"}
    for row in rows:
        shape = load_model("DeepSeek-V3")
        fields = {name: getattr(shape, name) for name in shape.__dataclass_fields__}
        no_mtp = ModelShape(**(fields | {"mtp_layers": 0}))
        flop = flops_per_token(no_mtp, seq_len=4096, convention=convention[row["convention"]])
        rate = float(row["tokens_s"]) * flop / int(row["gpus"])
        assert rate / 1e12 == pytest.approx(float(row["tflops_gpu"]), rel=3e-3)
        assert 100 * rate / 989e12 == pytest.approx(float(row["mfu_pct"]), rel=3e-3)


def test_llm_foundry_tables(shared: Path) -> None:
    rows = [row for row in _rows(shared / "data" / "published_mfu.csv") if "foundry" in row["id"]]
    assert len(rows) == 119
    for row in rows:
        shape = ModelShape(
            layers=int(row["layers"]),
            hidden=int(row["hidden"]),
            heads=int(row["heads"]),
            ffn=int(row["ffn"]),
            glu=False,
            vocab=int(row["vocab"]),
            tied_embeddings=True,
            positions=int(row["seq"]),
            biases=True,
        )
        assert shape.params_total / 1e9 == pytest.approx(float(row["params_b"]), rel=1e-9)
        per_gpu = float(row["tokens_s_gpu"])
        peak = float(row["peak_tflops"]) * 1e12
        hfu = "llm-foundry-hfu" if row["recompute"] == "full" else "llm-foundry"
        for convention, column in (("llm-foundry", "mfu_pct"), (hfu, "hfu_pct")):
            flop = flops_per_token(shape, seq_len=int(row["seq"]), convention=convention)
            printed = float(row[column])
            assert 100 * per_gpu * flop / peak == pytest.approx(printed, rel=0.01), row["id"]


def test_megatron_bridge_and_nemo_tables(shared: Path) -> None:
    names = {
        "LLAMA2-7B": "Llama-2-7B",
        "LLAMA2-13B": "Llama-2-13B",
        "LLAMA3-8B": "Llama-3-8B",
        "LLAMA3-70B": "Llama-3-70B",
        **{name: name for name in ("DeepSeek-V3", "GPT-OSS-120B", "Kimi-K2")},
        **{name: name for name in ("Qwen3-30B-A3B", "Qwen3-235B-A22B")},
        **{name: name for name in ("Llama-3-8B", "Llama-3-70B", "Llama-3.1-405B")},
    }
    conventions = {"megatron_causal": "megatron", "nemo_full": "full"}
    checked, off = 0, []
    for row in _rows(shared / "data" / "published_mfu.csv"):
        convention, name = conventions.get(row["convention"]), names.get(row["model"])
        if not (convention and name and row["tokens_s_gpu"] and row["tflops_gpu"]):
            continue
        flop = flops_per_token(name, seq_len=int(row["seq"]), convention=convention)
        tera = float(row["tokens_s_gpu"]) * flop / 1e12
        checked += 1
        if tera != pytest.approx(float(row["tflops_gpu"]), rel=0.01):
            off.append(row["id"])
    # Both print tokens per second rounded to multiples of 32 or more, up to 2.3 % off.
    assert off == ["megatron-bridge-080", "megatron-bridge-084"]
    assert checked == 133
