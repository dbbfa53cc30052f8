from itertools import product
from typing import Any

import pytest

from tracelens.flops.shapes import OpFlop, op_flop

BF16 = "c10::BFloat16"


def _flop(name: str, dims: Any, concrete: Any = None, types: Any = None) -> OpFlop:
    found = op_flop(name, dims, types or [BF16] * len(dims), concrete)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("name", "dims", "macs"),
    [
        ("aten::mm", [[3, 5], [5, 7]], 3 * 5 * 7),
        ("aten::addmm", [[7], [3, 5], [5, 7], [], []], 3 * 5 * 7),
        ("aten::bmm", [[2, 3, 5], [2, 5, 7]], 2 * 3 * 5 * 7),
        ("aten::baddbmm", [[2, 3, 7], [2, 3, 5], [2, 5, 7], [], []], 2 * 3 * 5 * 7),
        ("aten::mv", [[3, 5], [5]], 15),
        ("aten::addmv", [[3], [3, 5], [5], [], []], 15),
        ("aten::dot", [[5], [5]], 5),
        ("aten::linear", [[2, 3, 5], [7, 5], [7]], 2 * 3 * 5 * 7),
        ("aten::matmul", [[4, 1, 3, 5], [2, 5, 7]], 4 * 2 * 3 * 5 * 7),
        ("aten::matmul", [[5], [5, 7]], 35),
        ("aten::matmul", [[2, 3, 5], [5]], 30),
        ("aten::_scaled_mm", [[16, 32], [32, 8], [], [], [], [], [], []], 16 * 32 * 8),
        ("aten::_grouped_mm", [[8196, 7168], [4, 7168, 2048], [4], [], []], 8196 * 7168 * 2048),
        ("aten::_grouped_mm", [[64, 100], [100, 32], [4], [], []], 64 * 100 * 32),
        ("aten::_grouped_mm", [[4, 6, 5], [4, 5, 7], [], [], []], 4 * 6 * 5 * 7),
    ],
)
def test_matrix_products(name: str, dims: Any, macs: int) -> None:
    found = _flop(name, dims)
    assert (found.kind, found.backward, found.dtype) == ("gemm", False, "bf16")
    assert found.model_flop == found.executed_flop == 2 * macs


def test_packed_fp4_holds_two_values_a_byte() -> None:
    types = ["c10::Float4_e2m1fn_x2"] * 2
    found = _flop("aten::_scaled_mm", [[16, 32], [32, 8]], types=types)
    assert (found.executed_flop, found.dtype) == (4 * 16 * 32 * 8, "fp4")


def test_formats_come_from_the_operands() -> None:
    dims = [[7], [3, 5], [5, 7], [], []]
    assert _flop("aten::addmm", dims, types=["float", "c10::Half", "c10::Half"]).dtype == "fp16"
    assert _flop("aten::mm", [[3, 5], [5, 7]], types=["float", "float"]).dtype == "fp32|tf32"
    assert _flop("aten::mm", [[3, 5], [5, 7]], types=["double", "double"]).dtype == "fp64"
    unknown = op_flop("aten::mm", [[3, 5], [5, 7]])
    assert unknown is not None
    assert unknown.dtype is None
    assert op_flop("aten::mm", [[3, 5], [5, 7]], ["c10::complex<float>"] * 2) is None


def test_transformer_engine_products_in_column_major_order() -> None:
    dims = [[128, 64], [], [], [], [], [32, 64], [], [], [], [], [32, 128]]
    concrete = ["", "", "", "", "True", "", "", "", "", "False", ""]
    assert _flop("tex_ts::te_gemm_ts", dims, concrete).executed_flop == 2 * 128 * 64 * 32
    assert op_flop("tex_ts::te_gemm_ts", dims, [], ["", "", "", "", "False", *concrete[5:]]) is None


# --- convolutions ------------------------------------------------------------------------------

FIRST = [[10, 3, 224, 224], [64, 3, 7, 7], [], [], [], [], [], [], []]
FIRST_SCALARS = ["", "", "", "[2, 2]", "[3, 3]", "[1, 1]", "False", "[0, 0]", "1"]
FIRST_FLOP = 2 * 10 * 64 * 112 * 112 * 3 * 7 * 7


