"""Which parallel jobs can be simulated, what was planted in each, and how would it run without?"""

from collections.abc import Callable
from dataclasses import replace

from tracelens.simulate.engine import Machine
from tracelens.simulate.job import Exchange, Job
from tracelens.simulate.mesh import Mesh
from tracelens.simulate.parallel import ParallelJob, Pause, Sharding
from tracelens.simulate.parallel_layers import (
    context_parallel,
    experts,
    sequence_parallel,
    tensor_parallel,
)
from tracelens.simulate.pipeline import Pipeline
from tracelens.simulate.planned import LayerTimes
from tracelens.simulate.scenario import Loss, Scenario

_BUCKET = 33_554_432
_LAYERS = LayerTimes()
_BUCKETS = LayerTimes(bucket_elems=_BUCKET)
_DATA = Mesh((("dp", 4),), "torch")
_STAGES = Pipeline()
_HALF = LayerTimes(layers=2)
_SCATTER = Exchange("_reduce_scatter_base", transfer_ns=300_000)


def _job(mesh: Mesh, times: LayerTimes = _LAYERS, **choices: object) -> ParallelJob:
    job = ParallelJob(
        nodes=tuple(times.nodes()),
        micro_batches=4,
        steps=3,
        first_step=0,
        mesh=mesh,
        world_size=mesh.world_size,
    )
    return replace(job, **choices)  # type: ignore[arg-type]  # checked by the dataclass itself


def _data_parallel(exchange: Exchange = _SCATTER, **choices: object) -> ParallelJob:
    return _job(_DATA, _BUCKETS, exchange=exchange, **choices)


def _pipeline(
    times: LayerTimes = _LAYERS,
    pipeline: Pipeline = _STAGES,
    micro_batches: int = 8,
    **choices: object,
) -> ParallelJob:
    mesh = Mesh((("pp", pipeline.stages),))
    return _job(mesh, times, pipeline=pipeline, micro_batches=micro_batches, **choices)


def _without(**choices: object) -> Callable[[Job], Job]:
    def change(job: Job) -> Job:
        return replace(job, **choices)  # type: ignore[arg-type]  # checked by the dataclass itself

    return change


def _without_contention(job: Job) -> Job:
    return replace(job, machine=replace(job.machine, contention_permille=1_000))


def _without_dispatch(job: Job) -> Job:
    return replace(job, machine=replace(job.machine, dispatch_ns=3_000, api_ns=1_000))


_STRAGGLER = _without(slow_ranks=())


_DATA_PARALLEL = {
    "S08": Scenario(
        "a loader of 20 ms on one of four ranks, and a device synchronization a step",
        _data_parallel(loader_ns=20_000_000, loader_ranks=(2,), device_sync=True),
        (
            Loss(
                "dataloader",
                ("host.dataloader", "comm.dp.wait"),
                "the loader of rank 2 takes 20 ms, the other ranks wait for it",
                _without(loader_ns=0),
            ),
        ),
    ),
    "S14": Scenario(
        "the clock of rank 1 is slower by 1.15",
        _data_parallel(slow_ranks=((1, 1_150),)),
        (Loss("throttled", ("comm.dp.wait",), "rank 1 runs at a lower clock", _STRAGGLER),),
    ),
    "S15": Scenario(
        "the clocks of all ranks are slower by 1.15: nothing shows it",
        _data_parallel(slow_ranks=tuple((rank, 1_150) for rank in range(4))),
    ),
    "S16": Scenario(
        "compute takes 1.3 times as long while gradients travel",
        _data_parallel(
            micro_batches=1,
            exchange=Exchange("_reduce_scatter_base", transfer_ns=1_000_000),
            machine=Machine(contention_permille=1_300),
        ),
        (
            Loss(
                "contention",
                (),
                "compute takes 1.3 times as long beside a transfer: inside the time of its kernels",
                _without_contention,
            ),
        ),
    ),
    "S23": Scenario(
        "garbage collection of 60 ms on rank 2 in step 1",
        _data_parallel(pause=Pause(2, 1, 60_000_000), steps=4),
        (Loss("gc", ("host.gc",), "rank 2 collects garbage for 60 ms", _without(pause=None)),),
    ),
}

_PIPELINE = {
    "S17": Scenario("1F1B, 4 stages, 8 micro-batches", _pipeline()),
    "S18": Scenario("1F1B, 4 stages, 16 micro-batches", _pipeline(micro_batches=16, steps=2)),
    "S19": Scenario(
        "1F1B, 8 stages, 8 micro-batches", _pipeline(_HALF, Pipeline(stages=8), steps=2)
    ),
    "S20": Scenario(
        "1F1B, stage 3 slower by 1.25",
        _pipeline(slow_ranks=((3, 1_250),), steps=2),
        (Loss("imbalance", ("comm.pp.wait",), "stage 3 takes 1.25 times as long", _STRAGGLER),),
    ),
    "S21": Scenario(
        "1F1B with an all-reduce of the gradient norm over all stages",
        _pipeline(grad_norm_ns=20_000),
        (
            Loss(
                "grad_norm",
                ("comm.world.wait", "comm.world.transfer"),
                "the norm of the gradients is reduced over all stages: part of the bubble moves",
                _without(grad_norm_ns=0),
            ),
        ),
    ),
    "S24": Scenario(
        "1F1B on 4 stages times 2 replicas, rank 5 slower by 1.1, gradients scattered",
        _job(
            Mesh((("dp", 2), ("pp", 4))),
            _BUCKETS,
            pipeline=Pipeline(),
            micro_batches=8,
            steps=2,
            exchange=_SCATTER,
            slow_ranks=((5, 1_100),),
        ),
        (
            Loss(
                "straggler",
                ("comm.pp.wait", "comm.dp.wait"),
                "rank 5 takes 1.1 times as long",
                _STRAGGLER,
            ),
        ),
    ),
    "S25": Scenario(
        "interleaved 1F1B, 4 stages of 2 chunks, 8 micro-batches",
        _pipeline(_HALF, Pipeline("interleaved", chunks=2), steps=2),
    ),
    "S26": Scenario(
        "GPipe, 4 stages, 8 micro-batches", _pipeline(_LAYERS, Pipeline("gpipe"), steps=2)
    ),
    "zb_h1": Scenario(
        "ZB-H1, 4 stages, 8 micro-batches",
        _pipeline(LayerTimes(split_weights=True), Pipeline("zb-h1"), steps=2),
    ),
}

