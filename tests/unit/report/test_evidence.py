import pytest

from tracelens.report import document
from tracelens.report.sections.evidence import evidence_of, largest, viewer_time

ZERO_NS = 1_700_000_000_000_000_000 - 12_345_678_901


@pytest.mark.parametrize(
    ("at_ns", "zero_ns", "trace_format", "expected"),
    [
        (1_700_000_000_000_000_000, ZERO_NS, "kineto", "12.345678 s in Perfetto"),
        (ZERO_NS, ZERO_NS, "kineto", "0.000000 s in Perfetto"),
        (1_000_000_999, 0, "nsys-sqlite", "1.000000 s in nsys-ui"),
        (5_000_001_000, 0, "nsys-rep", "5.000001 s in nsys-ui"),
        (0, 1_500_000_000, "kineto", "-1.500000 s in Perfetto"),
        (5, None, "kineto", None),
    ],
)
def test_viewer_time_is_exact(at_ns, zero_ns, trace_format, expected):
    assert viewer_time(at_ns, zero_ns, trace_format) == expected


def test_idle_evidence_names_the_late_launch(example):
    top = largest(example, 989e12)["host.sync"]

    assert len(top) == 3
    assert top[0]["text"] == (
        "largest: 20.0 ms on rank 0, ended by nvjet_tst_128x256_6…, "
        "launched by cudaLaunchKernel 20.0 ms late (aten::item)"
    )
    assert top[0]["name"] == "nvjet_tst_128x256_64x4_2x1_v_bz_coopA_TNT"
    # 935 ms of the step precede it.
    assert top[0]["start_ns"] == 1_700_000_000_000_000_000 + 935_000_000
    assert top[0]["end_ns"] - top[0]["start_ns"] == 20_000_000
    assert top[0]["viewer_time"] == "13.280678 s in Perfetto"
    assert top[0]["correlation"] == 1000 + 34
    assert top[1]["text"].startswith("next: 20.0 ms on rank 1")


def test_a_slow_matmul_beats_a_long_one(example):
    # Both took 100 ms; this one executed half of its FLOPs.
    example.execute(
        "UPDATE raw.activity_flop SET executed_flop = executed_flop / 2 WHERE activity_id = 43"
    )

    top = largest(example, 989e12)["flop.gemm"][0]

    assert top["correlation"] == 1043
    assert top["text"] == (
        "largest: 100 ms on rank 0, 361 TFLOP/s (36 % of peak) in "
        "nvjet_tst_128x256_64x4_2x1_v_bz_coopA_TNT"
    )


def test_pieces_of_one_kernel_are_one_instance(example):
    # A communication kernel of 35 ms is split in three by compute that hides its middle.
    example.execute("DELETE FROM raw.segment WHERE activity_id = 20")
    start_ns = 1_700_000_000_000_000_000 + 775_000_000
    example.append(
        "segment",
        {
            "gpu": [0, 0],
            "step": [3, 3],
            "start_ns": [start_ns, start_ns + 30_000_000],
            "end_ns": [start_ns + 20_000_000, start_ns + 50_000_000],
            "leaf": ["comm.dp.transfer"] * 2,
            "activity_id": [20, 20],
        },
    )

    top = largest(example, None)["comm.dp.transfer"][0]

    assert top["text"] == "largest: 40.0 ms on rank 0, exposed ncclDevKernel_ReduceScatter_Sum_bf16"
    assert (top["start_ns"], top["end_ns"]) == (start_ns, start_ns + 50_000_000)


def test_time_that_nothing_ended_says_so(example):
    example.append(
        "segment",
        {"gpu": [1], "step": [5], "start_ns": [10], "end_ns": [1_010], "leaf": ["idle.tail"]},
    )

    (top,) = largest(example, None)["idle.tail"]

    assert top["text"] == "largest: 1.00 µs on rank 1, nothing followed in the window"
    assert top["name"] is None
    assert top["correlation"] is None


def test_every_loss_of_the_example_has_evidence(example):
    for row in document(example)["losses"]:
        assert row["evidence"], row["id"]
        assert row["evidence"][0]["text"].startswith("largest: ")


def test_flop_losses_take_the_kernels_behind_them():
    by_leaf = {"flop.gemm": [{"text": "g"}], "flop.recompute.gemm": [{"text": "r"}]}

    assert evidence_of("below_peak.gemm.clock", by_leaf) == [{"text": "g"}]
    assert evidence_of("recompute_flop", by_leaf) == [{"text": "r"}]
    assert evidence_of("optimizer_flop", by_leaf) == [{"text": "g"}]
    assert evidence_of("residual", by_leaf) == []
    assert evidence_of("host.gc", {}) == []


def test_hostile_names_are_harmless_in_text_and_exact_in_the_name(example):
    top = largest(example, None)["compute.other"][0]

    assert top["text"].isprintable()
    assert "\\x1b[31m" in top["text"]
    assert top["name"].startswith("evil\x1b[31m</script>")
