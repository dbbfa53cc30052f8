"""Both spellings of a kernel give one name, and no name breaks the normaliser."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracelens.classify.names import normalize, signature
from tracelens.classify.rules import classify_names, facts_of


@pytest.mark.parametrize(
    ("cupti", "nsight"),
    [
        (
            "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
            "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)",
        ),
        (
            "void (anonymous namespace)::softmax_warp_forward<float, 10, true, 2u, 3l>(char**)",
            "void <unnamed>::softmax_warp_forward<float, (int)10, (bool)1, "
            "(unsigned int)2, (long)3>(char **)",
        ),
        (
            "void k<at::native::AddFunctor<float> >(int, at::native::AddFunctor<float>)",
            "void k<at::native::AddFunctor<float>>(int, at::native::AddFunctor<float>)",
        ),
        (
            "void k<128, f()::{lambda()#2}::operator()() const::{lambda(float, bool)#1} >(A&)",
            "void k<(int)128, f()::[lambda() (instance 2)]::operator ()() const"
            "::[lambda(float, bool) (instance 1)]>(A &)",
        ),
        ("void k<4, g::impl<int> >(int)", "void k<(int)4, void g::impl<int>>(int)"),
        ("__amd_rocclr_copyBuffer", "__amd_rocclr_copyBuffer.kd"),
        (
            "std::enable_if<!(false), void>::type internal::gemvx::kernel<int>(int)",
            "void internal::gemvx::kernel<int>(int)",
        ),
    ],
)
def test_two_spellings_one_name(cupti: str, nsight: str) -> None:
    assert normalize(cupti) == normalize(nsight)


@pytest.mark.parametrize(
    ("mangled", "name"),
    [
        ("_ZN5aiter24fmha_fwd_hd128_bf16_rtneE", "aiter::fmha_fwd_hd128_bf16_rtne"),
        (
            "_Z40ncclDevKernel_AllReduce_Sum_bf16_TREE_LLP11ncclDevCommmP8ncclWork",
            "ncclDevKernel_AllReduce_Sum_bf16_TREE_LL<ncclDevComm, ncclWork>",
        ),
        ("_ZN2at6native12_GLOBAL__N_13addIfDF16bLi2EEEvT_", "at::native::add<float, bfloat16>"),
        # The value of an enumerator (2) is not the length of a name.
        ("_Z1kILN3foo4EnumE2E6EngineEvv", "k<foo, Enum, Engine>"),
        ("_Z", "_Z"),
        ("_Z9999999999x", "_Z9999999999x"),
    ],
)
def test_mangled_names(mangled: str, name: str) -> None:
    assert normalize(mangled) == name


def test_the_parameter_list_is_dropped_and_nothing_else() -> None:
    text = normalize("void k<f(int)::{lambda(float)#1}, 3>(float*, g<int>)")
    assert signature(text) == "k<f(int)::{lambda(float)#1}, 3>"
    assert signature("plain") == "plain"
    assert signature("(odd)") == "(odd)"


@given(st.text(max_size=60) | st.text("_Z0123456789NEILSTfdKP", max_size=60))
def test_any_text_is_a_name(text: str) -> None:
    facts_of(text)
    facts_of("_Z" + text)


def test_a_hostile_name_costs_no_time() -> None:
    names = ["cutlass" * 200_000, "a" * 2_000_000, "<(" * 500_000, "_Z" + "9999" * 500_000]
    started = time.process_time()
    classify_names(names)
    assert time.process_time() - started < 2.0


def test_a_thousand_names_that_match_last_take_half_a_second() -> None:
    argument = (
        "at::native::BinaryFunctor<float, float, float, at::native::binary_internal::Mul<float> >"
    )
    names = [
        f"void at::native::unrolled_elementwise_kernel<{argument}, std::array<char*, {i}ul>, "
        f"TrivialOffsetCalculator<2, unsigned int> >(int, {argument}, TrivialOffsetCalculator<{i}>)"
        for i in range(1_000)
    ]
    started = time.process_time()
    facts = classify_names(names)
    assert time.process_time() - started < 1.5  # 0.5 s where measured
    assert {fact.kernel_class for fact in facts} == {"elementwise"}
