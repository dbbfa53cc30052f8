"""Windows that a user names, ranks that disagree, and how far a choice can be trusted."""

import pytest

from tracelens.attribution.windows import NO_NEXT
from tracelens.errors import UsageError


def ran(scene, marks, kernels_in):
    for number in range(marks):
        scene.range(f"ProfilerStep#{number}", number * 100, number * 100 + 99)
        if number in kernels_in:
            start = 1000 + number * 200
            scene.kernel(start, start + 190, (number * 100 + 10, number * 100 + 15))


def window(scene):
    return scene.store.result("window")


def test_named_range_is_what_was_launched_in_it_and_no_step(scene):
    ran(scene, 3, {0, 1, 2})
    scene.range("## forward ##", 100, 150)
    leaves = scene.leaves("nvtx:## forward ##")
    assert leaves == {"flop.gemm": 190}
    assert window(scene)["are_steps"] is False
    assert scene.store.rows("SELECT start_ns, end_ns FROM step") == [(1200000, 1390000)]


def test_range_without_launches_is_refused(scene):
    ran(scene, 3, {0, 1, 2})
    scene.range("empty", 150, 160)
    with pytest.raises(UsageError, match="nothing was launched"):
        scene.leaves("nvtx:empty")


def test_range_that_one_rank_lacks_is_refused_naming_the_rank(scene):
    ran(scene, 3, {0, 1, 2})
    scene.store.append("process", {"process": [1], "input": [0]})
    scene.store.append("gpu", {"gpu": [1], "input": [0], "process": [1], "rank": [5]})
    scene.store.append(
        "activity",
        {
            "gpu": [1],
            "process": [1],
            "kind": ["kernel"],
            "name_id": scene.name("gemm"),
            "start_ns": [0],
            "end_ns": [10],
        },
    )
    with pytest.raises(UsageError, match="on rank 5"):
        scene.leaves("nvtx:ProfilerStep")


@pytest.mark.parametrize("span", ["ns:0-1000", "ns:5000000-6000000"])
def test_span_without_activity_is_refused(scene, span):
    ran(scene, 2, {0, 1})
    with pytest.raises(UsageError, match="no GPU activity"):
        scene.leaves(span)


def test_one_chosen_step_says_that_nothing_shows_the_spread(scene):
    ran(scene, 4, {0, 1, 2, 3})
    scene.leaves("steps:1")
    assert window(scene)["steps"] == [1]
    assert window(scene)["confidence"] == "medium"
    assert "one complete step only" in window(scene)["note"]


def test_step_without_a_marked_end_is_low_confidence_even_among_others(scene):
    ran(scene, 2, {0})
    scene.leaves("auto")
    assert window(scene)["steps"] == [0]
    assert window(scene)["confidence"] == "low"


def test_reason_of_the_rank_itself_is_shown_whatever_the_order(scene):
    ran(scene, 3, {0, 1, 2})
    scene.store.append("process", {"process": [1], "input": [0]})
    scene.store.append("gpu", {"gpu": [1], "input": [0], "process": [1], "rank": [1]})
    scene.store.execute(
        "INSERT INTO raw.range SELECT range_id + 100, 1, thread + 10, kind, name_id, start_ns, "
        "end_ns FROM raw.range"
    )
    scene.store.execute(
        "INSERT INTO raw.host_call SELECT call_id + 100, 1, thread + 10, kind, name_id, start_ns, "
        "end_ns, correlation FROM raw.host_call"
    )
    scene.store.execute(
        "INSERT INTO raw.activity SELECT activity_id + 100, 1, 1, * EXCLUDE (activity_id, gpu, "
        "process) FROM raw.activity"
    )
    scene.kernel(20, 60)  # rank 0 was primed before the capture
    scene.leaves("auto")
    reasons = {row["step"]: row["reason"] for row in window(scene)["excluded_steps"]}
    assert reasons == {0: "first step: kernels queued before the capture ran in it", 2: NO_NEXT}
    assert window(scene)["steps"] == [1]


def test_silence_is_named_by_the_range_around_it(scene):
    scene.range("load images", 100, 900)
    scene.range("ProfilerStep#1", 0, 1000)
    scene.kernel(0, 100, (-20, -10))
    scene.kernel(810, 850, (800, 805))
    scene.leaves("all")
    rows = scene.store.rows("SELECT detail FROM segment WHERE leaf = 'host.unlabelled'")
    assert rows == [("inside load images",)]


def test_copy_from_pageable_memory_waits_like_a_sync(scene):
    scene.kernel(0, 90, (-20, -10))
    scene.kernel(
        90,
        100,
        (-5, 120),
        kind="memcpy",
        copy_kind="d2h",
        name="Memcpy DtoH (Device -> Pageable)",
        call="cudaMemcpyAsync",
    )
    scene.op("aten::mm", 120, 198)
    scene.kernel(200, 250, (190, 195))
    assert scene.leaves("all") == {
        "flop.gemm": 140,
        "mem.d2h": 10,
        "host.sync": 90,
        "gap.launch_latency": 10,
    }


def test_matmul_and_attention_that_share_the_gpu_hide_nothing(scene):
    scene.kernel(0, 100, (-20, -10))
    flash = "void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4>>"
    scene.kernel(0, 100, (-9, -8), stream=8, name=flash)
    assert scene.leaves("all") == {"flop.gemm": 50, "flop.attn": 50}
    assert scene.store.rows("SELECT * FROM raw.hidden") == []
