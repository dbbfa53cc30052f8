from typing import Any

from tracelens.flops import assign_flops
from tracelens.store import Store

BF16 = ["c10::BFloat16", "c10::BFloat16"]
MM = {"input_dims": [[1024, 1024], [1024, 1024]], "input_types": BF16}
MM_FLOP = 2 * 1024**3
LINEAR = {"input_dims": [[1024, 1024], [1024, 1024], [1024]], "input_types": BF16}
ADDMM = {"input_dims": [[1024], [1024, 1024], [1024, 1024], [], []], "input_types": [BF16[0]] * 3}


def _assigned(store: Store) -> dict[int, tuple[Any, ...]]:
    assign_flops(store)
    rows = store.rows(
        "SELECT activity_id, executed_flop, model_flop, dtype, shaped, rule FROM raw.activity_flop"
    )
    return {row[0]: row[1:] for row in rows}


def test_rate_of_a_matmul(run: Any) -> None:
    kernel = run.kernel("gemm", 100, 400, op=run.op("aten::mm", 10, 60, **MM))
    store = run.done()
    assert _assigned(store) == {kernel: (MM_FLOP, MM_FLOP, "bf16", True, "aten::mm")}
    rate = store.scalar(
        "SELECT f.executed_flop / (a.end_ns - a.start_ns) * 1e9 "
        "FROM raw.activity_flop AS f JOIN raw.activity AS a USING (activity_id)"
    )
    assert round(rate / 1e12, 3) == 7.158


def test_parent_and_child_are_never_both_counted(run: Any) -> None:
    run.op("aten::linear", 0, 100, **LINEAR)
    child = run.op("aten::addmm", 10, 90, **ADDMM)
    main = run.kernel("gemm", 200, 300, op=child)
    beside = run.kernel("gemm", 300, 310, op=run.op("aten::t", 92, 94))
    found = _assigned(run.done())
    assert found[main][0] == MM_FLOP
    assert found[beside] == (0.0, 0.0, "bf16", True, "aten::linear")


def test_parent_counts_when_its_children_say_nothing(run: Any) -> None:
    run.op("aten::linear", 0, 100, **LINEAR)
    child = run.op("custom::gemm", 10, 90, input_dims=[[1024, 1024]])
    run.kernel("gemm", 200, 300, op=child)
    found = _assigned(run.done())
    assert list(found.values()) == [(MM_FLOP, MM_FLOP, "bf16", True, "aten::linear")]


def test_parent_counts_the_rest_of_two_products(run: Any) -> None:
    pair = {"input_dims": [[2, 1024, 1024], [1024, 1024]], "input_types": BF16}
    run.op("aten::matmul", 0, 100, **pair)
    inner = run.kernel("gemm", 200, 300, op=run.op("aten::mm", 10, 40, **MM))
    rest = run.kernel("gemm", 300, 400, op=run.op("unknown", 50, 90))
    found = _assigned(run.done())
    assert (found[inner][0], found[rest][0]) == (MM_FLOP, MM_FLOP)


def test_the_longest_kernel_of_an_operator_gets_the_flops(run: Any) -> None:
    op = run.op("aten::mm", 0, 50, **MM)
    short = run.kernel("gemm", 100, 110, op=op, name="second_pass")
    long = run.kernel("gemm", 110, 200, op=op)
    run.kernel("reduction", 200, 500, op=op)
    found = _assigned(run.done())
    assert set(found) == {short, long}
    assert (found[short][0], found[long][0]) == (0.0, MM_FLOP)
    assert found[short][3] is True


def test_equal_launches_of_one_operator_share_its_flops(run: Any) -> None:
    """A library cuts a large product into parts: one launch alone would beat the peak."""
    op = run.op("aten::mm", 0, 50, **MM)
    parts = [
        run.kernel("gemm", at, at + 100, op=op, grid_x=8, grid_y=64, grid_z=1)
        for at in (100, 200, 300, 400)
    ]
    run.kernel("gemm", 500, 510, op=op, grid_x=1, grid_y=64, grid_z=1)
    found = _assigned(run.done())
    assert [found[part][0] for part in parts] == [MM_FLOP / 4] * 4
    assert sum(row[0] for row in found.values()) == MM_FLOP