@pytest.mark.parametrize(
    ("name", "dims", "concrete", "flop"),
    [
        ("aten::convolution", FIRST, FIRST_SCALARS, FIRST_FLOP),
        ("aten::conv2d", FIRST[:7], ["", "", "", "[2, 2]", "[3]", "[1]", "1"], FIRST_FLOP),
        (
            "aten::miopen_convolution",
            [[10, 256, 14, 14], [512, 256, 3, 3], [], [], [], [], [], [], []],
            ["", "", "", "[1, 1]", "[2, 2]", "[1, 1]", "1", "False", "False"],
            2 * 10 * 512 * 7 * 7 * 256 * 9,
        ),
        (
            "aten::cudnn_convolution",
            [[10, 256, 14, 14], [512, 256, 3, 3], [], [], [], [], [], [], []],
            ["", "", "[1, 1]", "[2, 2]", "[1, 1]", "1", "False", "False", "True"],
            2 * 10 * 512 * 7 * 7 * 256 * 9,
        ),
        (  # depthwise: the filter holds Cin / groups channels
            "aten::convolution",
            [[2, 8, 10], [8, 1, 3], [], [], [], [], [], [], []],
            ["", "", "", "[1]", "[0]", "[2]", "False", "[0]", "8"],
            2 * 2 * 8 * 6 * 3,
        ),
        (
            "aten::cudnn_convolution_transpose",
            [[512, 256, 64, 64], [256, 64, 2, 2], [], [], [], [], [], [], [], []],
            None,
            2 * 512 * 64 * 64 * 256 * 64 * 4,
        ),
    ],
)
def test_convolutions(name: str, dims: Any, concrete: Any, flop: int) -> None:
    found = _flop(name, dims, concrete)
    assert (found.kind, found.model_flop, found.executed_flop) == ("conv", flop, flop)


@pytest.mark.parametrize(
    ("mask", "passes"), [("[True, True, False]", 2), ("[False, True, True]", 1)]
)
def test_convolution_backward_counts_the_gradients_asked_for(mask: str, passes: int) -> None:
    dims = [[10, 64, 112, 112], [10, 3, 224, 224], [64, 3, 7, 7], *[[]] * 8]
    scalars = ["", "", "", "[0]", "[2, 2]", "[3, 3]", "[1, 1]", "False", "[0, 0]", "1", mask]
    found = _flop("aten::convolution_backward", dims, scalars)
    assert (found.executed_flop, found.backward) == (passes * FIRST_FLOP, True)
    assert op_flop("aten::convolution_backward", dims, [], scalars[:10]) is None


def test_convolutions_without_recorded_scalars_are_unknown() -> None:
    assert op_flop("aten::convolution", FIRST, [BF16] * 2, None) is None
    same = ["", "", "", "[1, 1]", "same", "[1, 1]", "1"]
    assert op_flop("aten::conv2d", FIRST[:7], [BF16] * 2, same) is None


# --- attention ---------------------------------------------------------------------------------


def _sdpa(sizes: tuple[int, int, int, int], keys: int, heads: int) -> list[list[int]]:
    batch, query_heads, queries, width = sizes
    return [[batch, query_heads, queries, width], *[[batch, heads, keys, width]] * 2]


def test_full_attention_forward_and_backward() -> None:
    forward = [*_sdpa((2, 8, 16, 64), 32, 2), [], [], [], []]
    scalars = ["", "", "", "0.", "False", "False", "0.125"]
    product = 2 * 2 * 8 * 16 * 32 * 64
    found = _flop("aten::_scaled_dot_product_flash_attention", forward, scalars)
    assert (found.kind, found.dtype) == ("attn", "bf16")
    assert found.model_flop == found.executed_flop == 2 * product
    dims = [[2, 8, 16, 64], *_sdpa((2, 8, 16, 64), 32, 2), [2, 8, 16, 64], [2, 8, 16], *[[]] * 9]
    backward = ["", *[""] * 5, "", "", "16", "32", "0.", "False", "", "", "0.125"]
    found = _flop("aten::_scaled_dot_product_flash_attention_backward", dims, backward)
    assert (found.model_flop, found.executed_flop) == (4 * product, 5 * product)
    assert found.backward


def test_different_widths_of_keys_and_values() -> None:
    dims = [[1, 4, 8, 192], [1, 4, 8, 192], [1, 4, 8, 128], [], [], [], []]
    scalars = ["", "", "", "0.", "False", "False", ""]
    found = _flop("aten::_scaled_dot_product_flash_attention", dims, scalars)
    assert found.executed_flop == 2 * 4 * 8 * 8 * (192 + 128)


