"""What ran together, and what of each exchange was hidden, as the public views tell it."""

import pytest

from tracelens.comm import describe_collectives

REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>"
COMM = "comm.unknown.undivided"


@pytest.fixture
def overlapped(scene):
    """A matmul of 10 us, an addition of 6, an exchange beside both and beyond; then a gap."""
    scene.kernel(10, 20, (0, 1))
    scene.kernel(16, 26, (1, 2), name=ADD, stream=8)
    scene.kernel(12, 30, (2, 3), name=REDUCE, stream=23)
    scene.kernel(33, 34, (3, 4))
    scene.leaves()
    describe_collectives(scene.store)
    return scene.store


def together(store, some, others):
    table = store.user_query(
        "SELECT coalesce(sum(dur_ns), 0) AS dur_ns FROM overlap "
        f"WHERE list_has_any(active, {some}) AND list_has_any(active, {others})"
    )
    return int(table["dur_ns"][0].as_py())


@pytest.mark.parametrize(
    ("some", "others", "us"),
    [
        ([COMM], ["flop.gemm"], 8),
        ([COMM], ["compute.elementwise"], 10),
        ([COMM], ["flop.gemm", "compute.elementwise"], 14),
        (["flop.gemm"], ["compute.elementwise"], 4),
        ([COMM, "flop.gemm"], ["compute.elementwise"], 10),
        ([COMM], ["mem.h2d"], 0),
    ],
)
def test_overlap_of_any_leaves_with_any_others(overlapped, some, others, us):
    assert together(overlapped, some, others) == us * 1_000


def test_rows_sum_to_the_window(overlapped):
    rows = overlapped.rows("SELECT active, owner_leaf, dur_ns FROM main.overlap")
    assert sum(dur for *_, dur in rows) == 24_000
    assert ([], None, 3_000) in rows
    assert ([COMM, "compute.elementwise", "flop.gemm"], "flop.gemm", 4_000) in rows


def test_hidden_and_exposed_sum_to_what_lies_in_the_window(overlapped):
    assert overlapped.rows("SELECT exposed_ns, hidden_ns, window_ns FROM main.collective") == [
        (4_000, 14_000, 18_000)
    ]


def test_what_lies_outside_the_window_is_neither_hidden_nor_exposed(scene):
    scene.kernel(0, 8)
    scene.kernel(5, 15, name=REDUCE, stream=23)
    scene.leaves("ns:0..12000")
    describe_collectives(scene.store)
    assert scene.store.rows("SELECT exposed_ns, hidden_ns, window_ns FROM main.collective") == [
        (4_000, 3_000, 7_000)
    ]
