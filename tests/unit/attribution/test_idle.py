"""Each cause of idle time, alone: the gap runs from 100 to 200 µs unless a test says otherwise."""

import pytest

BUSY = {"flop.gemm": 150.0}


def gap(scene, launch, **given):
    """A kernel 0-100, then one 200-250 launched by ``launch``; return the idle leaves."""
    scene.kernel(0, 100, (-20, -10))
    scene.kernel(200, 250, launch, **given)
    leaves = scene.leaves()
    assert leaves.pop("flop.gemm") == 150
    assert sum(leaves.values()) == 100
    return leaves


def test_late_launch_is_dispatch_and_the_rest_is_latency(scene):
    scene.op("aten::mm", 90, 198)
    assert gap(scene, (190, 195)) == {"host.dispatch": 90, "gap.launch_latency": 10}


def test_call_already_running_when_the_gap_began_is_all_latency(scene):
    assert gap(scene, (95, 130)) == {"gap.launch_latency": 100}


def test_queued_work_is_a_kernel_gap_only_when_short(scene):
    scene.kernel(0, 100, (-20, -10))
    scene.kernel(102, 200, (-10, -5))
    scene.kernel(300, 310, (-5, -1))
    leaves = scene.leaves()
    assert leaves == {"flop.gemm": 208, "gap.kernel": 2, "idle.unknown": 100}


def test_missing_launch_is_unknown(scene):
    assert gap(scene, None) == {"idle.unknown": 100}