_LAYERED = {
    "S12": Scenario(
        "tensor parallel: all-reduce of 50 us after each layer, exposed",
        _job(
            Mesh((("tp", 4),)),
            nodes=tensor_parallel(_LAYERS, 50_000),
        ),
        (
            Loss(
                "all_reduce",
                ("comm.tp.transfer",),
                "an all-reduce of 50 us after each layer, both ways",
                _without(nodes=tuple(_LAYERS.nodes())),
            ),
        ),
    ),
    "S22": Scenario(
        "full recompute",
        _job(Mesh((("dp", 1),)), recompute="full"),
        (
            Loss(
                "recompute",
                ("flop.recompute.gemm", "flop.recompute.attn", "compute.recompute"),
                "backward of each layer runs its forward pass again",
                _without(recompute=""),
            ),
        ),
    ),
    "S30": Scenario(
        "selective recompute: attention only",
        _job(Mesh((("dp", 1),)), recompute="attention"),
        (
            Loss(
                "recompute",
                ("flop.recompute.attn",),
                "backward of attention runs its forward pass again",
                _without(recompute=""),
            ),
        ),
    ),
    "S27": Scenario(
        "fully sharded, parameters gathered when a layer needs them",
        _job(
            Mesh((("fsdp", 4),), "torch"),
            micro_batches=1,
            sharding=Sharding(600_000, 300_000, 4 * _BUCKET),
        ),
        (
            Loss(
                "gather",
                ("comm.fsdp.transfer",),
                "no layer is gathered ahead",
                _without(sharding=Sharding(600_000, 300_000, 4 * _BUCKET, prefetch=1)),
            ),
        ),
    ),
    "S27b": Scenario(
        "fully sharded, parameters gathered one layer ahead",
        _job(
            Mesh((("fsdp", 4),), "torch"),
            micro_batches=1,
            sharding=Sharding(600_000, 300_000, 4 * _BUCKET, prefetch=1),
        ),
        (
            Loss(
                "sharding",
                ("comm.fsdp.transfer",),
                "gathering a layer takes longer than its forward pass",
                _without(sharding=None),
            ),
        ),
    ),
    "S28": Scenario(
        "sequence parallel: all-gather and reduce-scatter of 50 us a layer, half hidden",
        _job(Mesh((("tp", 4),)), nodes=sequence_parallel(_LAYERS, 4, 50_000), micro_batches=2),
        (
            Loss(
                "gather_scatter",
                ("comm.tp.transfer",),
                "half of each exchange has nothing beside it",
                _without(nodes=tuple(_LAYERS.nodes())),
            ),
        ),
    ),
    "S29": Scenario(
        "experts: rank 1 receives 1.5 times the tokens",
        _job(
            Mesh((("ep", 4),)),
            nodes=experts(_LAYERS, 1_000, 40_000),
            rank_nodes=((1, experts(_LAYERS, 1_500, 40_000)),),
            micro_batches=2,
        ),
        (
            Loss(
                "imbalance",
                ("comm.ep.wait",),
                "experts of rank 1 take 1.5 times the tokens: the other ranks wait",
                _without(rank_nodes=()),
            ),
        ),
    ),
    "cp_ring": Scenario(
        "context parallel: keys and values go around a ring beside attention",
        _job(
            Mesh((("cp", 4),)),
            nodes=context_parallel(_LAYERS, 4, 40_000),
            micro_batches=2,
        ),
        (
            Loss(
                "ring",
                ("comm.cp.transfer",),
                "a step of the ring takes longer than its part of forward attention",
                _without(nodes=context_parallel(_LAYERS, 4, 10_000)),
            ),
        ),
    ),
}

_SMALL = LayerTimes(20_000, 8_000, 3_000, bucket_elems=_BUCKET)
_COMBINED = {
    "S45": Scenario(
        "launch-bound, a straggler, a pipeline bubble and exposed gradients at once",
        _job(
            Mesh((("dp", 2), ("pp", 2))),
            _SMALL,
            pipeline=Pipeline(stages=2, transfer_ns=10_000),
            exchange=Exchange("_reduce_scatter_base", transfer_ns=60_000),
            slow_ranks=((2, 1_800),),
            machine=Machine(dispatch_ns=30_000),
        ),
        (
            Loss(
                "dispatch",
                ("host.dispatch", "gap.launch_latency"),
                "each operator takes 30 us of host time",
                _without_dispatch,
            ),
            Loss(
                "straggler",
                ("comm.pp.wait", "comm.dp.wait"),
                "rank 2 takes 1.8 times as long",
                _STRAGGLER,
            ),
            Loss(
                "last_bucket",
                ("comm.dp.transfer",),
                "the last gradients travel after backward",
                _without(exchange=None),
            ),
        ),
    ),
}

PARALLEL: dict[str, Scenario] = _DATA_PARALLEL | _PIPELINE | _LAYERED | _COMBINED
