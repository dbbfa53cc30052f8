"""Which stretch of GPU time a step is."""

import pytest

from tracelens.attribution.windows import COMPILED, NO_KERNEL, NO_NEXT, PRIMED
from tracelens.errors import UsageError


def steps(scene):
    return [
        (row[0], int(row[1]) // 1000, int(row[2]) // 1000, row[3])
        for row in scene.store.rows(
            "SELECT step, start_ns, end_ns, reason FROM step ORDER BY start_ns"
        )
    ]


def ran_ahead(scene, marks=4, name="ProfilerStep#{}", prefix=1000):
    """The host marks a step every 100 µs; the GPU, far behind, takes 200 µs a step."""
    for number in range(marks):
        scene.range(name.format(number + 3), number * 100, number * 100 + 99)
        launch = number * 100 + 10
        start = prefix + number * 200
        scene.kernel(start, start + 150, (launch, launch + 5))
        scene.kernel(start + 150, start + 190, (launch + 5, launch + 9), name="tail")


def test_windows_tile_on_the_gpu_however_far_the_host_runs_ahead(scene):
    ran_ahead(scene)
    scene.leaves("auto")
    assert steps(scene) == [
        (3, 1000, 1200, None),
        (4, 1200, 1400, None),
        (5, 1400, 1600, None),
        (6, 1600, 1790, NO_NEXT),
    ]
    assert scene.store.result("window")["source"] == "profiler_step"
    assert scene.store.result("window")["steps"] == [3, 4, 5]


def test_nvtx_ranges_mark_steps_when_they_repeat(scene):
    ran_ahead(scene, name="iteration {}")
    scene.range("setup", -100, -50)
    scene.leaves("auto")
    assert scene.store.result("window")["source"] == "nvtx"
    assert scene.store.result("window")["steps"] == [3, 4, 5]


def test_first_step_with_kernels_from_before_the_capture_is_left_out(scene):
    ran_ahead(scene)
    scene.kernel(20, 60)
    scene.leaves("auto")
    assert scene.store.result("window")["steps"] == [4, 5]
    assert scene.store.result("window")["excluded_steps"][0] == {"step": 3, "reason": PRIMED}


def test_first_step_with_compilation_is_left_out(scene):
    ran_ahead(scene)
    scene.call("cuModuleLoadData", 20, 90)
    scene.leaves("auto")
    assert scene.store.result("window")["excluded_steps"][0] == {"step": 3, "reason": COMPILED}


def test_step_without_compute_is_left_out_and_the_others_tile(scene):
    ran_ahead(scene)
    scene.range("ProfilerStep#7", 400, 499)
    scene.leaves("auto")
    assert steps(scene)[0] == (7, 400, 499, NO_KERNEL)
    assert scene.store.result("window")["steps"] == [3, 4, 5]


def test_single_mark_is_used_up_to_its_last_activity_with_low_confidence(scene):
    ran_ahead(scene, marks=1)
    scene.leaves("auto")
    assert steps(scene) == [(3, 1000, 1190, None)]
    assert scene.store.result("window")["confidence"] == "low"


def test_without_marks_the_whole_trace_is_one_window(scene):
    scene.kernel(100, 200, (10, 20))
    scene.kernel(300, 400, (20, 30))
    assert sum(scene.leaves("auto").values()) == 300
    assert scene.store.result("window")["source"] == "whole_trace"
    assert scene.store.result("window")["steps"] == []


def test_steps_can_be_chosen(scene):
    ran_ahead(scene)
    scene.leaves("steps:4-4")
    assert scene.store.result("window")["steps"] == [4]
    assert scene.store.result("window")["source"] == "user"


@pytest.mark.parametrize(
    "window", ["steps:9-10", "steps:x", "steps:5-4", "ns:5-1", "nvtx:nothing", "nonsense", "all:3"]
)
def test_windows_that_match_nothing_are_refused(scene, window):
    ran_ahead(scene)
    with pytest.raises(UsageError):
        scene.leaves(window)


def test_copies_do_not_start_a_step(scene):
    for number in range(3):
        scene.range(f"ProfilerStep#{number}", number * 100, number * 100 + 99)
        start = 1000 + number * 200
        launch = number * 100
        scene.kernel(
            start, start + 20, (launch, launch + 1), kind="memcpy", copy_kind="h2d", name="copy"
        )
        scene.kernel(start + 50, start + 180, (launch + 2, launch + 5))
    scene.leaves("auto")
    assert [row[1] for row in steps(scene)] == [1050, 1250, 1450]
