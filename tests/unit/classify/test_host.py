"""What the host did is read from whole words, and running compiled code is no compilation."""

import pytest

from tracelens.classify import host_label
from tracelens.classify.host import collective_class, framework_dtype, op_class, plain_name


@pytest.mark.parametrize(
    ("name", "target", "expected"),
    [
        ("cudaMemcpyAsync_v3020", "call", "launch"),
        ("cudaMemcpy_v3020", "call", "blocking"),
        ("cudaStreamSynchronize", "call", "blocking"),
        ("cudaStreamSynchronize_ptsz", "call", "blocking"),
        ("cudaEventQuery", "call", None),
        ("cudaFree", "call", "alloc"),
        ("cuLibraryLoadData", "call", "compile"),
        ("futex", "call", None),
        ("## Call CompiledFxGraph fxyz ##", "range", None),
        ("Torch-Compiled Region: 0/0", "op", None),
        ("entire_frame_compile (dynamo_timed)", "op", "compile"),
        ("re.py(250): compile", "range", None),
        ("data", "range", "dataloader"),
        ("data_loading", "range", "dataloader"),
        ("train_batch", "range", None),
        ("aten::_log_softmax_backward_data, op_id = 12", "range", "backward"),
        ("data, op_id = 12", "range", None),
        ("iteration 7", "range", "step"),
        ("ProfilerStep#7", "op", "step"),
        ("Step 190 to 200", "range", None),
        ("torch/utils/checkpoint.py(1111): unpack_hook", "range", None),
        ("torch/serialization.py(850): save", "range", "ckpt"),
        ("torch/distributed/checkpoint/state_dict_saver.py(59): async_save", "range", "ckpt"),
        ("gc_collect", "range", "gc"),
        ("gcn", "range", None),
        ("Optimizer.zero_grad#SGD.zero_grad", "range", None),
        ("nccl:all_reduce", "range", "collective_api"),
        ("Command Buffer Full", "overhead", "launch"),
    ],
)
def test_labels(name: str, target: str, expected: str | None) -> None:
    assert host_label(name, target) == expected


def test_decorations_are_dropped() -> None:
    assert plain_name("cudaLaunchKernelExC_v11060") == "cudaLaunchKernelExC"
    assert plain_name("aten::mm, seq = 47588, op_id = 999617") == "aten::mm"
    assert plain_name("cuMemcpyDtoH_v2") == "cuMemcpyDtoH_v2"


def test_ops_and_operations() -> None:
    assert op_class("aten::addmm, op_id = 4") == "gemm"
    assert op_class("aten::_foreach_copy_") == "copy"
    assert op_class("Torch-Compiled Region: 0/0") is None
    assert collective_class("_reduce_scatter_base") == "collective:reducescatter"
    assert collective_class("wait") is None
    assert framework_dtype("c10::Half") == "fp16"
    assert framework_dtype("Long") is None
