"""Operations, sizes and bus factors, against the definitions of nccl-tests."""

import pytest

from tracelens.comm.messages import (
    Message,
    bus_factor,
    collective_op,
    dtype_bytes,
    message_bytes,
    ranks_in,
)


@pytest.mark.parametrize(
    ("recorded", "kernel_class", "op"),
    [
        ("allreduce", "collective:allreduce", "all_reduce"),
        ("allreduce_coalesced", "collective:allreduce", "all_reduce"),
        ("_allgather_base", "collective:allgather", "all_gather"),
        ("allgather_into_tensor_coalesced", "collective:allgather", "all_gather"),
        ("_reduce_scatter_base", "collective:reducescatter", "reduce_scatter"),
        ("reduce_scatter_tensor_coalesced", "collective:reducescatter", "reduce_scatter"),
        ("all_to_allv", "p2p:sendrecv", "all_to_all"),
        ("alltoall_base", "p2p:sendrecv", "all_to_all"),
        ("_broadcast_oop", "collective:broadcast", "broadcast"),
        ("reduce", "collective:reduce", "reduce"),
        ("barrier", "collective:allreduce", "barrier"),
        ("send", "p2p:sendrecv", "send_recv"),
        ("recv", "collective:generic", "send_recv"),
        ("ncclAllReduce", "collective:generic", "all_reduce"),
        ("nccl:send 0->1", "collective:generic", "send_recv"),
        ("nccl:_all_gather_base", "collective:generic", "all_gather"),
        ("gather", "p2p:sendrecv", "generic"),
        # Nothing that names an operation: the class decides.
        ("coalesced", "p2p:sendrecv", "send_recv"),
        ("wait", "collective:allreduce", "all_reduce"),
        ("", "collective:reducescatter", "reduce_scatter"),
        (None, "collective:alltoall", "all_to_all"),
        (None, "collective:generic", "generic"),
        (None, "memcpy:p2p", "send_recv"),
        ("reducer_hook", "collective:allreduce", "all_reduce"),
    ],
)
def test_operation(recorded, kernel_class, op):
    assert collective_op((recorded,), kernel_class) == op


def test_the_first_record_that_names_an_operation_decides():
    assert collective_op(("coalesced", "nccl:all_to_all"), "p2p:sendrecv") == "all_to_all"
    assert collective_op(("broadcast", "nccl:all_to_all"), "p2p:sendrecv") == "broadcast"


@pytest.mark.parametrize(
    ("dtype", "size"),
    [
        ("Bool", 1),
        ("Byte", 1),
        ("Float8_e4m3fn", 1),
        ("Float8_e5m2fnuz", 1),
        ("BFloat16", 2),
        ("c10::Half", 2),
        ("torch.float32", 4),
        ("ncclBfloat16", 2),
        ("Int", 4),
        ("Long", 8),
        ("Double", 8),
        ("ComplexDouble", 16),
        ("Undefined", None),
        ("", None),
        (None, None),
    ],
)
def test_size_of_an_element(dtype, size):
    assert dtype_bytes(dtype) == size


@pytest.mark.parametrize(
    ("op", "message", "size"),
    [
        ("all_reduce", Message(in_elems=100, out_elems=100, dtype="BFloat16"), 200),
        ("all_gather", Message(in_elems=100, out_elems=800, dtype="Float"), 3200),
        ("all_gather", Message(in_bytes=100, group_size=8), 800),
        ("all_gather", Message(in_bytes=100), None),
        ("reduce_scatter", Message(in_elems=800, out_elems=100, dtype="Float"), 3200),
        ("reduce_scatter", Message(out_bytes=100, group_size=8), 800),
        ("all_to_all", Message(in_elems=7, out_elems=9, dtype="Byte"), 7),
        ("all_to_all", Message(in_elems=0, out_elems=9, dtype="Byte"), 0),
        ("send_recv", Message(in_elems=0, out_elems=5, dtype="Half"), 10),
        ("broadcast", Message(in_elems=5, out_elems=5, dtype="Long"), 40),
        ("reduce", Message(in_bytes=64, in_elems=1, dtype="Byte"), 64),
        ("barrier", Message(in_elems=1, dtype="Byte"), None),
        ("generic", Message(in_elems=1, dtype="Byte"), None),
        ("all_reduce", Message(in_elems=100), None),
        ("all_reduce", Message(in_elems=-1, dtype="Byte"), None),
        ("all_reduce", Message(in_elems=2**62, dtype="Double"), None),
        ("all_reduce", Message(), None),
    ],
)
def test_size_of_a_message(op, message, size):
    assert message_bytes(op, message) == size


@pytest.mark.parametrize(
    ("op", "ranks", "factor"),
    [
        ("all_reduce", 8, 1.75),
        ("all_gather", 8, 0.875),
        ("reduce_scatter", 4, 0.75),
        ("all_to_all", 2, 0.5),
        ("broadcast", None, 1.0),
        ("send_recv", 2, 1.0),
        ("all_reduce", None, None),
        ("all_reduce", 1, 0.0),
        ("barrier", 8, None),
        ("generic", 8, None),
    ],
)
def test_bus_factor(op, ranks, factor):
    assert bus_factor(op, ranks) == factor


@pytest.mark.parametrize(
    ("size", "ranks", "expected"),
    [
        (8, None, 8),
        (8, "[0, 1]", 8),
        (None, "[0, 1, 2]", 3),
        (0, "[0, 1, 2]", None),
        (None, "[0, 1, ...]", None),
        (None, "[]", None),
        (None, "{}", None),
        (None, "[" * 100_000, None),
        (None, None, None),
    ],
)
def test_ranks_of_a_group(size, ranks, expected):
    assert ranks_in(size, ranks) == expected
