"""The ladder of real kernels, each step beside a calculation by hand.

Sizes are [m, n, k] of the operator's record; rates are those of the data sheets (H100 SXM: 989.4
TFLOP/s in bf16, 1,978.9 in fp8, 3.35 TB/s, 132 SMs; MI300X: 1,307.4, 5.3 TB/s, 304 CUs).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tracelens

CHROME = "traces/chrome/"
FILES = {
    "bert": CHROME + "tracelens/h100/gaunernst_bert-small-uncased__1016001.json.gz",
    "vit": CHROME + "tracelens/h100/Falconsai_nsfw_image_detection__1016002.json.gz",
    "qwen": CHROME + "tracelens/mi300/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz",
    "bert_mi300": CHROME + "tracelens/mi300/gaunernst_bert-small-uncased__1016001.json.gz",
    "vit_mi300": CHROME + "tracelens/mi300/Falconsai_nsfw_image_detection__1016002.json.gz",
    "nanogpt": CHROME + "modded-nanogpt/h100_8rank/rank0.json.gz",
}
STEPS = (
    "precision",
    "memory",
    "sm_reserved",
    "quantisation",
    "clock",
    "ceiling",
    "kernel",
    "contention",
)
H100, H100_BYTES, H100_SMS = 989.4e12, 3.35e12, 132
MI300, MI300_BYTES, MI300_CUS = 1_307.4e12, 5.3e12, 304


@pytest.fixture(scope="module")
def traces(shared: Path) -> Iterator[dict[str, tracelens.Run]]:
    missing = [path for path in FILES.values() if not (shared / path).is_file()]
    if missing:
        pytest.skip(f"no such trace: {missing[0]}")
    runs = {name: tracelens.attribute(shared / path) for name, path in FILES.items()}
    yield runs
    for run in runs.values():
        run.close()


def kernels(run: tracelens.Run, m: int, n: int, k: int) -> list[dict[str, Any]]:
    found = run.sql(
        f"SELECT * FROM ladder WHERE m = {m} AND n = {n} AND k = {k} AND owned_ns > 0"
    ).to_pylist()
    assert found
    return found


def ideal_ns(m: int, n: int, k: int, rate: float) -> float:
    return 2 * m * n * k / rate * 1e9


@pytest.mark.parametrize("name", FILES)
def test_losses_sum_to_the_nanosecond(traces: dict[str, tracelens.Run], name: str) -> None:
    total = " + ".join(f"coalesce({step}_ns, 0)" for step in STEPS)
    bad = f"owned_ns - ideal_ns <> {total} + sharing_ns + faster_than_peak_ns"
    rows = traces[name].sql(f"SELECT count(*) FILTER ({bad}) AS bad, count(*) AS all FROM ladder")
    (row,) = rows.to_pylist()
    assert row["bad"] == 0
    assert row["all"] > 20


@pytest.mark.parametrize("name", FILES)
def test_no_kernel_beats_its_peak_unseen(traces: dict[str, tracelens.Run], name: str) -> None:
    """Counted from the shapes again, apart from the ladder."""
    run = traces[name]
    peaks = {"bf16": H100, "fp8": 1_978.9e12, "fp32": 67e12}
    if name.endswith("mi300") or name == "qwen":
        peaks = {"bf16": MI300, "fp32": 163.4e12}  # triton's names tell no format: it is bf16
    rows = run.sql(
        "SELECT dtype, executed_flop, dur_ns FROM activity WHERE executed_flop > 0"
    ).to_pylist()
    limits = [row["executed_flop"] / peaks[row["dtype"] or "bf16"] * 1e9 for row in rows]
    fast = [1 for row, limit in zip(rows, limits, strict=True) if row["dur_ns"] < 0.98 * limit]
    answer = run.to_dict()
    assert answer["ladder"]["faster_than_peak"] == len(fast) == 0
    assert not any("faster than the peak" in note for note in answer["quality"]["notes"])


def test_precision(traces: dict[str, tracelens.Run]) -> None:
    """An eighth of the FLOPs in fp8 raises the reference; bf16 kernels fall short of it."""
    run = traces["nanogpt"]
    peak = run.to_dict()["peak"]["flop_per_s"]
    assert peak > H100
    for m, n, k, rate in (
        (16_384, 3_072, 768, H100),
        (3_072, 768, 16_384, H100),
        (16_384, 768, 2_304, H100),
        (16_384, 50_304, 768, 1_978.9e12),
    ):
        wanted = ideal_ns(m, n, k, rate) - ideal_ns(m, n, k, peak)
        assert (wanted < 0) == (rate > H100)
        for row in kernels(run, m, n, k):
            assert row["precision_ns"] == pytest.approx(wanted, abs=1)


@pytest.mark.parametrize(
    ("name", "size", "wanted_ns"),
    [
        # 2 (141 512 + 512 30522 + 141 30522) bytes in 11,942 ns; the FLOPs take 4,454.
        ("bert", (141, 30_522, 512), 11_942 - 4_454),
        # 2 (788 768 + 768 768 + 788 768) bytes in 1,075 ns; the FLOPs take 940.
        ("vit", (788, 768, 768), 1_075 - 940),
        # 2 (4 768 + 768 768 + 4 768) bytes in 356 ns; the FLOPs take 5.
        ("vit", (4, 768, 768), 356 - 5),
        ("bert_mi300", (141, 30_522, 512), 7_548 - 3_371),
    ],
)
def test_memory(
    traces: dict[str, tracelens.Run], name: str, size: tuple[int, int, int], wanted_ns: int
) -> None:
    for row in kernels(traces[name], *size):
        assert row["memory_ns"] == pytest.approx(wanted_ns, abs=1)


def test_sm_budget(traces: dict[str, tracelens.Run]) -> None:
    """98 persistent blocks for 7 x 24 = 168 tiles: 34 of 132 SMs have nothing to do."""
    rows = kernels(traces["vit"], 788, 3_072, 768)
    assert len(rows) == 12
    arithmetic = ideal_ns(788, 3_072, 768, H100)
    for row in rows:
        assert row["sm_reserved_factor"] == pytest.approx(98 / 132)
        assert row["sm_reserved_ns"] == pytest.approx(arithmetic * (132 / 98 - 1), abs=1)
        # ... and 168 tiles take two rounds of 98.
        quantisation = (7 * 128) / 788 * (2 * 98) / 168
        wanted = arithmetic * 132 / 98 * (quantisation - 1)
        assert row["quantisation_ns"] == pytest.approx(wanted, abs=1)


@pytest.mark.parametrize(
    ("name", "size", "factor"),
    [
        # Tiles of 64 x 64: 8 x 3 on 132 SMs, 141 of 192 rows used; longer than memory (842 ns).
        ("bert", (141, 512, 2_048), 192 / 141 * 132 / 24),
        # Tiles of 128 x 64: 6 x 13 on 132 SMs, 788 of 832 rows used.
        ("vit", (788, 768, 3_072), 832 / 788 * 132 / 78),
        ("vit", (788, 768, 768), 832 / 788 * 132 / 78),
        # Tiles of 256 x 128: 4 x 70 on 304 CUs, 8,944 of 8,960 rows used.
        ("qwen", (8_944, 1_024, 1_024), 8_960 / 8_944 * 304 / 280),
        ("qwen", (8_944, 1_024, 2_816), 8_960 / 8_944 * 304 / 280),
        # Tiles of 128 x 224: 22 x 40 in three waves of 304.
        ("qwen", (8_944, 2_816, 1_024), 8_960 / 8_944 * 3 * 304 / 880),
        # Tiles of 64 x 160: 48 x 5 on 304 CUs, 788 of 800 rows used.
        ("vit_mi300", (788, 3_072, 768), 800 / 788 * 304 / 240),
    ],
)
def test_tiles_and_waves(
    traces: dict[str, tracelens.Run], name: str, size: tuple[int, int, int], factor: float
) -> None:
    rate, moved_per_s = (H100, H100_BYTES) if name in {"bert", "vit"} else (MI300, MI300_BYTES)
    m, n, k = size
    memory = 2 * (m * k + k * n + m * n) / moved_per_s * 1e9
    before = max(ideal_ns(*size, rate), memory)
    for row in kernels(traces[name], *size):
        assert 1 / row["quantisation_factor"] == pytest.approx(factor, rel=1e-12)
        wanted = max(ideal_ns(*size, rate) * factor, before) - before
        assert row["quantisation_ns"] == pytest.approx(wanted, abs=1)


@pytest.mark.parametrize(
    ("name", "size", "fraction"),
    [
        ("vit", (788, 768, 3_072), 794.5 / 989.4),
        ("qwen", (8_944, 1_024, 1_024), 668.4 / 1_307.4),
        ("qwen", (8_944, 2_816, 1_024), 668.4 / 1_307.4),
        ("vit_mi300", (788, 3_072, 768), 668.4 / 1_307.4),
    ],
)
def test_declared_ceiling(
    traces: dict[str, tracelens.Run], name: str, size: tuple[int, int, int], fraction: float
) -> None:
    """Best matmul that somebody measured over the nominal peak: declared, never called a clock."""
    rate = H100 if name == "vit" else MI300
    for row in kernels(traces[name], *size):
        assert row["clock_ns"] is None
        assert row["ceiling_factor"] == pytest.approx(fraction)
        arithmetic = ideal_ns(*size, rate) / row["quantisation_factor"]
        wanted = min(arithmetic / fraction, row["owned_ns"]) - arithmetic
        assert row["ceiling_ns"] == pytest.approx(wanted, abs=1)


def test_clock(shared: Path) -> None:
    """No shared trace holds clocks: an MI300X at 1,200 of 2,100 MHz, as AMD's own best runs do."""
    path = shared / FILES["qwen"]
    if not path.is_file():
        pytest.skip(f"no such trace: {path}")
    with tracelens.attribute(path, sm_clock_mhz=1_200) as run:
        for size in ((8_944, 1_024, 1_024), (8_944, 1_024, 2_816), (8_944, 2_816, 1_024)):
            for row in kernels(run, *size):
                assert row["ceiling_ns"] is None
                arithmetic = ideal_ns(*size, MI300) / row["quantisation_factor"]
                wanted = arithmetic * (2_100 / 1_200 - 1)
                assert row["clock_ns"] == pytest.approx(wanted, abs=1)
                assert row["kernel_ns"] == pytest.approx(
                    row["owned_ns"] - arithmetic * 2_100 / 1_200, abs=1
                )


