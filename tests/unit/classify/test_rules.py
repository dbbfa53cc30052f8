"""Each rule decides its own examples, and every kernel name of known class gets that class."""

import csv
from collections.abc import Callable
from pathlib import Path

import pytest

from tracelens.classify import host
from tracelens.classify.names import normalize, signature
from tracelens.classify.rules import class_table, dtype_table, facts_of, kernel_class, kernel_dtype
from tracelens.classify.table import Rule, Table
from tracelens.classify.tilings import backward_table, tiling_table
from tracelens.taxonomy import CLASS_LEAF

TABLES: dict[str, tuple[Table, Callable[[str], str]]] = {
    "class": (class_table(), lambda name: signature(normalize(name))),
    "dtype": (dtype_table(), normalize),
    "tiling": (tiling_table(), normalize),
    "backward": (backward_table(), normalize),
    "op_class": (host.op_class_table(), host.plain_name),
    "collective": (host.collective_table(), host.plain_name),
    "host_dtype": (host.dtype_table(), host.plain_name),
    **{f"host_{t}": (host.label_table(t), host.plain_name) for t in host.TARGETS},
}


@pytest.mark.parametrize("table_name", TABLES)
def test_every_example_is_decided_by_its_own_rule(table_name: str) -> None:
    table, spell = TABLES[table_name]
    shadowed = [
        (rule.value, example, winner.value if winner else None)
        for rule in table.rules
        for example in rule.examples
        if not _is_rule(winner := table.match(spell(example)), rule)
    ]
    assert shadowed == []


@pytest.mark.parametrize("table_name", TABLES)
def test_no_near_miss_matches(table_name: str) -> None:
    table, spell = TABLES[table_name]
    caught = [
        (rule.value, name)
        for rule in table.rules
        for name in rule.near_misses
        if rule.pattern.search(spell(name))
    ]
    assert caught == []


@pytest.mark.parametrize("table_name", TABLES)
def test_every_rule_has_an_example(table_name: str) -> None:
    table, _ = TABLES[table_name]
    assert [rule.pattern.pattern for rule in table.rules if not rule.examples] == []


def test_an_example_behind_a_general_rule_is_seen_as_shadowed() -> None:
    table = Table.of(
        [
            {"class": "gemm", "pattern": "kernel"},
            {"class": "norm", "pattern": "norm", "examples": ["norm_kernel"]},
        ],
        "class",
    )
    assert not _is_rule(table.match("norm_kernel"), table.rules[1])


def test_classes_are_the_vocabulary() -> None:
    by_name = {rule.value for rule in class_table().rules}
    assert by_name <= set(CLASS_LEAF) - {"graph"}
    assert set(CLASS_LEAF) - {"graph"} - by_name == set()
    assert {rule.value for rule in host.op_class_table().rules} <= set(CLASS_LEAF)
    assert {rule.value for rule in host.collective_table().rules} == {
        name for name in CLASS_LEAF if name.startswith(("collective:", "p2p:"))
    }


def test_known_names_get_their_class(shared: Path) -> None:
    wrong = [
        (row["class"], kernel_class(row["name"]), row["name"])
        for row in _known_names(shared)
        if kernel_class(row["name"]) != row["class"]
    ]
    assert wrong == []


def test_known_names_get_their_dtype(shared: Path) -> None:
    # "fp16/bf16" marks names that do not tell which of the two it is.
    wanted = [(row["name"], row["dtype"]) for row in _known_names(shared) if row["dtype"]]
    wrong = [
        (dtype, kernel_dtype(name), name)
        for name, dtype in wanted
        if kernel_dtype(name) != (None if "/" in dtype else dtype)
    ]
    assert wrong == []
    assert len(wanted) == 323


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # fbgemm is a library, lambda is C++, rotary embeddings look nothing up.
        ("void fbgemm_gpu::permute_2D_lengths_kernel<int>(int)", "embedding"),
        ("void f<g()::{lambda(float)#1}>(int)", "other"),
        ("rotary_embedding_kernel<c10::BFloat16, true>(long const*)", "elementwise"),
        # Inductor lists what it fused.
        ("triton_poi_fused_addmm_gelu_view_17", "elementwise"),
        ("triton_tem_fused_addmm_t_view_9", "gemm"),
        # One wrapper, two lives.
        ("cutlass::device_kernel<flash::FlashAttnFwdSm90<int>>(int)", "attention"),
        ("cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<int>>(int)", "gemm"),
        ("Cijk_S_PostGSU4", "gemm_aux"),
        ("completely_unheard_of", "other"),
        ("", "other"),
    ],
)
def test_traps(name: str, expected: str) -> None:
    assert kernel_class(name) == expected


def test_a_name_without_a_rule_differs_from_one_that_is_known_as_other() -> None:
    assert facts_of("void max_pool_forward_nchw<float>(int)").kernel_class == "other"
    assert facts_of("triton__0d1d2d").kernel_class is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("nvjet_tss_192x192_64x3_2x1_v_bz_coopB_NTN", "bf16"),
        ("nvjet_qrtst_128x160_128x5_2x1_v_bz_coopA_algo2_TNT", "fp8"),
        ("cutlass::Kernel<cutlass_80_tensorop_s1688gemm_64x64_32x6_tn_align4>", "tf32"),
        ("void vllm::reshape_and_cache<__half, (vllm::Fp8KVCacheDataType)1>(int)", "fp16"),
        ("kernel<double, float>(float*)", "fp32"),
        ("gemv<double, double>(double*)", "fp64"),
        ("kernel<int>(int*)", None),
    ],
)
def test_dtype_traps(name: str, expected: str | None) -> None:
    assert kernel_dtype(name) == expected


def _is_rule(winner: Rule | None, rule: Rule) -> bool:
    return winner is rule


def _known_names(shared: Path) -> list[dict[str, str]]:
    with (shared / "data" / "kernel_names.tsv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    assert len(rows) == 543
    return [row for row in rows if "UNVERIFIED" not in (row["note"] or "")]
