"""Which losses of the host, and which damaged recordings, can be simulated?"""

from dataclasses import replace

from tracelens.simulate import actions as act
from tracelens.simulate import kernels
from tracelens.simulate.actions import Op, Work
from tracelens.simulate.attention import AttentionSize
from tracelens.simulate.engine import Machine
from tracelens.simulate.host_job import HostJob, Place, Plant
from tracelens.simulate.host_losses import (
    Planted,
    beside,
    checkpoint,
    copy_in,
    copy_out,
    doing,
    inside,
    kernel,
    labeled,
    read_back,
    retry_storm,
)
from tracelens.simulate.job import Exchange, Job
from tracelens.simulate.matmuls import few_rows, one_tile_too_many, single_precision
from tracelens.simulate.model import Node, OpCall, flop_ns
from tracelens.simulate.planned import LayerTimes
from tracelens.simulate.recording import ClockError, Recording
from tracelens.simulate.scenario import Loss, Scenario

_LONG = LayerTimes(layers=2)
_SHORT = LayerTimes(20_000, 8_000, 3_000, layers=2)
_AT_PEAK = LayerTimes(
    flop_ns(2 * 8192 * 4096 * 4096, 1_000),
    flop_ns(AttentionSize(batch=2, heads=16, seq=2048, dim=128).causal_flop, 1_000),
    20_000,
    layers=2,
    rows=8192,
    heads=16,
)
_BUCKET = 33_554_432
_MS = 1_000_000


def _job(times: LayerTimes, *plants: Plant, **choices: object) -> HostJob:
    job = HostJob(nodes=tuple(times.nodes()), micro_batches=2, steps=4, first_step=0)
    return replace(job, plants=plants, **choices)  # type: ignore[arg-type]  # checked there


def _starved(*plants: Plant, **choices: object) -> HostJob:
    """Kernels so short that the GPU always waits for the host."""
    machine = Machine(dispatch_ns=20_000)
    return _job(_SHORT, *plants, machine=machine, optimizer_ns=20_000, **choices)


def _parallel(*plants: Plant, **choices: object) -> HostJob:
    exchange = Exchange("_reduce_scatter_base", transfer_ns=300_000)
    times = replace(_LONG, bucket_elems=_BUCKET)
    return _job(times, *plants, world_size=4, exchange=exchange, **choices)


def _without_plants(job: Job) -> Job:
    return replace(job, plants=()) if isinstance(job, HostJob) else job


def _loss(words: str, *leaves: str) -> tuple[Loss, ...]:
    return (Loss("planted", leaves, words, _without_plants),)


def _planted(
    title: str, leaf: str, program: Planted, place: Place = "start", steps: tuple[int, ...] = (1, 2)
) -> Scenario:
    """One loss, in steps that are analyzed, of a job whose GPU waits for the host."""
    return Scenario(title, _starved(Plant(place, program, steps)), _loss(title, leaf))


