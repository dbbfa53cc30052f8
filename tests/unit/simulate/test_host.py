"""Do calls, graphs, copies and system calls take a host thread's time as CUDA and Linux do?"""

import pytest

from tracelens.simulate import actions as act
from tracelens.simulate import kernels
from tracelens.simulate.device import Gpu, Network
from tracelens.simulate.engine import Loop, Machine
from tracelens.simulate.gaps import TRUTH
from tracelens.simulate.host import RankHost
from tracelens.simulate.matmuls import few_rows, one_tile_too_many, single_precision
from tracelens.simulate.model import Node
from tracelens.simulate.recording import ClockError, Recording
from tracelens.simulate.timeline import Timeline
from tracelens.simulate.truth import Recorder, seen_intervals

US = 1_000
Row = tuple[int, int, str]


def kernel(name: str, dur_ns: int) -> act.Work:
    return act.Work(act.Kernel("flop.gemm", name, name), dur_ns)


def execute(*actions: act.Action, recording: Recording | None = None) -> tuple[RankHost, Recorder]:
    def program() -> act.Program:
        yield from actions

    loop, machine = Loop(), Machine()
    recorder = Recorder()
    gpu = Gpu(0, loop, machine, Network(loop), recorder)
    timeline = Timeline(0, 10, {"main": 10, "autograd": 11}, recording or Recording())
    host = RankHost(loop, machine, gpu, timeline)
    recorder.threads.update(host.threads)
    host.threads["main"].start(program())
    loop.run()
    recorder.change(loop.now + 1)
    return host, recorder