def test_kernel_quality_is_what_is_left(traces: dict[str, tracelens.Run]) -> None:
    for name, size in (
        ("bert", (141, 512, 512)),
        ("vit", (788, 3_072, 768)),
        ("qwen", (8_944, 2_816, 1_024)),
    ):
        for row in kernels(traces[name], *size):
            others = [row[f"{step}_ns"] or 0 for step in STEPS if step != "kernel"]
            assert row["kernel_ns"] == row["owned_ns"] - row["ideal_ns"] - sum(others) > 0
            assert row["contention_ns"] == 0 == row["beside_frac"]


def test_contention_is_not_known_where_nothing_ran_alone(
    traces: dict[str, tracelens.Run],
) -> None:
    """Matmuls of Muon always run beside the reduction of gradients: no time alone, no figure."""
    for size in ((768, 768, 768), (768, 3_072, 768), (6, 12, 6)):
        for row in kernels(traces["nanogpt"], *size):
            assert row["beside_frac"] >= 0.5
            assert (row["alone_count"], row["alone_ns"]) == (0, None)
            assert row["contention_ns"] is None
            assert row["contention_factor"] is None
    parts = traces["nanogpt"].to_dict()["ladder"]["parts"]
    (step,) = [s for p in parts if p["part"] == "gemm" for s in p["steps"] if "beside" in s]
    assert step["low_ns"] == 0 < step["high_ns"]
    assert (step["measured"], step["beside"] > 20) == (0, True)