@pytest.mark.parametrize(("queries", "keys"), list(product([1, 5, 8], [1, 5, 8])))
@pytest.mark.parametrize("window", [(-1, -1), (2, 0), (2, 3), (0, -1), (-1, 1), (100, 100)])
@pytest.mark.parametrize("causal", [False, True])
def test_masks_equal_counting_pairs(
    queries: int, keys: int, window: tuple[int, int], causal: bool
) -> None:
    left, right = window
    pairs = 0
    for query, key in product(range(queries), range(keys)):
        distance = key - query - (keys - queries)
        too_late = (causal and distance > 0) or (right >= 0 and distance > right)
        pairs += not too_late and not (left >= 0 and distance < -left)
    dims = [[1, queries, 1, 4], [1, keys, 1, 4], [1, keys, 1, 4], *[[]] * 8]
    scalars = ["", "", "", "0.", "0.5", str(causal), str(left), str(right), "0.", "", "False"]
    found = op_flop("flash_attn::_flash_attn_forward", dims, [BF16], scalars)
    assert (found.executed_flop if found else 0.0) == 2 * 2 * 4 * pairs


def test_torch_masks_start_at_the_first_key() -> None:
    dims = [[1, 1, 3, 4], [1, 1, 5, 4], [1, 1, 5, 4], [], [], [], [], []]
    scalars = ["", "", "", "", "False", "0.", "True", ""]
    found = _flop("aten::_scaled_dot_product_efficient_attention", dims, scalars)
    assert found.executed_flop == 2 * 2 * 4 * (1 + 2 + 3)


def test_packed_sequences_without_lengths_are_unknown() -> None:
    dims = [*[[16384, 6, 128]] * 3, *[[]] * 4, [128], [128], *[[]] * 25]
    scalars = [""] * 24 + ["True", "128", "0", *[""] * 7]
    assert op_flop("flash_attn_3::_flash_attn_forward", dims, [BF16] * 3, scalars) is None
    dense = [*[[2, 1024, 6, 128]] * 3, *[[]] * 31]
    found = _flop("flash_attn_3::_flash_attn_forward", dense, scalars)
    assert found.executed_flop == 2 * 2 * 2 * 6 * 128 * sum(min(i + 1, 129) for i in range(1024))


def test_versions_of_one_operator() -> None:
    dims = [*[[25, 196, 16, 80]] * 3, [25, 16, 196, 196], *[[]] * 9]
    old = ["", "", "", "", "", "", "", "0.", "0", "False", "", "", ""]
    found = _flop("aten::_efficient_attention_forward", dims, old)
    assert found.executed_flop == 2 * 2 * 25 * 16 * 196 * 196 * 80
    new = ["", "", "", "", "", "", "", "", "0.", "1", "False", "", "", ""]
    found = _flop("aten::_efficient_attention_forward", [*dims, []], new)
    assert found.executed_flop == 2 * 2 * 25 * 16 * 80 * 196 * 197 // 2
    assert op_flop("aten::_efficient_attention_forward", [*dims, [], []], [BF16], new) is None


# --- hostile records ---------------------------------------------------------------------------

BAD_DIMS: list[Any] = [
    None,
    "[[2,2],[2,2]]",
    [],
    [[2, 2]],
    [[2, 3], [4, 5]],
    [["a", 2], [2, 2]],
    [[-2, 2], [2, 2]],
    [[True, 2], [2, 2]],
    [[2.0, 2], [2, 2]],
    [[2, [2]], [2, 2]],
    [[0, 2], [2, 2]],
    [[10**30, 2], [2, 2]],
    [[2**40, 2**40], [2**40, 2**40]],
    [None, None],
    {"a": 1},
    [[[2, 2], [2, 2]], [2, 2]],
]


@pytest.mark.parametrize(
    "name",
    [
        "aten::mm",
        "aten::matmul",
        "aten::linear",
        "aten::_grouped_mm",
        "aten::convolution",
        "aten::convolution_backward",
        "aten::scaled_dot_product_attention",
        "flash_attn::_flash_attn_forward",
        "tex_ts::te_gemm_ts",
        "aten::unheard_of",
    ],
)
def test_no_record_raises(name: str) -> None:
    others: list[Any] = [None, "x", [], [None, 5, [], "[x]", "True"], {"a": "b"}]
    for dims, other in product(BAD_DIMS, others):
        assert op_flop(name, dims, other, other) is None