def idle(recorder: Recorder, view: str = TRUTH) -> list[Row]:
    """Causes of idle time in microseconds."""
    intervals = recorder.close()
    if view != TRUTH:
        intervals = seen_intervals(intervals, recorder.seen.get(view, {}))
    return [
        (item.start_ns // US, item.end_ns // US, item.leaf)
        for item in intervals
        if not item.leaf.startswith("flop.")
    ]


FIRST = act.Launch(kernel("a", 4_000))  # call 0..3 us, runs 6..10 us
NEXT = act.Launch(kernel("a", 4_000))


def test_a_slow_first_launch_is_loading_and_a_slow_later_one_is_not() -> None:
    slow = act.Launch(kernel("new", 4_000), call_ns=200_000)
    host, recorder = execute(FIRST, slow, act.Cpu(50_000), slow)
    assert [call.end_ns // US for call in host.timeline.calls] == [3, 203, 453]
    assert idle(recorder) == [
        (10, 203, "host.compile"),  # the call began before the gap did
        (203, 206, "gap.launch_latency"),
        (210, 253, "host.dispatch"),
        (253, 453, "host.cuda_api"),
        (453, 456, "gap.launch_latency"),
    ]


@pytest.mark.parametrize("held_us", [100, 101])
def test_a_kernel_that_starts_long_after_its_launch(held_us: int) -> None:
    held = act.Launch(kernel("a", 4_000), held_ns=held_us * US)
    _, recorder = execute(FIRST, act.Cpu(20_000), held)
    after = {
        100: [(23, 126, "gap.launch_latency")],
        101: [(23, 26, "gap.launch_latency"), (26, 127, "idle.unknown")],
    }
    assert idle(recorder) == [(10, 23, "host.dispatch"), *after[held_us]]


def test_a_queued_kernel_that_something_holds() -> None:
    # The call returned at 6 us, before the gap began.
    _, recorder = execute(FIRST, act.Launch(kernel("a", 4_000), held_ns=50_000))
    assert idle(recorder) == [(10, 56, "idle.unknown")]


def test_a_graph_is_one_call() -> None:
    works = tuple(kernel(name, 2_000) for name in "abc")
    host, recorder = execute(act.GraphLaunch(works, 1_500))
    assert len(host.timeline.calls) == 1
    assert {activity.call.name for activity in host.timeline.activities} == {"cudaGraphLaunch"}
    assert [activity.start_ns for activity in host.timeline.activities] == [6_000, 9_500, 13_000]
    assert [row[2] for row in idle(recorder)] == ["gap.graph"] * 2


def test_copies_of_pageable_memory_block() -> None:
    copy = act.Launch(act.Work(kernels.device_to_host(4), 5_000), returns_when_done=True)
    host, recorder = execute(copy, act.Cpu(10_000), NEXT)
    assert host.timeline.calls[0].end_ns == 13_000  # runs 6..11 us
    assert idle(recorder)[1:] == [
        (11, 13, "host.sync"),
        (13, 23, "host.sync"),
        (23, 29, "gap.launch_latency"),
    ]


def test_calls_without_work() -> None:
    calls = (
        act.Api("cudaMalloc", 30_000, "host.alloc"),
        act.Api("cudaFuncGetAttributes", 15_000),
        act.Api("cudaFree", 10_000, "host.alloc", waits=True),
    )
    host, recorder = execute(act.Launch(kernel("a", 60_000)), *calls, NEXT)
    spans = [(call.start_ns // US, call.end_ns // US) for call in host.timeline.calls]
    assert spans == [(0, 3), (3, 33), (33, 48), (48, 76), (76, 79)]  # the kernel ends at 66 us
    assert idle(recorder) == [(66, 76, "host.alloc"), (76, 82, "gap.launch_latency")]


def test_only_nsight_sees_system_calls() -> None:
    host, recorder = execute(FIRST, act.OsCall("futex", 250_000), NEXT)
    assert [(row.name, row.start_ns, row.end_ns) for row in host.timeline.os_calls] == [
        ("futex", 3_000, 253_000)
    ]
    rest = (253, 259, "gap.launch_latency")
    assert idle(recorder) == [(10, 253, "host.blocked"), rest]
    assert idle(recorder, "nsys") == idle(recorder)
    assert idle(recorder, "kineto") == [(10, 253, "host.unlabelled"), rest]


def test_silence_is_measured_beyond_the_gap() -> None:
    _, recorder = execute(act.Launch(kernel("a", 150_000)), act.Cpu(201_000), NEXT)
    assert idle(recorder) == [(156, 204, "host.unlabelled"), (204, 210, "gap.launch_latency")]


def test_what_is_most_telling_names_nested_time() -> None:
    outer, inner = (act.Annotation(leaf, leaf=leaf) for leaf in ("host.dataloader", "host.gc"))
    nested = (act.Push(inner), act.Cpu(5_000), act.Pop())
    _, recorder = execute(
        FIRST, act.Push(outer), act.Cpu(20_000), *nested, act.Cpu(5_000), act.Pop(), NEXT
    )
    assert idle(recorder)[:3] == [
        (10, 23, "host.dataloader"),
        (23, 28, "host.gc"),
        (28, 33, "host.dataloader"),
    ]


def test_profilers_take_time_of_their_own() -> None:
    host, recorder = execute(FIRST, act.Overhead("Buffer Flush", 40_000), NEXT)
    assert [(row.start_ns, row.end_ns) for row in host.timeline.overheads] == [(3_000, 43_000)]
    assert idle(recorder)[0] == (10, 43, "host.profiler")


def test_a_capture_holds_what_began_and_ended_in_it() -> None:
    op = act.Op("aten::mm")
    host, _ = execute(
        act.Capture(on=False),
        FIRST,
        act.Push(op),
        act.Cpu(2_000),
        act.Capture(on=True),  # at 5 us
        act.Pop(),
        NEXT,
        act.Push(op),
        act.Cpu(2_000),
        act.Pop(),
        act.Cpu(20_000),
        act.Launch(kernel("a", 4_000)),
        act.Capture(on=False),  # at 33 us, before the last kernel starts
    )
    timeline = host.timeline
    assert timeline.capture == (5_000, 33_000)
    assert [call.start_ns for call in timeline.recorded_calls()] == [5_000, 30_000]
    assert [activity.start_ns for activity in timeline.recorded_activities()] == [6_000, 11_000]
    assert [opened.start_ns for opened in timeline.recorded_ranges()] == [8_000]


def test_lost_launches_leave_kernels_without_a_cause() -> None:
    recording = Recording(lost_permille=1_000)
    host, recorder = execute(FIRST, act.Sync(None), NEXT, recording=recording)
    assert [call.name for call in host.timeline.recorded_calls()] == ["cudaDeviceSynchronize"]
    assert idle(recorder) == [(10, 18, "idle.unknown")]


def test_losses_are_spread() -> None:
    recording = Recording(lost_permille=100)
    lost = [number for number in range(1_000, 11_000) if recording.loses(number)]
    assert 950 < len(lost) < 1_050
    assert lost != list(range(lost[0], lost[0] + len(lost)))


def test_correlation_ids_repeat() -> None:
    recording = Recording(correlation_period=3)
    numbers = [recording.correlation(number, 10) for number in range(10, 17)]
    assert numbers == [10, 11, 12, 10, 11, 12, 10]
    assert Recording().correlation(17, 10) == 17


def test_clocks_drift() -> None:
    clock = ClockError(7_000_000, 20)
    assert clock.read(0) == 7_000_000
    assert clock.read(1_000_000_000) == 1_007_020_000
    assert Recording(clocks=((1, clock),)).clock(0).read(5) == 5


def duration_over_ideal(node: Node) -> float:
    assert node.forward is not None
    (work,) = node.forward.works
    return work.dur_ns * 989_400 / work.flop.executed


def test_odd_matmuls_take_as_long_as_they_must() -> None:
    assert duration_over_ideal(single_precision()) == pytest.approx(989.4 / 66.9, rel=1e-4)
    assert duration_over_ideal(one_tile_too_many()) == pytest.approx(2 * 132 / 133, rel=1e-4)
    assert duration_over_ideal(few_rows()) == pytest.approx(18.5, rel=0.01)