def test_kernels_of_a_convolution_share_its_flops_by_time(run: Any) -> None:
    record = {
        "input_dims": [[4, 64, 32, 32], [4, 64, 32, 32], [64, 64, 3, 3], *[[]] * 8],
        "input_types": [BF16[0]] * 3 + [""] * 8,
        "concrete_inputs": [
            *["", "", "", "[0]", "[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1"],
            "[True, True, False]",
        ],
    }
    op = run.op("aten::convolution_backward", 0, 50, **record)
    data = run.kernel("conv", 100, 400, op=op, name="dgrad")
    weight = run.kernel("conv", 400, 500, op=op, name="wgrad")
    found = _assigned(run.done())
    flop = 2 * 2 * 4 * 32 * 32 * 64 * 64 * 9
    assert (found[data][0], found[weight][0]) == (flop * 3 / 4, flop / 4)


def test_kernels_without_shapes(run: Any) -> None:
    run.op("aten::mm", 0, 50, **MM)
    kernels = [
        run.kernel("gemm", 100, 110, dtype="fp16"),
        run.kernel("gemm", 110, 120, op=run.op("aten::mm", 60, 70)),
        run.kernel("attention", 120, 130, op=run.op("aten::mm", 80, 90, **MM)),
        run.kernel("gemm", 130, 140, op=run.op("aten::mm", 92, 95, input_dims="{broken")),
        run.kernel("gemm", 140, 150, op=12345),
    ]
    found = _assigned(run.done())
    assert found[kernels[0]] == (None, None, "fp16", False, None)
    assert all(found[kernel] == (None, None, None, False, None) for kernel in kernels[1:])


def test_the_name_of_the_kernel_decides_between_tf32_and_fp32(run: Any) -> None:
    floats = MM | {"input_types": ["float", "float"]}
    expected = {"tf32": "tf32", "fp32": "fp32", None: "fp32|tf32"}
    kernels = {
        run.kernel(
            "gemm", 100, 110, dtype=dtype, op=run.op("aten::mm", i * 10, i * 10 + 5, **floats)
        ): name
        for i, (dtype, name) in enumerate(expected.items())
    }
    accumulator = run.kernel("gemm", 100, 110, dtype="fp32", op=run.op("aten::mm", 90, 95, **MM))
    found = _assigned(run.done())
    assert {kernel: found[kernel][2] for kernel in kernels} == kernels
    assert found[accumulator][2] == "bf16"


def test_attention_backward_executes_five_products_for_four(run: Any) -> None:
    shape = [2, 8, 128, 64]
    dims = [shape, shape, shape, shape, shape, [2, 8, 128], *[[]] * 9]
    scalars = [""] * 8 + ["128", "128", "0.", "True", "", "", "0.125"]
    op = run.op(
        "aten::_scaled_dot_product_flash_attention_backward",
        0,
        50,
        input_dims=dims,
        input_types=["c10::Half"] * 6,
        concrete_inputs=scalars,
    )
    kernel = run.kernel("attention", 100, 110, op=op)
    product = 2 * 2 * 8 * 64 * 128 * 129 // 2
    executed, model, *_ = _assigned(run.done())[kernel]
    assert (executed, model) == (5 * product, 4 * product)


def test_matmuls_of_the_optimizer_are_not_the_models(run: Any) -> None:
    run.range("Optimizer.step#Muon.step", 100, 200)
    model = run.kernel("gemm", 300, 400, op=run.op("aten::mm", 50, 60, **MM))
    muon = run.kernel("gemm", 400, 500, op=run.op("aten::mm", 150, 160, **MM))
    found = _assigned(run.done())
    assert found[model][:2] == (MM_FLOP, MM_FLOP)
    assert found[muon] == (MM_FLOP, 0.0, "bf16", True, "optimizer: aten::mm")


def test_nothing_to_assign(run: Any) -> None:
    run.kernel("norm", 0, 10)
    assert _assigned(run.done()) == {}
