"""Do the parts of parallel jobs behave: groups, schedules, contention, meetings of two?"""

from collections import Counter
from itertools import pairwise

import pytest

from tracelens.simulate import actions as act
from tracelens.simulate.device import Gpu, Network
from tracelens.simulate.engine import Loop, Machine
from tracelens.simulate.host import RankHost
from tracelens.simulate.mesh import Mesh
from tracelens.simulate.pipeline import Pipeline, Schedule, Task
from tracelens.simulate.timeline import Activity, Timeline
from tracelens.simulate.truth import Interval, Recorder

US = 1_000
GEMM = act.Kernel("flop.gemm", "gemm", "gemm")
COMM = act.Kernel("comm", "nccl", "nccl")


def execute(
    programs: list[act.Program], machine: Machine
) -> tuple[list[list[Activity]], list[list[Interval]]]:
    loop = Loop()
    network, recorders, hosts = Network(loop), [], []
    for rank, program in enumerate(programs):
        recorder = Recorder()
        gpu = Gpu(rank, loop, machine, network, recorder)
        host = RankHost(loop, machine, gpu, Timeline(rank, 10, {"main": 10, "autograd": 11}))
        recorder.threads.update(host.threads)
        host.threads["main"].start(program)
        recorders.append(recorder)
        hosts.append(host)
    loop.run()
    for recorder in recorders:
        recorder.change(loop.now + 1)
    return [host.timeline.activities for host in hosts], [item.close() for item in recorders]


def test_groups_of_a_megatron_mesh() -> None:
    mesh = Mesh((("tp", 2), ("dp", 2), ("pp", 2)))
    found = [(group.name, group.description, group.ranks) for group in mesh.groups(5)]
    assert found == [
        ("3", "TENSOR_MODEL_PARALLEL_GROUP", (4, 5)),
        ("8", "DATA_PARALLEL_GROUP", (5, 7)),
        ("10", "PIPELINE_MODEL_PARALLEL_GROUP", (1, 5)),
        ("13", "MODEL_PARALLEL_GROUP", (0, 1, 4, 5)),
    ]
    assert [mesh.place(dim, 5) for dim in ("tp", "dp", "pp", "cp")] == [1, 0, 1, 0]


def test_groups_of_a_torch_mesh() -> None:
    group = Mesh((("fsdp", 4),), "torch").group("fsdp", 2)
    assert (group.description, group.dim, group.ranks) == ("mesh_dp_shard", "fsdp", (0, 1, 2, 3))
    with pytest.raises(ValueError, match="no dimension ep"):
        Mesh((("tp", 2),)).group("ep", 0)


def short(tasks: list[Task]) -> str:
    return " ".join(f"{task.kind[0].upper()}{task.micro_batch}.{task.chunk}" for task in tasks)


def test_one_forward_one_backward() -> None:
    pipeline = Pipeline("1f1b", stages=3)
    assert short(pipeline.tasks(0, 4)) == "F0.0 F1.0 F2.0 B0.0 F3.0 B1.0 B2.0 B3.0"
    assert short(pipeline.tasks(2, 4)) == "F0.0 B0.0 F1.0 B1.0 F2.0 B2.0 F3.0 B3.0"


def test_interleaved() -> None:
    pipeline = Pipeline("interleaved", stages=2, chunks=2)
    assert short(pipeline.tasks(1, 2)) == "F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 B0.0 B1.0"
    with pytest.raises(ValueError, match="whole rounds"):
        pipeline.tasks(0, 3)


def test_zero_bubble_puts_weights_off_by_the_stage() -> None:
    pipeline = Pipeline("zb-h1", stages=3)
    assert short(pipeline.tasks(0, 3)) == "F0.0 F1.0 F2.0 B0.0 W0.0 B1.0 W1.0 B2.0 W2.0"
    assert short(pipeline.tasks(2, 3)) == "F0.0 B0.0 F1.0 B1.0 F2.0 B2.0 W0.0 W1.0 W2.0"


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "interleaved", "zb-h1"])
def test_every_pass_once_and_in_order(schedule: Schedule) -> None:
    chunks = 2 if schedule == "interleaved" else 1
    for stage in range(4):
        tasks = Pipeline(schedule, 4, chunks).tasks(stage, 8)
        kinds = ["forward", "backward"] + (["weight"] if schedule == "zb-h1" else [])
        assert Counter(tasks) == Counter(
            Task(kind, micro_batch, chunk)  # type: ignore[arg-type]
            for kind in kinds
            for micro_batch in range(8)
            for chunk in range(chunks)
        )
        for before, after in pairwise(kinds):
            for task in tasks:
                if task.kind == after:
                    earlier = Task(before, task.micro_batch, task.chunk)  # type: ignore[arg-type]
                    assert tasks.index(earlier) < tasks.index(task)


