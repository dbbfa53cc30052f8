"""Which kernels does a PyTorch job on an H100 run, and how do profilers spell them?

Each name stands twice: as CUPTI demangles it for Kineto, and as Nsight Systems exports it.
"""

from tracelens.simulate.actions import Copy, Kernel

_ARRAYS = "std::array<char*, {n}ul> >(int, {f}, std::array<char*, {n}ul>)"
_NSYS_ARRAYS = "std::array<char *, (unsigned long){n}>>(int, T2, T3)"
_BLOCK_ELEMENTS = 1024


def elementwise(leaf: str, functor: str, nsys_functor: str, operands: int, elems: int) -> Kernel:
    """A vectorized pointwise kernel over ``elems`` elements; ``operands`` counts the output."""
    arrays = _ARRAYS.format(n=operands, f=functor)
    return Kernel(
        leaf=leaf,
        name=f"void at::native::vectorized_elementwise_kernel<8, {functor}, {arrays}",
        nsys_name=(
            f"void at::native::vectorized_elementwise_kernel<(int)8, {nsys_functor}, "
            + _NSYS_ARRAYS.format(n=operands)
        ),
        grid=(max(1, -(-elems // _BLOCK_ELEMENTS)), 1, 1),
    )


def add(elems: int) -> Kernel:
    """Sum of two tensors."""
    functor = "at::native::CUDAFunctor_add<c10::BFloat16>"
    return elementwise("compute.elementwise", functor, functor, 3, elems)


_GELU = (
    "at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&, at::native::GeluType)"
    "::{lambda()#2}::operator()() const::{lambda()#4}::operator()() const"
    "::{lambda(c10::BFloat16)#1}"
)
_NSYS_GELU = (
    "at::native::GeluCUDAKernelImpl(at::TensorIteratorBase &, at::native::GeluType)"
    "::[lambda() (instance 2)]::operator ()() const::[lambda() (instance 4)]::operator ()() const"
    "::[lambda(c10::BFloat16) (instance 1)]"
)


def gelu(elems: int) -> Kernel:
    """GELU, forward."""
    return elementwise("compute.elementwise", _GELU, _NSYS_GELU, 2, elems)


def gelu_backward(elems: int) -> Kernel:
    """GELU, backward."""
    old, new = "GeluCUDAKernelImpl", "GeluBackwardCUDAKernelImpl"
    twice = "{lambda(c10::BFloat16, c10::BFloat16)#1}"
    nsys_twice = "[lambda(c10::BFloat16, c10::BFloat16) (instance 1)]"
    name = _GELU.replace(old, new).replace("{lambda(c10::BFloat16)#1}", twice)
    nsys_name = _NSYS_GELU.replace(old, new).replace(
        "[lambda(c10::BFloat16) (instance 1)]", nsys_twice
    )
    return elementwise("compute.elementwise", name, nsys_name, 3, elems)


def tiny(index: int) -> Kernel:
    """One of the small kernels that building a mask op by op takes."""
    functors = (
        (
            "at::native::AUnaryFunctor<long, long, bool, "
            "at::native::(anonymous namespace)::CompareEqFunctor<long> >",
            "at::native::AUnaryFunctor<long, long, bool, "
            "at::native::<unnamed>::CompareEqFunctor<long>>",
        ),
        ("at::native::CUDAFunctor_add<float>", "at::native::CUDAFunctor_add<float>"),
        ("at::native::CUDAFunctorOnSelf_add<float>", "at::native::CUDAFunctorOnSelf_add<float>"),
        ("at::native::FillFunctor<float>", "at::native::FillFunctor<float>"),
    )
    name, nsys_name = functors[index % len(functors)]
    return elementwise("compute.elementwise", name, nsys_name, 2 + index % 2, 2048)


def gemm(layout: str) -> Kernel:
    """A persistent cuBLASLt matmul; ``layout`` is the pair of operand layouts, e.g. ``TN``."""
    tiles = {
        "TN": "nvjet_tst_256x128_64x4_1x2_h_bz_coopA_TNT",
        "NN": "nvjet_tst_256x128_64x4_1x2_h_bz_coopA_NNT",
        "NT": "nvjet_tst_192x192_64x4_2x1_v_bz_coopB_NTN",
    }
    return Kernel(
        leaf="flop.gemm",
        name=tiles[layout],
        nsys_name=tiles[layout],
        grid=(132, 1, 1),
        block=(384, 1, 1),
        registers=168,
        shared_bytes=199_680,
        api="cuLaunchKernelEx",
    )


def xmma_gemm(rows: int, columns: int) -> Kernel:
    """A cuBLAS matmul with one block a tile of 128 x 128."""
    name = (
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_nt_n_tilesize128x128x64_warpgroupsize1x1x1"
        "_execute_segment_k_off_kernel__5x_cublas"
    )
    return Kernel(
        leaf="flop.gemm",
        name=name,
        nsys_name=name,
        grid=(-(-rows // 128), -(-columns // 128), 1),
        block=(384, 1, 1),
        registers=168,
        shared_bytes=213_504,
        api="cudaLaunchKernelExC",
    )


_FWD_TRAITS = (
    "Flash_fwd_kernel_traits<64, 128, 128, 4, false, false, cutlass::bfloat16_t, "
    "pytorch_flash::Flash_kernel_traits<64, 128, 128, 4, cutlass::bfloat16_t> >"
)
_NSYS_FWD_TRAITS = (
    "Flash_fwd_kernel_traits<(int)64, (int)128, (int)128, (int)4, (bool)0, (bool)0, "
    "cutlass::bfloat16_t, pytorch_flash::Flash_kernel_traits<(int)64, (int)128, (int)128, "
    "(int)4, cutlass::bfloat16_t>>"
)
_BWD_TRAITS = (
    "pytorch_flash::Flash_bwd_kernel_traits<64, 128, 128, 8, 4, 4, 4, false, false, "
    "cutlass::bfloat16_t, pytorch_flash::Flash_kernel_traits<64, 128, 128, 8, "
    "cutlass::bfloat16_t> >"
)
_NSYS_BWD_TRAITS = (
    "pytorch_flash::Flash_bwd_kernel_traits<(int)64, (int)128, (int)128, (int)8, (int)4, "
    "(int)4, (int)4, (bool)0, (bool)0, cutlass::bfloat16_t, "
    "pytorch_flash::Flash_kernel_traits<(int)64, (int)128, (int)128, (int)8, "
    "cutlass::bfloat16_t>>"
)


def flash_forward(blocks: int, heads: int, batch: int) -> Kernel:
    """Causal flash attention, forward."""
    return Kernel(
        leaf="flop.attn",
        name=f"void pytorch_flash::flash_fwd_kernel<pytorch_flash::{_FWD_TRAITS}, "
        "false, true, false, false, true, true, false>(pytorch_flash::Flash_fwd_params)",
        nsys_name=f"void pytorch_flash::flash_fwd_kernel<pytorch_flash::{_NSYS_FWD_TRAITS}, "
        "(bool)0, (bool)1, (bool)0, (bool)0, (bool)1, (bool)1, (bool)0>"
        "(pytorch_flash::Flash_fwd_params)",
        grid=(blocks, batch, heads),
        registers=255,
        shared_bytes=49_152,
    )


def flash_backward(blocks: int, heads: int, batch: int) -> tuple[Kernel, Kernel, Kernel]:
    """Causal flash attention, backward: row sums, the work, conversion of dQ."""
    grid = (blocks, batch, heads)

    def kernel(leaf: str, name: str, flags: tuple[bool, ...], more: str) -> Kernel:
        texts = ", ".join("true" if flag else "false" for flag in flags)
        nsys_texts = ", ".join(f"(bool){int(flag)}" for flag in flags)
        first = name == "flash_bwd_dot_do_o_kernel"
        types = [f"{_BWD_TRAITS}, {texts}", f"{_NSYS_BWD_TRAITS}, {nsys_texts}"]
        if first:
            types = [f"{texts}, {_BWD_TRAITS} ", f"{nsys_texts}, {_NSYS_BWD_TRAITS}"]
        elif not flags:
            types = [f"{_BWD_TRAITS} ", _NSYS_BWD_TRAITS]
        return Kernel(
            leaf=leaf,
            name=f"void pytorch_flash::{name}<{types[0]}>(pytorch_flash::Flash_bwd_params{more})",
            nsys_name=f"void pytorch_flash::{name}<{types[1]}>"
            f"(pytorch_flash::Flash_bwd_params{more})",
            grid=grid,
            block=(256, 1, 1),
            registers=255,
            shared_bytes=147_456 if leaf == "flop.attn" else 16_384,
        )

    loop = "flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel"
    return (
        kernel("compute.attention_aux", "flash_bwd_dot_do_o_kernel", (True,), ""),
        kernel("flop.attn", loop, (False, True, False, False, True, True, False), ""),
        kernel("compute.attention_aux", "flash_bwd_convert_dq_kernel", (), ", int"),
    )


def _norm(name: str, types: str, nsys_types: str, rows: int, block: tuple[int, int, int]) -> Kernel:
    return Kernel(
        leaf="compute.norm",
        name=f"void at::native::(anonymous namespace)::{name}{types}",
        nsys_name=f"void at::native::<unnamed>::{name}{nsys_types}",
        grid=(rows, 1, 1),
        block=block,
    )


def norm(rows: int) -> Kernel:
    """Layer norm, forward."""
    return _norm(
        "vectorized_layer_norm_kernel",
        "<c10::BFloat16, float, false>(int, float, c10::BFloat16 const*, c10::BFloat16 const*, "
        "c10::BFloat16 const*, float*, float*, c10::BFloat16*)",
        "<c10::BFloat16, float, (bool)0>(int, T2, const T1 *, const T1 *, const T1 *, T2 *, T2 *, "
        "T1 *)",
        rows,
        (32, 4, 1),
    )


def norm_backward(rows: int, hidden: int) -> tuple[Kernel, Kernel]:
    """Layer norm, backward: input gradient, and gradients of scale and shift."""
    return (
        _norm(
            "layer_norm_grad_input_kernel",
            "<c10::BFloat16, float, false>(c10::BFloat16 const*, c10::BFloat16 const*, "
            "float const*, float const*, c10::BFloat16 const*, c10::BFloat16*, int)",
            "<c10::BFloat16, float, (bool)0>(const T1 *, const T1 *, const T2 *, const T2 *, "
            "const T1 *, T1 *, int)",
            rows,
            (128, 1, 1),
        ),
        _norm(
            "GammaBetaBackwardCUDAKernel_32x32",
            "<c10::BFloat16, float>(long, long, c10::BFloat16 const*, c10::BFloat16 const*, "
            "float const*, float const*, c10::BFloat16*, c10::BFloat16*)",
            "<c10::BFloat16, float>(long, long, const T1 *, const T1 *, const T2 *, const T2 *, "
            "T1 *, T1 *)",
            max(1, hidden // 32),
            (32, 32, 1),
        ),
    )


def embedding(tokens: int) -> Kernel:
    """Rows of the embedding table."""
    return Kernel(
        leaf="compute.embedding",
        name="void at::native::vectorized_gather_kernel<16, long>"
        "(char*, char*, long*, int, long, long, long, long, bool)",
        nsys_name="void at::native::vectorized_gather_kernel<(int)16, long>"
        "(char *, char *, T2 *, int, long, long, long, long, bool)",
        grid=(tokens, 1, 1),
    )


def embedding_backward(tokens: int) -> Kernel:
    """Gradient of the embedding table."""
    return Kernel(
        leaf="compute.embedding",
        name="void at::native::(anonymous namespace)::embedding_backward_feature_kernel"
        "<c10::BFloat16, float, long>(long const*, c10::BFloat16 const*, c10::BFloat16*, int, "
        "long, int)",
        nsys_name="void at::native::<unnamed>::embedding_backward_feature_kernel"
        "<c10::BFloat16, float, long>(const T3 *, const T1 *, T1 *, int, long, int)",
        grid=(-(-tokens // 32), 1, 1),
        block=(32, 32, 1),
    )


def softmax(rows: int) -> Kernel:
    """Log-softmax over the vocabulary, forward."""
    return Kernel(
        leaf="compute.softmax",
        name="void at::native::(anonymous namespace)::cunn_SoftMaxForward<8, c10::BFloat16, float, "
        "c10::BFloat16, at::native::(anonymous namespace)::LogSoftMaxForwardEpilogue>"
        "(c10::BFloat16*, c10::BFloat16 const*, int)",
        nsys_name="void at::native::<unnamed>::cunn_SoftMaxForward<(int)8, c10::BFloat16, float, "
        "c10::BFloat16, at::native::<unnamed>::LogSoftMaxForwardEpilogue>(T4 *, const T2 *, int)",
        grid=(rows, 1, 1),
        block=(1024, 1, 1),
    )


def softmax_backward(rows: int) -> Kernel:
    """Log-softmax over the vocabulary, backward."""
    return Kernel(
        leaf="compute.softmax",
        name="void at::native::(anonymous namespace)::cunn_SoftMaxBackward<8, c10::BFloat16, "
        "float, c10::BFloat16, at::native::(anonymous namespace)::LogSoftMaxBackwardEpilogue>"
        "(c10::BFloat16*, c10::BFloat16 const*, c10::BFloat16 const*, long)",
        nsys_name="void at::native::<unnamed>::cunn_SoftMaxBackward<(int)8, c10::BFloat16, float, "
        "c10::BFloat16, at::native::<unnamed>::LogSoftMaxBackwardEpilogue>"
        "(T2 *, const T4 *, const T4 *, long)",
        grid=(rows, 1, 1),
        block=(1024, 1, 1),
    )


def loss(direction: str) -> Kernel:
    """Negative log-likelihood, ``forward`` or ``backward``."""
    stem = f"nll_loss_{direction}_reduce_cuda_kernel_2d"
    types = "<c10::BFloat16, float, long>" if direction == "forward" else "<c10::BFloat16, long>"
    args = "(c10::BFloat16*, c10::BFloat16*, c10::BFloat16 const*, long const*, bool, long, long)"
    return Kernel(
        leaf="compute.loss",
        name=f"void at::native::(anonymous namespace)::{stem}{types}{args}",
        nsys_name=f"void at::native::<unnamed>::{stem}{types}"
        "(T1 *, T1 *, const T1 *, const long *, bool, long, long)",
        grid=(1, 1, 1),
        block=(32, 1, 1),
    )


def adam() -> Kernel:
    """Fused AdamW over a list of tensors."""
    return Kernel(
        leaf="compute.optimizer",
        name="void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::"
        "(anonymous namespace)::FusedOptimizerTensorListMetadata<4>, at::native::"
        "(anonymous namespace)::FusedAdamMathFunctor<float, 4, (at::native::ADAM_MODE)1, false>, "
        "float*>",
        nsys_name="void at::native::<unnamed>::multi_tensor_apply_kernel<at::native::<unnamed>::"
        "FusedOptimizerTensorListMetadata<(int)4>, at::native::<unnamed>::FusedAdamMathFunctor"
        "<float, (int)4, (at::native::ADAM_MODE)1, (bool)0>, float *>(T1, T2, T3...)",
        grid=(320, 1, 1),
        block=(512, 1, 1),
        registers=64,
    )


def _nccl(stem: str) -> Kernel:
    return Kernel(
        leaf="comm",
        name=f"{stem}(ncclDevKernelArgsStorage<4096ul>)",
        nsys_name=f"{stem}(ncclDevKernelArgsStorage<(unsigned long)4096>)",
        grid=(24, 1, 1),
        block=(544, 1, 1),
        registers=96,
        shared_bytes=82_240,
        api="cuLaunchKernelEx",
    )


def all_reduce() -> Kernel:
    """Sum of bf16 gradients over a group."""
    return _nccl("ncclDevKernel_AllReduce_Sum_bf16_RING_LL")


def reduce_scatter() -> Kernel:
    """Sum of bf16 gradients over a group, each rank keeping a part."""
    return _nccl("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL")


def all_gather() -> Kernel:
    """Shards of a group, gathered on every rank."""
    return _nccl("ncclDevKernel_AllGather_RING_LL")


def send_receive() -> Kernel:
    """Point to point, and every all-to-all."""
    return _nccl("ncclDevKernel_SendRecv")


def host_to_device(size_bytes: int) -> Copy:
    """A batch from pinned memory."""
    return Copy("mem.h2d", "Memcpy HtoD (Pinned -> Device)", 1, 1, 2, size_bytes)


def device_to_host(size_bytes: int) -> Copy:
    """A value to pageable memory."""
    return Copy("mem.d2h", "Memcpy DtoH (Device -> Pageable)", 2, 2, 0, size_bytes)