def _with_tiny_kernels(times: LayerTimes, count: int) -> tuple[Node, ...]:
    """Each layer also runs many small kernels, ten an operator, in both directions."""
    call = OpCall(
        (Op("aten::_foreach_add_", (act.Arg((2048,), "float"),) * 2),),
        tuple(Work(kernels.tiny(1), 2_000) for _ in range(10)),
    )
    node = Node(call, "ForeachAddBackward", (call,))
    nodes: list[Node] = []
    for index, own in enumerate(times.nodes()):
        nodes.append(own)
        if index % 3 == 2:
            nodes += [node] * (count // 10)
    return tuple(nodes)


def _without_tiny_kernels(job: Job) -> Job:
    return replace(job, nodes=tuple(_LONG.nodes()))


def _in_16_bits(job: Job) -> Job:
    return replace(job, nodes=job.nodes[:-2])


def _matmuls(title: str, node: Node) -> Scenario:
    """A job with two odd matmuls; without them it does less."""
    nodes = (*_LONG.nodes(), node, node)
    job = replace(_job(_LONG), nodes=nodes)
    return Scenario(title, job, (Loss("matmuls", ("flop.gemm",), title, _in_16_bits),))


_READ_BACK = Plant("backward", read_back())
_PER_MICRO_BATCH = "loss.item() after every micro-batch"

_TABLE = {
    "S03": Scenario(
        "200 tiny kernels a layer",
        HostJob(nodes=_with_tiny_kernels(_LONG, 200), micro_batches=2, steps=2, first_step=0),
        (
            Loss(
                "tiny_kernels",
                ("compute.elementwise", "gap.kernel"),
                "each layer runs 200 kernels of 2 us in both directions",
                _without_tiny_kernels,
            ),
        ),
    ),
    "S04": Scenario(
        ".item() a micro-batch, long matmuls",
        _job(LayerTimes(), _READ_BACK, micro_batches=4, steps=2),
        _loss(_PER_MICRO_BATCH, "host.sync", "gap.launch_latency"),
    ),
    "S05": Scenario(
        ".item() a micro-batch, short matmuls",
        _job(LayerTimes(80_000, 20_000, 6_000), _READ_BACK, micro_batches=4, steps=2),
        _loss(_PER_MICRO_BATCH, "host.sync", "gap.launch_latency"),
    ),
    "S31": _matmuls("matmuls in 32 bits in a job of 16 bits", single_precision()),
    "S32": _matmuls("matmuls of 133 tiles on 132 multiprocessors", one_tile_too_many()),
    "S33": _matmuls("matmuls of 16 rows, bound by memory", few_rows()),
    "S34": Scenario("each step is one CUDA graph", _job(_SHORT, graph_gap_ns=1_500)),
    "S35": _planted(
        "the allocator frees its blocks and asks again",
        "host.alloc",
        doing(*retry_storm(8)),
        "backward",
    ),
    "S36": Scenario(
        "all ranks save a checkpoint in step 2",
        _parallel(Plant("optimizer", doing(*checkpoint(4)), (2,))),
        (
            Loss(
                "planted",
                ("host.ckpt", "mem.d2h"),
                "weights are copied out and written in step 2",
                _without_plants,
                "global",
            ),
        ),
    ),
    "S37": _planted(
        "the profiler flushes its buffers for 5 ms",
        "host.profiler",
        doing(act.Overhead("Buffer Flush", 5 * _MS)),
        "forward",
    ),
    "S38": Scenario(
        "two matmuls at a time, on two streams",
        _job(_LONG, Plant("forward", beside(500_000, 470_000))),
    ),
    "S39": Scenario(
        "ranks 1 and 3 left no trace",
        _parallel(slow_ranks=((2, 1_200),)),
        recording=Recording(missing_ranks=(1, 3)),
    ),
    "S40": Scenario(
        "clocks are 7 ms apart and drift by 20 ppm",
        _parallel(slow_ranks=((2, 1_200),)),
        recording=Recording(
            clocks=((0, ClockError()), (1, ClockError(7 * _MS)), (3, ClockError(-3_000, 20)))
        ),
    ),
    "S41": Scenario(
        "steps are not marked",
        _job(_LONG, loader_ns=3 * _MS, device_sync=True, steps=6),
        recording=Recording(marks=False),
    ),
    "S41_periods": Scenario(
        "steps are not marked, and no optimizer shows where they end",
        _job(
            _LONG,
            Plant("start", doing(*kernel(kernels.embedding(4096), 20_000, op="aten::embedding"))),
            loader_ns=3 * _MS,
            device_sync=True,
            steps=6,
            micro_batches=1,
            optimizer_ns=0,
        ),
        recording=Recording(marks=False),
    ),
    "S42": Scenario(
        "the capture begins behind queued work and ends within a step",
        _job(
            _LONG,
            Plant("mark", doing(act.Capture(on=False)), (0,)),
            Plant("mark", doing(act.Capture(on=True)), (1,)),
            Plant("forward", doing(act.Capture(on=False)), (5,)),
            paced=True,
            steps=6,
        ),
    ),
    "S43": Scenario(
        "a tenth of the launches is not recorded",
        _starved(steps=6),
        recording=Recording(lost_permille=100),
    ),
    "S43_complete": Scenario("S43 with all its launches", _starved(steps=6)),
    "S44": Scenario(
        "nothing planted; matmuls and attention at peak",
        _job(_AT_PEAK, loader_ns=500_000, paced=True),
    ),
    "S43_repeated_ids": Scenario(
        "correlation ids are used again after 60 calls",
        _job(_LONG, _READ_BACK),
        recording=Recording(correlation_period=60),
    ),
}

_STREAM_CREATE = "cudaStreamCreateWithPriority"
_NEW = kernels.embedding(4096)
_NAMED = {
    "host_compile": Scenario(
        "modules are loaded in the first step, code is compiled in the third",
        _starved(
            Plant("start", doing(act.Api("cuModuleLoadData", 9 * _MS, "host.compile")), (0,)),
            Plant(
                "forward",
                doing(*labeled("entire_frame_compile (dynamo_timed)", "host.compile", 4 * _MS)),
                (2,),
            ),
        ),
        _loss("compilation", "host.compile"),
    ),
    "host_lazy_loading": Scenario(
        "a kernel is loaded inside its first launch; a later launch of it is slow",
        _starved(
            Plant("start", doing(*kernel(_NEW, 20_000, call_ns=2 * _MS)), (1,)),
            Plant("forward", doing(*kernel(_NEW, 20_000, call_ns=300_000)), (2,)),
            Plant("backward", doing(*kernel(_NEW, 20_000, call_ns=90_000)), (2,)),
        ),
        _loss("slow launches", "host.compile", "host.cuda_api"),
    ),
    "host_gc": _planted(
        "Python collects garbage between forward and backward",
        "host.gc",
        doing(*labeled("gc", "host.gc", 6 * _MS)),
        "forward",
    ),
    "host_slow_copy": Scenario(
        "copies to the GPU whose call takes long",
        _starved(
            Plant("start", doing(*copy_in(1 << 20, 40_000)), (0,)),
            Plant("start", doing(*copy_in(1 << 20, 40_000, 400_000)), (1, 2)),
            Plant("backward", doing(*copy_in(1 << 20, 40_000, 60_000)), (1, 2)),
        ),
        _loss("a copy of pageable memory is staged inside the call", "host.cuda_api"),
    ),
    "host_slow_api": _planted(
        "a CUDA call that takes 60 us, and one of 15 us",
        "host.cuda_api",
        doing(
            act.Api(_STREAM_CREATE, 60_000, "host.cuda_api"),
            act.Cpu(3_000),
            act.Api("cudaFuncGetAttributes", 15_000),
        ),
    ),
    "host_os": _planted(
        "the thread blocks in the operating system",
        "host.blocked",
        doing(
            act.OsCall("poll", 3 * _MS),
            act.Cpu(5_000),
            *inside(Op("aten::empty"), (act.OsCall("pthread_mutex_lock", 700_000),)),
            act.Cpu(2_000),
            act.OsCall("futex", 60_000),
        ),
    ),
    "host_pause": _planted(
        "5 ms that nothing explains", "host.unlabelled", doing(act.Cpu(5 * _MS))
    ),
    "host_pause_drained": _planted(
        "a synchronization, then 5 ms that nothing explains",
        "host.unlabelled",
        doing(act.Sync(None), act.Cpu(5 * _MS)),
        "backward",
    ),
    "host_dependency": Scenario(
        "the main stream waits for a longer matmul on another stream",
        _job(_LONG, Plant("forward", beside(300_000, 500_000))),
        _loss("a matmul on a second stream is longer", "gap.dependency", "flop.gemm"),
    ),
    "host_nested": _planted(
        "garbage is collected inside the loader",
        "host.gc",
        doing(
            *inside(
                act.Annotation("get_batch", leaf="host.dataloader"),
                (act.Cpu(300_000), *labeled("gc", "host.gc", 400_000), act.Cpu(200_000)),
            )
        ),
    ),
    "host_held": _planted(
        "kernels that start 150 us after their launch returned",
        "idle.unknown",
        doing(*kernel(kernels.add(4096), 20_000, held_ns=150_000)),
    ),
    "host_sync_before_backward": _planted(
        "the main thread synchronizes, then the autograd thread launches",
        "host.sync",
        read_back(),
        "forward",
    ),
    "host_copy_out": _planted(
        "a tensor is copied to pageable memory",
        "host.sync",
        doing(*copy_out(1 << 20, 60_000)),
        "backward",
    ),
    "host_first_copy": _planted(
        "the first copy to the GPU has a slow call",
        "host.cuda_api",
        doing(*copy_in(1 << 20, 40_000, 400_000)),
        steps=(1,),
    ),
    "host_alloc_sync": Scenario(
        "the allocator synchronizes before it frees its blocks",
        _job(_LONG, Plant("backward", doing(*retry_storm(4, synchronize=True)), (1, 2))),
        _loss("the allocator frees its blocks and asks again", "host.alloc"),
    ),
    "host_lazy_overhead": _planted(
        "a call loads a function; the profiler reports it as overhead",
        "host.compile",
        doing(
            act.Api(
                "cudaFuncGetAttributes", 900_000, "host.compile", overhead="Lazy Function Loading"
            )
        ),
    ),
    "host_os_in_calls": Scenario(
        "system calls inside CUDA calls that wait for the GPU",
        _starved(_READ_BACK),
        _loss(_PER_MICRO_BATCH, "host.sync"),
        recording=Recording(os_in_calls=True),
    ),
    "host_os_joins": Scenario(
        "system calls in which the main and the autograd thread wait for each other",
        _starved(
            Plant("forward", doing(*inside(Op("aten::empty"), (act.Cpu(80_000),)))),
            Plant("forward", doing(*labeled("gc", "host.gc", 300_000)), (2,)),
        ),
        _loss("work of the main thread while the other waits", "host.gc", "host.dispatch"),
        recording=Recording(os_joins=True),
    ),
}

HOST: dict[str, Scenario] = _TABLE | _NAMED
