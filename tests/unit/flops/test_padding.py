"""FLOPs of the head beyond the vocabulary are padding; what cannot be told is null."""

from typing import Any

import pytest

from tracelens.flops import FlopsOptions, assign_flops, close_account, find_recompute
from tracelens.flops.padding import padding_flop
from tracelens.flops.presets import load_model
from tracelens.store import Store

MODEL = {
    "layers": 2,
    "hidden": 768,
    "heads": 12,
    "kv_heads": 12,
    "head_dim": 64,
    "ffn": 3_072,
    "glu": False,
    "vocab": 50_257,
}
TOKENS = 4_096


def with_products(*products: tuple[int, int, int]) -> Store:
    store = Store()
    store.append(
        "ladder",
        {
            "part": ["gemm"] * len(products),
            "m": [m for m, _, _ in products],
            "n": [n for _, n, _ in products],
            "k": [k for _, _, k in products],
            "batch": [1] * len(products),
            "flop": [2.0 * m * n * k for m, n, k in products],
        },
    )
    return store


@pytest.mark.parametrize(
    ("products", "columns"),
    [
        ([(TOKENS, 50_304, 768), (768, 50_304, TOKENS), (TOKENS, 768, 50_304)], 3 * 47),
        ([(TOKENS, 50_257, 768)], 0),
        ([(TOKENS, 3_072, 768)], None),  # no head at all
        ([(TOKENS, 25_152, 768)], None),  # half of it: sharded
        ([(50_304, 50_304, 768)], None),  # as many tokens as outputs: which is which?
        ([(TOKENS, 50_304, 1_024)], None),  # another model
        ([], None),
    ],
)
def test_columns_beyond_the_vocabulary(
    products: list[tuple[int, int, int]], columns: int | None
) -> None:
    found = padding_flop(with_products(*products), load_model(MODEL))
    assert found == (None if columns is None else pytest.approx(2 * TOKENS * 768 * columns))


def test_without_a_model_padding_is_not_known() -> None:
    assert padding_flop(with_products((TOKENS, 50_304, 768)), None) is None


def test_padding_is_a_slice_of_its_own(run: Any) -> None:
    """The residual holds what the formula counts and one matmul does not do."""
    run.process(1)
    run.gpu()
    run.step(0, 0, 1_000)
    types = ["c10::BFloat16"] * 2
    op = run.op("aten::mm", 0, 10, input_dims=[[TOKENS, 768], [768, 50_304]], input_types=types)
    run.op("autograd::engine::evaluate_function: MmBackward0", 20, 60)
    kernel = run.kernel("gemm", 0, 900, op=op, step=0, dtype="bf16")
    run.segment("flop.gemm", 0, 900, activity_id=kernel, step=0)
    run.segment("host.dispatch", 900, 1_000, step=0)
    store = run.done()
    assign_flops(store)
    find_recompute(store)
    close_account(store, FlopsOptions(model=MODEL, seq_len=1_024, tokens_per_step=TOKENS))
    flops = store.result("flops")
    wanted = 2 * TOKENS * 768 * 47
    assert flops["reconciliation"]["padding"] == pytest.approx(wanted)
    waterfall = {item["id"]: item["points"] for item in store.result("waterfall")}
    assert waterfall["padding"] == pytest.approx(-100 * wanted / (989.4e12 * 1e-3))
    executed = 2 * TOKENS * 768 * 50_304
    assert flops["reconciliation"]["residual"] == pytest.approx(
        executed - flops["model_flop"] - wanted
    )
