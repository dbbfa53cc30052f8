"""Which jobs were written in a way that a report should advise against?"""

from dataclasses import replace

from tracelens.simulate import kernels
from tracelens.simulate.actions import Arg, Kernel, Op, Work, scalar
from tracelens.simulate.host_job import HostJob, Plant
from tracelens.simulate.host_losses import copy_in, doing
from tracelens.simulate.job import Exchange, Job
from tracelens.simulate.matmuls import Matmul
from tracelens.simulate.model import Node, OpCall
from tracelens.simulate.planned import LayerTimes
from tracelens.simulate.scenario import Loss, Scenario

_LAYERS = LayerTimes(layers=2)
_SCORES = Arg((4096, 4096))
_SMALL_BUCKET = 65_536


def _between(name: str, kernel: Kernel, dur_ns: int, backward_name: str) -> Node:
    """An operator over the matrix of scores, through memory in both directions."""
    call = OpCall((Op(name, (_SCORES, scalar(""))),), (Work(kernel, dur_ns),))
    return Node(call, backward_name, (call,))


def _scores() -> Node:
    def launch(matmul: Matmul) -> tuple[Kernel, int]:
        return kernels.gemm("TN"), matmul.flop // 500_000

    return Matmul(4096, 4096, 1024).node(launch)


def _unfused_attention() -> tuple[Node, ...]:
    rows = _SCORES.dims[0]
    return (
        _scores(),
        _between("aten::mul", kernels.add(rows * rows), 40_000, "MulBackward0"),
        _between("aten::_softmax", kernels.softmax(rows), 60_000, "SoftmaxBackward0"),
        _between("aten::native_dropout", kernels.gelu(rows * rows), 50_000, "DropoutBackward0"),
        _scores(),
    )


def _without_unfused_attention(job: Job) -> Job:
    return replace(job, nodes=tuple(_LAYERS.nodes()))


def _without_exchange(job: Job) -> Job:
    return replace(job, exchange=None)


def _without_plants(job: Job) -> Job:
    return replace(job, plants=()) if isinstance(job, HostJob) else job


ADVISED: dict[str, Scenario] = {
    "unfused_attention": Scenario(
        "attention as matmul, scale, softmax, dropout, matmul",
        HostJob(
            nodes=(*_LAYERS.nodes(), *_unfused_attention() * 2),
            micro_batches=2,
            steps=4,
            first_step=0,
            paced=True,
        ),
        (
            Loss(
                "unfused",
                ("compute.softmax", "compute.elementwise", "flop.gemm"),
                "two more layers whose attention is not fused",
                _without_unfused_attention,
            ),
        ),
    ),
    "small_messages": Scenario(
        "buckets of 128 KiB, each of them waited for",
        Job(
            nodes=tuple(LayerTimes(layers=3, bucket_elems=_SMALL_BUCKET).nodes()),
            micro_batches=1,
            steps=3,
            first_step=0,
            world_size=2,
            exchange=Exchange("allreduce", overlapped=False, transfer_ns=60_000),
        ),
        (
            Loss(
                "latency",
                ("comm.dp.transfer",),
                "small all-reduces take 60 us each",
                _without_exchange,
            ),
        ),
    ),
    "exposed_copies": Scenario(
        "the batch is copied on the main stream at the start of a step",
        HostJob(
            nodes=tuple(_LAYERS.nodes()),
            micro_batches=2,
            steps=4,
            first_step=0,
            paced=True,
            plants=(Plant("start", doing(*copy_in(64 << 20, 2_600_000))),),
        ),
        (Loss("copies", ("mem.h2d",), "copies of 2.6 ms", _without_plants),),
    ),
}
