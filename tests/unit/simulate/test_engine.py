"""Do streams, events, queues and threads behave like CUDA's?"""

import pytest

from tracelens.simulate import actions as act
from tracelens.simulate.device import Gpu, Network
from tracelens.simulate.engine import Loop, Machine
from tracelens.simulate.host import RankHost
from tracelens.simulate.timeline import Timeline
from tracelens.simulate.truth import Interval, Recorder

LEAVES = {"gemm": "flop.gemm", "attn": "flop.attn", "add": "compute.elementwise"}


def work(kind: str, dur_ns: int) -> act.Work:
    return act.Work(act.Kernel(LEAVES[kind], kind, kind), dur_ns)


def execute(program: act.Program, machine: Machine | None = None) -> tuple[RankHost, Recorder]:
    loop, machine = Loop(), machine or Machine()
    recorder = Recorder()
    gpu = Gpu(0, loop, machine, Network(loop), recorder)
    host = RankHost(loop, machine, gpu, Timeline(0, 10, {"main": 10, "autograd": 11}))
    recorder.threads.update(host.threads)
    host.threads["main"].start(program)
    loop.run()
    recorder.change(loop.now + 1)
    return host, recorder


def rows(intervals: list[Interval]) -> list[tuple[int, int, str]]:
    return [(item.start_ns, item.end_ns, item.leaf) for item in intervals]


def test_equal_times_run_in_order() -> None:
    loop, seen = Loop(), []
    loop.at(5, lambda: seen.append("b"))
    loop.at(3, lambda: seen.append("a"))
    loop.at(5, lambda: seen.append("c"))
    loop.run()
    assert seen == ["a", "b", "c"]
    with pytest.raises(ValueError, match="cannot schedule 4 ns at 5 ns"):
        loop.at(4, lambda: None)


def test_launch_latency_and_stream_gap() -> None:
    def program() -> act.Program:
        yield act.Launch(work("gemm", 20_000))
        yield act.Launch(work("add", 5_000))

    host, recorder = execute(program())
    spans = [(item.start_ns, item.end_ns) for item in host.timeline.activities]
    assert spans == [(6_000, 26_000), (27_000, 32_000)]
    assert [(call.start_ns, call.end_ns) for call in host.timeline.calls] == [
        (0, 3_000),
        (3_000, 6_000),
    ]
    assert rows(recorder.close()) == [
        (6_000, 26_000, "flop.gemm"),
        (26_000, 27_000, "gap.kernel"),
        (27_000, 32_000, "compute.elementwise"),
    ]


def test_starved_gap_is_split_at_the_launch() -> None:
    def program() -> act.Program:
        yield act.Launch(work("gemm", 4_000))  # runs 6..10 us
        yield act.Push(act.Annotation("load", leaf="host.dataloader"))
        yield act.Cpu(20_000)  # 3..23 us
        yield act.Pop()
        yield act.Cpu(2_000)  # unrecorded, 23..25 us
        yield act.Launch(work("gemm", 4_000))  # call 25..28 us, kernel 31 us

    _, recorder = execute(program())
    assert rows(recorder.close())[1:] == [
        (10_000, 23_000, "host.dataloader"),
        (23_000, 25_000, "host.dispatch"),
        (25_000, 31_000, "gap.launch_latency"),
        (31_000, 35_000, "flop.gemm"),
    ]


def test_silence_is_unlabelled_only_when_long() -> None:
    def program(silence_ns: int) -> act.Program:
        yield act.Launch(work("gemm", 4_000))
        yield act.Cpu(7_000)
        yield act.Push(act.Op("aten::mm"))
        yield act.Cpu(1_000)
        yield act.Pop()  # at 11 us; the gap began at 10 us
        yield act.Cpu(silence_ns)
        yield act.Launch(work("gemm", 4_000))

    for silence_ns, leaf in ((200_000, "host.dispatch"), (200_001, "host.unlabelled")):
        _, recorder = execute(program(silence_ns))
        assert (11_000, 11_000 + silence_ns, leaf) in rows(recorder.close())


def test_drain_owns_what_no_label_claims() -> None:
    def program() -> act.Program:
        yield act.Launch(work("gemm", 4_000))  # ends at 10 us
        yield act.Sync(None)  # returns at 12 us
        yield act.Push(act.Annotation("load", leaf="host.dataloader"))
        yield act.Cpu(5_000)
        yield act.Pop()
        yield act.Cpu(1_000)
        yield act.Launch(work("gemm", 4_000))

    host, recorder = execute(program())
    assert host.timeline.calls[1].end_ns == 12_000
    intervals = recorder.close()
    assert rows(intervals)[1:-1] == [
        (10_000, 12_000, "host.sync"),
        (12_000, 17_000, "host.dataloader"),
        (17_000, 18_000, "host.sync"),
        (18_000, 24_000, "gap.launch_latency"),
    ]
    assert intervals[2].cause == "enabled_by=sync"


