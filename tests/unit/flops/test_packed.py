"""Attention over packed sequences has bounds, and no figure that nobody recorded."""

from itertools import combinations_with_replacement
from typing import Any

import pytest

from tracelens.flops import assign_flops, close_account
from tracelens.flops.packed import Packing, bounds
from tracelens.flops.shapes import OpFlop, op_flop

BF16 = "c10::BFloat16"


def causal(length: int) -> int:
    return length * (length + 1) // 2


@pytest.mark.parametrize("window", [None, 0, 2])
@pytest.mark.parametrize(("tokens", "sequences", "longest"), [(12, 4, 5), (7, 3, 7), (9, 9, 2)])
def test_bounds_equal_those_of_all_packings(
    tokens: int, sequences: int, longest: int, window: int | None
) -> None:
    def pairs(length: int) -> int:
        return sum(min(at + 1, length if window is None else window + 1) for at in range(length))

    found = [
        sum(map(pairs, lengths))
        for lengths in combinations_with_replacement(range(longest + 1), sequences)
        if sum(lengths) == tokens
    ]
    assert bounds(Packing(tokens, sequences, longest), pairs) == (min(found), max(found))


def varlen(tokens: int, offsets: int, longest: int, scalars: tuple[str, ...]) -> OpFlop | None:
    dims = [*[[tokens, 2, 4]] * 3, [offsets], [offsets], *[[]] * 8]
    concrete = ["", "", "", "", "", str(longest), str(longest), "0.", "1.", *scalars, ""]
    return op_flop("flash_attn::_flash_attn_varlen_forward", dims, [BF16] * 3, concrete)


def test_varlen_forward_lies_between_equal_and_greatest_lengths() -> None:
    found = varlen(100, 11, 40, ("True", "-1", "-1"))
    assert found is not None
    a_pair = 2 * 2 * (4 + 4)
    assert found.executed_flop == a_pair * (2 * causal(40) + causal(20))
    assert found.executed_flop * found.low_frac == pytest.approx(a_pair * 10 * causal(10))
    # Without a mask the bounds are T^2 / n and about T times the longest.
    full = varlen(100, 11, 50, ("False", "-1", "-1"))
    assert full is not None
    assert full.executed_flop == a_pair * 100 * 50
    assert full.executed_flop * full.low_frac == pytest.approx(a_pair * 100 * 100 / 10)


def test_one_sequence_is_no_interval() -> None:
    found = varlen(64, 2, 64, ("True", "-1", "-1"))
    assert found is not None
    assert (found.executed_flop, found.low_frac) == (2 * 2 * 8 * causal(64), 1.0)


@pytest.mark.parametrize(
    ("tokens", "offsets", "longest"),
    [(100, 1, 40), (100, 3, 40), (0, 11, 40), (100, 11, 0)],
    ids=["no sequence", "too many tokens", "no token", "no length"],
)
def test_records_that_contradict_themselves(tokens: int, offsets: int, longest: int) -> None:
    assert varlen(tokens, offsets, longest, ("True", "-1", "-1")) is None


def test_backward_and_flash_attention_3(shared: Any) -> None:
    """A record of a real run: 16,384 tokens, at most 127 documents, 2,048 tokens, window 128."""
    dims = [*[[16384, 6, 128]] * 3, *[[]] * 4, [128], [128], *[[]] * 25]
    scalars = [*[""] * 12, "2048", "2048", *[""] * 10, "True", "128", "0", *[""] * 7]
    forward = op_flop("flash_attn_3::fwd", dims, [BF16] * 3, scalars)
    back = [*[[16384, 6, 128]] * 5, [6, 16384], [], [], [], [128], [128], *[[]] * 10]
    wanted = [*[""] * 13, "2048", "2048", "0.1", "True", "128", "0", "0.", "False", "0"]
    backward = op_flop("flash_attn_3::bwd", back, [BF16] * 5, wanted)
    assert forward is not None
    assert backward is not None

    def pairs(length: int) -> int:
        return sum(min(at + 1, 129) for at in range(length))

    most, least = 8 * pairs(2048), pairs(130) + 126 * pairs(129)
    assert 16384 == 130 + 126 * 129
    a_pair = 2 * 6 * (128 + 128)
    assert forward.executed_flop == a_pair * most
    assert forward.low_frac == pytest.approx(least / most)
    assert backward.model_flop == 2 * a_pair * most
    assert backward.executed_flop == 2.5 * a_pair * most


def test_kernels_of_packed_attention_have_bounds_and_no_figure(run: Any) -> None:
    """The operator around it says the same once more: it adds nothing."""
    run.gpu()
    dims = [*[[100, 2, 4]] * 3, [11], [11], *[[]] * 8]
    concrete = ["", "", "", "", "", "40", "40", "0.", "1.", "True", "-1", "-1", ""]
    record = {"input_dims": dims, "concrete_inputs": concrete, "input_types": [BF16] * 3}
    name = "flash_attn::_flash_attn_varlen_forward"
    run.op(name, 0, 10, **record)
    inner = run.op(name, 1, 9, **record)
    mm = run.op("aten::mm", 20, 30, input_dims=[[64, 64], [64, 64]], input_types=[BF16] * 2)
    run.op("AddmmBackward0", 40, 50)
    packed = run.kernel("attention", 0, 10, op=inner)
    run.kernel("gemm", 10, 20, op=mm, dtype="bf16")
    run.step(None, 0, 20)
    run.segment("flop.attn", 0, 10, activity_id=packed)
    run.segment("flop.gemm", 10, 20, activity_id=packed + 1)
    store = run.done()
    assign_flops(store)
    rows = store.rows(
        "SELECT executed_flop, shaped, executed_low_flop, executed_high_flop "
        "FROM raw.activity_flop ORDER BY activity_id"
    )
    least, most = 32 * 10 * causal(10), 32 * (2 * causal(40) + causal(20))
    product = 2.0 * 64**3
    assert rows == [(None, False, pytest.approx(least), most), (product, True, product, product)]
    close_account(store)
    mfu = store.result("mfu")
    assert mfu["value"] is None
    assert mfu["low"] == pytest.approx((product + least) / (989.4e12 * 20e-6))
    assert "packed sequences" in mfu["reason"]