@pytest.mark.parametrize(
    ("name", "size", "alone_ns", "beside"),
    [
        # Batches of 2 and of 8 products; medians of the five and the four that ran alone.
        ("nanogpt", (768, 3_072, 768), 13_952, {22_752: 8_800, 22_784: 8_832, 22_879: 8_927}),
        ("nanogpt", (768, 768, 768), 18_048, {45_664: 27_616, 45_952: 27_904, 17_344: 0}),
    ],
)
def test_contention_is_what_a_kernel_takes_longer_than_alone(
    shared: Path, name: str, size: tuple[int, int, int], alone_ns: int, beside: dict[int, int]
) -> None:
    """Warm-up steps included: there the reduction of gradients comes later."""
    path = shared / FILES[name]
    if not path.is_file():
        pytest.skip(f"no such trace: {path}")
    with tracelens.attribute(path, window="all") as run:
        rows = kernels(run, *size)
    assert {row["alone_ns"] for row in rows} == {alone_ns}
    alone = sorted(row["owned_ns"] for row in rows if row["beside_frac"] == 0)
    middle = len(alone) // 2
    assert round((alone[middle] + alone[~middle]) / 2) == alone_ns
    found = {row["owned_ns"]: row["contention_ns"] for row in rows if row["beside_frac"] >= 0.5}
    assert beside.items() <= found.items()


def test_contention_of_a_convolution_on_rocm(shared: Path) -> None:
    """Kernels that ran alone took 20,159, 20,679 and 21,959 ns."""
    path = shared / CHROME / "tracelens/mi300/resnet_act_checkpoint.json.gz"
    if not path.is_file():
        pytest.skip(f"no such trace: {path}")
    with tracelens.attribute(path, window="all") as run:
        rows = run.sql(
            "SELECT owned_ns, contention_ns, alone_ns FROM ladder WHERE beside_frac >= 0.5 "
            "AND shape = '10x512x7x7:bf16 10x512x7x7:bf16 512x512x3x3:bf16' "
            "AND name LIKE 'igemm_bwd%'"
        ).to_pylist()
    assert {row["alone_ns"] for row in rows} == {20_679}
    found = {row["owned_ns"]: row["contention_ns"] for row in rows}
    assert found == {
        21_079: 400,
        20_959: 280,
        21_839: 1_160,
        21_159: 480,
        21_399: 720,
        20_439: 0,
    }
