"""Which jobs can be simulated, what was planted in each, and how would it run without that?"""

from dataclasses import replace

from tracelens.simulate.engine import Machine
from tracelens.simulate.gpt import Gpt
from tracelens.simulate.job import Exchange, Job
from tracelens.simulate.model import AT_PEAK, Efficiency, Shape
from tracelens.simulate.planned import LayerTimes
from tracelens.simulate.scenario import Loss, Scenario
from tracelens.simulate.scenarios_advice import ADVISED
from tracelens.simulate.scenarios_host import HOST
from tracelens.simulate.scenarios_parallel import PARALLEL


def _gpt(shape: Shape, efficiency: Efficiency, **choices: object) -> Job:
    gpt = Gpt(shape, efficiency)
    job = Job(
        nodes=tuple(gpt.nodes()),
        parameters=gpt.parameters(),
        batch_bytes=shape.tokens * 8,
    )
    job = replace(job, **choices)  # type: ignore[arg-type]  # checked by the dataclass itself
    tokens = shape.tokens * job.world_size * job.micro_batches
    return replace(job, tokens_per_step=tokens)


def _planned(times: LayerTimes, **choices: object) -> Job:
    job = Job(nodes=tuple(times.nodes()), micro_batches=4, steps=3, first_step=0)
    return replace(job, **choices)  # type: ignore[arg-type]  # checked by the dataclass itself


def _without_loader(job: Job) -> Job:
    return replace(job, loader_ns=0)


def _without_item(job: Job) -> Job:
    return replace(job, item=False, log_ns=0)


def _without_tiny_kernels(job: Job) -> Job:
    return replace(job, tiny_kernels=0)


def _without_straggler(job: Job) -> Job:
    return replace(job, slow_ranks=())


def _without_exchange(job: Job) -> Job:
    return replace(job, exchange=None)


def _without_dispatch(job: Job) -> Job:
    return replace(job, machine=replace(job.machine, dispatch_ns=3_000, api_ns=1_000))


def _without_device_sync(job: Job) -> Job:
    return replace(job, device_sync=False)


_SMALL = Shape()
_THREE_LAYERS = Shape(layers=3)
_SLOW_DISPATCH = Machine(dispatch_ns=20_000)
_EXPOSED = "comm.dp.transfer"

_SAMPLES = {
    "single_gpu": Scenario(
        "A small GPT on one GPU that waits for its host",
        _gpt(_SMALL, Efficiency(), loader_ns=4_000_000, item=True, log_ns=150_000, tiny_kernels=40),
        (
            Loss(
                "dataloader",
                ("host.dataloader",),
                "the data loader takes 4 ms at the start of each step while the GPU waits",
                _without_loader,
            ),
            Loss(
                "item_sync",
                ("host.sync",),
                "loss.item() once a step drains the GPU, and the script then logs for 150 us",
                _without_item,
            ),
            Loss(
                "tiny_kernels",
                ("host.dispatch", "gap.launch_latency"),
                "a mask is built from 40 kernels of 2 us that take 18 us each to launch",
                _without_tiny_kernels,
            ),
        ),
        _SMALL,
    ),
    "data_parallel": Scenario(
        "A small GPT on four GPUs, one of them slow",
        _gpt(
            _THREE_LAYERS,
            Efficiency(),
            world_size=4,
            steps=4,
            loader_ns=1_000_000,
            paced=True,
            exchange=Exchange(),
            slow_ranks=((2, 1_200),),
        ),
        (
            Loss(
                "straggler",
                ("comm.dp.wait",),
                "every kernel of rank 2 takes 1.2 times as long: the other ranks wait for it",
                _without_straggler,
            ),
            Loss(
                "last_bucket",
                (_EXPOSED,),
                "the last gradient bucket (first layer and embedding) is reduced after the backward"
                " pass has ended",
                _without_exchange,
            ),
        ),
        _THREE_LAYERS,
    ),
    "healthy": Scenario(
        "nothing planted: a small model, its loss and norms not fused",
        _gpt(_SMALL, AT_PEAK, loader_ns=500_000, paced=True),
        (),
        _SMALL,
    ),
}

_BUCKET = 33_554_432
_NUMBERED = {
    "S01": Scenario("ideal, one GPU", _planned(LayerTimes())),
    "S02": Scenario(
        "launch-bound: matmuls of 20 us, 20 us of dispatch",
        _planned(LayerTimes(20_000, 8_000, 3_000), machine=_SLOW_DISPATCH),
        (
            Loss(
                "dispatch",
                ("host.dispatch", "gap.launch_latency"),
                "each operator takes 20 us of host time",
                _without_dispatch,
            ),
        ),
    ),
    "S06": Scenario(
        "a loader of 20 ms that hides behind the GPU",
        _planned(LayerTimes(), loader_ns=20_000_000),
    ),
    "S07": Scenario(
        "a loader of 20 ms and a device synchronization a step: exposed",
        _planned(LayerTimes(), loader_ns=20_000_000, device_sync=True),
        (
            Loss(
                "dataloader",
                ("host.dataloader",),
                "the loader takes 20 ms, and a synchronization a step takes the host's lead",
                _without_device_sync,
            ),
        ),
    ),
    "S09": Scenario(
        "reduce-scatter hidden except the last bucket",
        _planned(
            LayerTimes(bucket_elems=_BUCKET),
            world_size=4,
            exchange=Exchange("_reduce_scatter_base", transfer_ns=300_000),
        ),
        (Loss("last_bucket", (_EXPOSED,), "the last bucket is exposed", _without_exchange),),
    ),
    "S10": Scenario(
        "reduce-scatter of 3 ms a layer, mostly exposed",
        _planned(
            LayerTimes(bucket_elems=_BUCKET),
            world_size=4,
            micro_batches=1,
            exchange=Exchange("_reduce_scatter_base", transfer_ns=3_000_000),
        ),
        (Loss("exchange", (_EXPOSED,), "buckets take longer than layers", _without_exchange),),
    ),
    "S11": Scenario(
        "reduce-scatter that blocks the main stream",
        _planned(
            LayerTimes(bucket_elems=_BUCKET),
            world_size=4,
            micro_batches=1,
            exchange=Exchange("_reduce_scatter_base", overlapped=False, transfer_ns=500_000),
        ),
        (Loss("exchange", (_EXPOSED,), "no overlap with backward", _without_exchange),),
    ),
    "S13": Scenario(
        "one straggler: rank 3 takes 1.2 times as long",
        _planned(
            LayerTimes(bucket_elems=_BUCKET),
            world_size=4,
            exchange=Exchange("_reduce_scatter_base", transfer_ns=300_000),
            slow_ranks=((3, 1_200),),
        ),
        (Loss("straggler", ("comm.dp.wait",), "rank 3 is slow", _without_straggler),),
    ),
}

SCENARIOS: dict[str, Scenario] = _SAMPLES | _NUMBERED | PARALLEL | HOST | ADVISED