def alone(dur_ns: int) -> act.Work:
    return act.Work(GEMM, dur_ns)


def exchange(op: str, dur_ns: int, peers: tuple[int, int] | None = None) -> act.Work:
    group = act.Group("1", "PIPELINE_MODEL_PARALLEL_GROUP", "pp", (0, 1))
    collective = act.Collective(op, group, 10, "BFloat16", 2, peers)
    return act.Work(COMM, dur_ns, collective=collective)


def test_contention_is_a_rate_while_a_transfer_is_active() -> None:
    def program(delay_ns: int) -> act.Program:
        yield act.Launch(alone(100 * US))  # from 6 us
        yield act.Cpu(delay_ns)
        yield act.Launch(exchange("allreduce", 26 * US), 23)

    (first, second), _ = execute([program(0), program(20 * US)], Machine(contention_permille=1_300))
    # The collective of rank 0 waits from 9 us; both transfer from 29 to 55 us. In those 26 us
    # compute gets 20 us of its work done: it ends 6 us later than alone. Waiting costs nothing.
    assert [(item.start_ns, item.end_ns) for item in first] == [
        (6 * US, 112 * US),
        (9 * US, 55 * US),
    ]
    assert [(item.start_ns, item.end_ns) for item in second] == [
        (6 * US, 112 * US),
        (29 * US, 55 * US),
    ]


def test_contention_rounds_up_to_whole_nanoseconds() -> None:
    def program() -> act.Program:
        yield act.Launch(exchange("allreduce", 1_000 * US), 23)
        yield act.Launch(alone(1_001))

    (first, _), _ = execute([program(), program()], Machine(contention_permille=1_300))
    assert first[1].end_ns - first[1].start_ns == 1_302  # 1301.3


def test_a_send_meets_its_receive() -> None:
    def sender() -> act.Program:
        yield act.Launch(exchange("send", 5 * US, (0, 1)), 47)
        yield act.Launch(exchange("send", 5 * US, (0, 1)), 47)

    def receiver() -> act.Program:
        yield act.Cpu(50 * US)
        yield act.Launch(exchange("recv", 5 * US, (0, 1)), 51)
        yield act.Launch(exchange("recv", 7 * US, (0, 1)), 51)

    (sent, received), (early, late) = execute([sender(), receiver()], Machine())
    assert [(item.start_ns, item.end_ns) for item in sent] == [
        (6 * US, 61 * US),
        (62 * US, 69 * US),
    ]
    assert [(item.start_ns, item.end_ns) for item in received] == [
        (56 * US, 61 * US),
        (62 * US, 69 * US),
    ]
    assert [(i.start_ns, i.end_ns, i.leaf, i.cause, i.blamed_rank) for i in early[:2]] == [
        (6 * US, 56 * US, "comm.pp.wait", "send", 1),
        (56 * US, 61 * US, "comm.pp.transfer", "send", None),
    ]
    assert "comm.pp.wait" not in {item.leaf for item in late}


def test_what_the_next_kernel_waits_for_owns_exposed_time() -> None:
    """Not the exchange that ends last, when compute goes on without it."""

    def waiting() -> act.Program:
        done = act.Event(1)
        yield act.Launch(exchange("allreduce", 30 * US), 23)  # 6..36 us
        yield act.Record(done, 23)
        yield act.Launch(exchange("send", 26_500, (0, 1)), 47)  # 10..36.5 us
        yield act.Await(done, act.MAIN_STREAM)
        yield act.Launch(alone(10 * US))  # 37 us

    def other() -> act.Program:
        yield act.Launch(exchange("allreduce", 30 * US), 23)
        yield act.Cpu(1 * US)
        yield act.Launch(exchange("recv", 26_500, (0, 1)), 51)

    _, (intervals, _) = execute([waiting(), other()], Machine())
    assert [(i.start_ns, i.end_ns, i.cause) for i in intervals if "comm." in i.leaf] == [
        (6 * US, 10 * US, "allreduce"),
        (10 * US, 36 * US, "allreduce"),
        (36 * US, 36_500, "send"),
    ]