def test_loader_is_named(scene):
    scene.range("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 110, 180)
    scene.op("aten::mm", 100, 110)
    scene.op("aten::mm", 180, 195)
    found = gap(scene, (190, 195))
    assert found == {"host.dataloader": 70, "host.dispatch": 20, "gap.launch_latency": 10}


def test_drain_takes_what_no_label_explains(scene):
    scene.call("cudaDeviceSynchronize", 20, 104)
    scene.op("aten::mm", 150, 195)
    assert gap(scene, (190, 195)) == {"host.sync": 90, "gap.launch_latency": 10}


def test_loader_beats_the_drain_that_exposed_it(scene):
    scene.call("cudaDeviceSynchronize", 20, 104)
    scene.range("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 105, 188)
    found = gap(scene, (190, 195))
    assert found == {"host.dataloader": 83, "host.sync": 7, "gap.launch_latency": 10}
    details = scene.store.rows("SELECT DISTINCT detail FROM segment WHERE leaf = 'host.dataloader'")
    assert details == [("enabled_by=sync",)]


def test_sync_that_returned_before_the_gap_explains_nothing(scene):
    scene.call("cudaDeviceSynchronize", 20, 60)
    scene.op("aten::mm", 61, 195)
    assert gap(scene, (190, 195)) == {"host.dispatch": 90, "gap.launch_latency": 10}


@pytest.mark.parametrize(("silence_us", "leaf"), [(199, "host.dispatch"), (201, "host.unlabelled")])
def test_long_silence_is_not_dispatch(scene, silence_us, leaf):
    scene.kernel(0, 100, (-20, -10))
    scene.op("aten::mm", 90, 100)
    launch = 100 + silence_us
    scene.kernel(launch + 10, launch + 50, (launch, launch + 5))
    leaves = scene.leaves()
    assert leaves == {"flop.gemm": 140, leaf: silence_us, "gap.launch_latency": 10}


def test_slow_call_is_named_but_a_fast_one_is_dispatch(scene):
    scene.call("cudaFuncGetAttributes", 100, 150)
    scene.call("cudaFuncGetAttributes", 150, 165)
    found = gap(scene, (190, 195))
    assert found == {"host.cuda_api": 50, "host.dispatch": 40, "gap.launch_latency": 10}


@pytest.mark.parametrize(
    ("name", "leaf"),
    [
        ("cudaMalloc", "host.alloc"),
        ("cuModuleLoadData", "host.compile"),
        ("cudaMemcpy", "host.dispatch"),  # it waited, but not when the gap began
    ],
)
def test_calls_by_what_they_do(scene, name, leaf):
    scene.call(name, 105, 185)
    scene.op("aten::mm", 100, 195)
    found = gap(scene, (190, 195))
    assert found.pop("gap.launch_latency") == 10
    assert found[leaf] == (90 if leaf == "host.dispatch" else 80)


def test_os_wait_is_blocked_but_not_inside_a_cuda_call(scene):
    scene.call("poll", 100, 140, kind="os")
    scene.call("cudaFree", 140, 185)
    scene.call("ioctl", 145, 180, kind="os")
    found = gap(scene, (190, 195))
    assert found == {
        "host.blocked": 40,
        "host.alloc": 45,
        "host.dispatch": 5,
        "gap.launch_latency": 10,
    }


def test_profiler_overhead_comes_first_whatever_thread_reports_it(scene):
    scene.overhead("CUPTI Buffer Flush", 110, 150)
    scene.op("aten::mm", 100, 195)
    found = gap(scene, (190, 195))
    assert found == {"host.profiler": 40, "host.dispatch": 50, "gap.launch_latency": 10}


def test_long_first_launch_of_a_kernel_is_loading_a_later_one_a_slow_call(scene):
    scene.kernel(0, 100, (-20, -10), name="first")
    scene.kernel(300, 400, (100, 295), name="second")
    scene.kernel(600, 700, (400, 595), name="second")
    leaves = scene.leaves()
    assert leaves.pop("compute.other") == 300
    assert leaves == {"host.compile": 195, "host.cuda_api": 195, "gap.launch_latency": 10}


def test_long_graph_launch_is_latency_and_its_nodes_are_graph_gaps(scene):
    scene.kernel(0, 100, (-20, -10))
    scene.kernel(300, 400, (100, 295), call="cudaGraphLaunch", correlation=90)
    scene.kernel(450, 500, correlation=90)
    leaves = scene.leaves()
    assert leaves == {"flop.gemm": 250, "gap.launch_latency": 200, "gap.graph": 50}


def test_start_long_after_the_call_returned_is_not_latency(scene):
    scene.kernel(0, 100, (-20, -10))
    scene.kernel(400, 500, (110, 120))
    leaves = scene.leaves()
    assert leaves == {
        "flop.gemm": 200,
        "host.dispatch": 10,
        "gap.launch_latency": 10,
        "idle.unknown": 280,
    }


def test_waiting_stream_released_by_another_is_a_dependency(scene):
    scene.kernel(0, 50, (-30, -25))
    scene.kernel(0, 100, (-30, -25), stream=20)
    scene.wait(7, -24)
    scene.kernel(102, 200, (-20, -15))
    leaves = scene.leaves()
    assert leaves["gap.dependency"] == 2
    assert "gap.kernel" not in leaves


def test_migration_does_not_end_a_gap(scene):
    scene.kernel(0, 100, (-20, -10))
    scene.kernel(150, 160, None, kind="memcpy", copy_kind="uvm_h2d", name="uvm", stream=0)
    scene.op("aten::mm", 100, 195)
    scene.kernel(200, 250, (190, 195))
    leaves = scene.leaves()
    assert leaves.pop("mem.h2d") == 10
    assert leaves == {"flop.gemm": 150, "host.dispatch": 80, "gap.launch_latency": 10}


def test_of_simultaneous_enders_the_one_launched_first_counts(scene):
    scene.kernel(0, 100, (-20, -10))
    scene.kernel(200, 250, (190, 195), stream=8)
    scene.kernel(200, 250, (-9, -8), stream=9)
    leaves = scene.leaves()
    assert leaves == {"flop.gemm": 150, "idle.unknown": 100}


def test_idle_at_the_end_of_a_chosen_window_is_tail(scene):
    scene.kernel(0, 100, (-20, -10))
    scene.kernel(300, 400, (-9, -8))
    assert scene.leaves("ns:50000-200000") == {"flop.gemm": 50, "idle.tail": 100}


def test_other_launching_thread_speaks_for_a_silent_one(scene):
    scene.kernel(0, 100, (-20, -10), thread=1)
    scene.op("aten::cross_entropy_loss", 90, 400, thread=1)
    scene.kernel(430, 500, (420, 425), thread=2)
    leaves = scene.leaves()
    # Thread 2 shows nothing for 300 µs, thread 1 is busy: dispatch, not silence.
    assert leaves == {"flop.gemm": 170, "host.dispatch": 320, "gap.launch_latency": 10}


def test_thresholds_are_measured_on_the_trace_itself(scene):
    at = 0
    for number in range(100):  # queued gaps of 1 µs, the last of 9 µs
        gap_us = 9 if number == 99 else 1
        scene.kernel(at, at + 10, (-500 + number, -499.5 + number))
        at += 10 + gap_us
    scene.kernel(at, at + 10, (-300, -299))
    scene.kernel(at + 50, at + 60, (at + 43, at + 45))
    scene.leaves()
    found = {
        name: (value_ns, samples)
        for name, value_ns, samples in scene.store.rows(
            "SELECT name, value_ns, samples FROM raw.calibration"
        )
    }
    # 100 queued gaps: the 99th in rank is 1 µs, raised to the least that is meaningful.
    assert found == {"kappa": (3_000, 100), "lambda": (7_000, 1)}