def test_host_waits_for_an_event() -> None:
    def program() -> act.Program:
        halfway, over = act.Event(1), act.Event(2)
        yield act.Launch(work("gemm", 20_000))  # 6..26 us
        yield act.Record(halfway, 7)
        yield act.Launch(work("gemm", 20_000))  # 27..47 us
        yield act.EventSync(halfway)  # from 7 us, returns at 28 us
        yield act.Record(over, 9)  # nothing ran there: complete at once
        yield act.EventSync(over)

    host, _ = execute(program())
    waits = [call for call in host.timeline.calls if call.name == "cudaEventSynchronize"]
    assert [(call.start_ns, call.end_ns) for call in waits] == [(7_000, 28_000), (29_000, 32_000)]


def test_wait_for_another_stream_is_a_dependency() -> None:
    def program() -> act.Program:
        done = act.Event(1)
        yield act.Launch(work("gemm", 50_000), 7)
        yield act.Record(done, 7)
        yield act.Await(done, 23)
        yield act.Launch(work("add", 5_000), 23)

    _, recorder = execute(program())
    assert rows(recorder.close()) == [
        (6_000, 56_000, "flop.gemm"),
        (56_000, 57_000, "gap.dependency"),
        (57_000, 62_000, "compute.elementwise"),
    ]


def test_concurrent_flop_kernels_share_time() -> None:
    def program() -> act.Program:
        yield act.Launch(work("gemm", 10_001), 7)  # 6_000 .. 16_001
        yield act.Launch(work("attn", 10_001), 8)  # 9_000 .. 19_001

    _, recorder = execute(program())
    assert rows(recorder.close()) == [
        (6_000, 9_000, "flop.gemm"),
        (9_000, 12_501, "flop.gemm"),  # half of 7_001, and the remainder
        (12_501, 16_001, "flop.attn"),
        (16_001, 19_001, "flop.attn"),
    ]


def test_launch_blocks_on_a_full_queue() -> None:
    def program() -> act.Program:
        for _ in range(4):
            yield act.Launch(work("gemm", 100_000))

    host, _ = execute(program(), Machine(queue_depth=2))
    # The first starts at 6 us, so two fit behind it; the fourth waits for the second to start.
    assert [(call.start_ns, call.end_ns) for call in host.timeline.calls] == [
        (0, 3_000),
        (3_000, 6_000),
        (6_000, 9_000),
        (9_000, 110_000),
    ]
    assert host.timeline.activities[3].start_ns == 309_000


def test_autograd_thread_runs_while_main_waits() -> None:
    def backward() -> act.Program:
        yield act.Push(act.Op("aten::mm"))
        yield act.Cpu(10_000)
        yield act.Launch(work("gemm", 1_000))
        yield act.Pop()

    def program() -> act.Program:
        yield act.Launch(work("gemm", 1_000))  # ends at 7 us
        yield act.Handoff("autograd", backward())  # 3 us, wakes at 5 us, launches at 15 us
        yield act.Launch(work("gemm", 1_000))

    host, recorder = execute(program())
    assert [call.thread for call in host.timeline.calls] == ["main", "autograd", "main"]
    assert rows(recorder.close()) == [
        (6_000, 7_000, "flop.gemm"),
        (7_000, 15_000, "host.dispatch"),
        (15_000, 21_000, "gap.launch_latency"),
        (21_000, 22_000, "flop.gemm"),
        (22_000, 26_000, "gap.launch_latency"),
        (26_000, 27_000, "flop.gemm"),
    ]


def test_collective_waits_for_the_last_rank() -> None:
    group = act.Group("1", "mesh_dp", "dp", (0, 1))
    collective = act.Collective("allreduce", group, 10, "BFloat16", 2)
    reduce = act.Work(act.Kernel("comm", "nccl", "nccl"), 30_000, collective=collective)

    def program(delay_ns: int) -> act.Program:
        yield act.Launch(work("gemm", 1_000))
        yield act.Cpu(delay_ns)
        yield act.Launch(reduce, 23)
        yield act.Launch(work("add", 1_000), 23)

    loop, machine = Loop(), Machine()
    network, recorders, hosts = Network(loop), [Recorder(), Recorder()], []
    for rank, recorder in enumerate(recorders):
        gpu = Gpu(rank, loop, machine, network, recorder)
        host = RankHost(loop, machine, gpu, Timeline(rank, 10, {"main": 10, "autograd": 11}))
        recorder.threads.update(host.threads)
        host.threads["main"].start(program(40_000 * rank))
        hosts.append(host)
    loop.run()
    early, late = (
        [item for item in recorder.close() if "comm" in item.leaf] for recorder in recorders
    )
    assert [(i.start_ns, i.end_ns, i.leaf, i.blamed_rank) for i in early] == [
        (9_000, 49_000, "comm.dp.wait", 1),
        (49_000, 79_000, "comm.dp.transfer", None),
    ]
    assert rows(late) == [(49_000, 79_000, "comm.dp.transfer")]
