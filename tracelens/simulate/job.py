"""What does a training script do in a step? Turns a model and a few choices into host programs."""

import json
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field, replace

from tracelens.simulate import actions as act
from tracelens.simulate import kernels
from tracelens.simulate.actions import Work
from tracelens.simulate.collectives import SPELLINGS
from tracelens.simulate.engine import Machine
from tracelens.simulate.model import BF16_BYTES, Node, OpCall, bytes_ns

_FIRST_COMMUNICATOR = 0x7A0C_E1E5_0000_0000
Exchanging = Generator[act.Action, None, act.Event]
_GAP_NS = 1_000
_ENTER_NS = 200
_LEAVE_NS = 100
_FORWARD_THREAD = 0
_BACKWARD_FORWARD_THREAD = 1
_LOADER = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
_COPY_BYTES_PER_NS = 25
_ADAM_BYTES_PER_PARAMETER = 18


@dataclass(frozen=True, slots=True)
class Exchange:
    """How gradients are exchanged between the ranks of a data-parallel group.

    Attributes:
        op: ``allreduce`` or ``_reduce_scatter_base``.
        overlapped: on a stream of its own beside the backward pass; else the main stream waits.
        transfer_ns: time of a bucket; 0: from its bytes at ``busbw_bytes_per_ns``.
    """

    op: str = "allreduce"
    overlapped: bool = True
    transfer_ns: int = 0
    busbw_bytes_per_ns: int = 320


@dataclass(frozen=True, slots=True)
class Job:
    """A training job.

    Attributes:
        nodes: the model, in forward order.
        tokens_per_step: tokens that all ranks together process in a step.
        parameters: weights that the optimizer updates; 0: one kernel of ``optimizer_ns``.
        optimizer_ns: time of that kernel; 0: nothing is updated.
        micro_batches: forward and backward passes a step.
        loader_ns: time of the data loader at the start of a step.
        batch_bytes: size of the batch that is copied to the GPU; 0: none.
        item: read the loss back once a step with ``.item()``.
        log_ns: time that the script then takes to log it.
        paced: wait, at the end of a step, for its forward pass: the host cannot run far ahead.
        device_sync: synchronize the device at the end of each step.
        tiny_kernels: kernels of ``tiny_ns`` at the start of a step, ``tiny_dispatch_ns`` of host
            time each.
        slow_ranks: rank and duration of its kernels, in thousandths of the others'.
    """

    nodes: tuple[Node, ...]
    tokens_per_step: int = 0
    parameters: int = 0
    optimizer_ns: int = 300_000
    world_size: int = 1
    steps: int = 5
    first_step: int = 10
    micro_batches: int = 1
    loader_ns: int = 0
    batch_bytes: int = 0
    item: bool = False
    log_ns: int = 0
    paced: bool = False
    device_sync: bool = False
    tiny_kernels: int = 0
    tiny_ns: int = 2_000
    tiny_dispatch_ns: int = 15_000
    exchange: Exchange | None = None
    slow_ranks: tuple[tuple[int, int], ...] = ()
    machine: Machine = field(default_factory=Machine)

    @property
    def group(self) -> act.Group:
        """The data-parallel group: all ranks."""
        return act.Group("1", "mesh_dp", "dp", tuple(range(self.world_size)))

    def groups(self, rank: int) -> tuple[act.Group, ...]:
        """The process groups of a rank."""
        return (self.group,) if 0 <= rank < self.world_size else ()

    def script(self, rank: int) -> "Script":
        """The host programs of one rank."""
        return Script(self, rank)


class Script:
    """The host programs of one rank."""

    def __init__(self, job: Job, rank: int) -> None:
        self._job = job
        self._permille = dict(job.slow_ranks).get(rank, 1_000)
        self._number = job.first_step
        self._sequence = 0
        self._next_event = 1
        self._reduced: list[act.Event] = []

    def main(self) -> act.Program:
        """What the main thread runs."""
        job = self._job
        for step in range(job.first_step, job.first_step + job.steps):
            self._number = step
            yield from self._at("mark")
            yield act.Mark(step)
            yield act.Push(act.Annotation(f"ProfilerStep#{step}", nsys_name=f"step {step}"))
            yield from self._at("start")
            yield from self._step()
            yield act.Pop()
            yield act.Mark(None)
        yield act.Sync(None)

    def _at(self, place: str) -> act.Program:  # noqa: ARG002 - for jobs that plant something
        """What else happens there; jobs with planted losses of the host fill it in.

        Args:
            place: ``mark`` (before the step begins), ``start`` of the step, or what has just been
                done: ``forward`` and ``backward`` of a micro-batch, ``optimizer``.
        """
        yield from ()

    def _step(self) -> act.Program:
        job = self._job
        forward_done = self._event()
        yield from self._load()
        for index in range(job.tiny_kernels):
            call = OpCall(
                (act.Op(_TINY_OPS[index % len(_TINY_OPS)], (act.Arg((2048,), "float"),) * 2),),
                (Work(kernels.tiny(index), job.tiny_ns),),
            )
            yield from self._calls((), (call,), job.tiny_dispatch_ns)
        for micro_batch in range(job.micro_batches):
            first_sequence = self._sequence
            for node in job.nodes:
                yield from self._forward(node)
            if job.paced and micro_batch == job.micro_batches - 1:
                yield act.Record(forward_done, act.MAIN_STREAM)
            yield from self._at("forward")
            last = micro_batch == job.micro_batches - 1
            yield act.Handoff("autograd", self._backward(first_sequence, exchange=last))
            yield from self._at("backward")
        yield from self._optimizer()
        yield from self._at("optimizer")
        if job.item:
            yield from self._item()
        if job.paced:
            yield act.EventSync(forward_done)
        if job.device_sync:
            yield act.Sync(None)

    def _load(self) -> act.Program:
        job = self._job
        if job.loader_ns:
            yield act.Push(act.Annotation(_LOADER, leaf="host.dataloader"))
            yield act.Cpu(job.loader_ns)
            yield act.Pop()
        if job.batch_bytes:
            shape = act.Arg((job.batch_bytes // 8,), "long int")
            copy = Work(
                kernels.host_to_device(job.batch_bytes),
                _GAP_NS + job.batch_bytes // _COPY_BYTES_PER_NS,
            )
            ops = tuple(
                act.Op(name, (shape,)) for name in ("aten::to", "aten::_to_copy", "aten::copy_")
            )
            yield from self._calls((), (OpCall(ops, (copy,)),), job.machine.dispatch_ns)

    def _forward(self, node: Node) -> act.Program:
        if node.forward is None:
            return
        ops = tuple(
            replace(op, sequence=self._sequence, fwd_thread=_FORWARD_THREAD)
            for op in node.forward.ops
        )
        self._sequence += 1
        call = OpCall(ops, node.forward.works)
        yield from self._calls((), (call,), self._job.machine.dispatch_ns)

    def _backward(self, first_sequence: int, *, exchange: bool) -> act.Program:
        sequence = first_sequence + len(self._job.nodes)
        for node in reversed(self._job.nodes):
            sequence -= 1
            if node.backward:
                wrappers = tuple(
                    act.Op(name, sequence=sequence, fwd_thread=_BACKWARD_FORWARD_THREAD)
                    for name in (
                        f"autograd::engine::evaluate_function: {node.backward_name}",
                        node.backward_name,
                    )
                )
                yield from self._calls(wrappers, node.backward, self._job.machine.dispatch_ns)
            if exchange and node.bucket_elems and self._job.exchange is not None:
                yield from self._reduce(node.bucket_elems, self._job.exchange)
        for event in self._reduced:
            yield act.Await(event, act.MAIN_STREAM)
        self._reduced.clear()

    def _calls(
        self, wrappers: tuple[act.Op, ...], calls: tuple[OpCall, ...], dispatch_ns: int
    ) -> act.Program:
        """Run operators: ``dispatch_ns`` of host time each, beside the launches."""
        for index, call in enumerate(calls):
            opened = (wrappers if index == 0 else ()) + call.ops
            last = index == len(calls) - 1
            closed = len(call.ops) + (len(wrappers) if last else 0)
            yield act.Cpu(_GAP_NS)
            for op in opened:
                yield act.Push(op)
                yield act.Cpu(_ENTER_NS)
            yield act.Cpu(dispatch_ns - _GAP_NS - _ENTER_NS * len(opened) - _LEAVE_NS * closed)
            for work in call.works:
                yield act.Launch(self._paced(work))
            for _ in range(closed):
                yield act.Cpu(_LEAVE_NS)
                yield act.Pop()

    def _paced(self, work: Work) -> Work:
        if work.collective is not None or isinstance(work.shape, act.Copy):
            return work
        return replace(work, dur_ns=work.dur_ns * self._permille // 1_000)

    def _event(self) -> act.Event:
        event = act.Event(self._next_event)
        self._next_event += 1
        return event

    def _reduce(self, elems: int, exchange: Exchange) -> act.Program:
        """A bucket of gradients is complete: exchange it on the communication stream."""
        collective = act.Collective(exchange.op, self._group("dp"), elems, "BFloat16", BF16_BYTES)
        dur_ns = exchange.transfer_ns or _ring_ns(collective, exchange.busbw_bytes_per_ns)
        wrappers = (
            act.Op("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"),
            act.Op("torch::autograd::AccumulateGrad"),
        )
        done = yield from self._exchange(collective, dur_ns, act.COMM_STREAM, wrappers)
        if exchange.overlapped:
            self._reduced.append(done)
        else:
            yield act.Await(done, act.MAIN_STREAM)

    def _group(self, dim: str) -> act.Group:
        """The group of this rank along a dimension: data parallelism is all there is here."""
        group = self._job.group
        if dim != group.dim:
            raise ValueError(f"the job has no dimension {dim}")
        return group

    def _exchange(
        self,
        collective: act.Collective,
        dur_ns: int,
        stream: int,
        wrappers: tuple[act.Op, ...],
    ) -> Exchanging:
        """Launch an exchange behind what the main stream holds; returns the event of its end."""
        spelling = SPELLINGS[collective.op]
        work = act.Work(spelling.kernel, dur_ns, collective=collective)
        ready, done = self._event(), self._event()
        tensor = (act.Arg((collective.elems,)),)
        ranges: tuple[act.Op | act.Annotation, ...] = (
            *wrappers,
            act.Op(spelling.operator, tensor),
            act.Op("record_param_comms", tensor, collective=collective),
            act.Annotation(spelling.annotation + collective.direction),
        )
        for opened in ranges:
            yield act.Push(opened)
            yield act.Cpu(_ENTER_NS)
        yield act.Record(ready, act.MAIN_STREAM)
        yield act.Await(ready, stream)
        communicator = _FIRST_COMMUNICATOR + int(collective.group.name)
        payload = json.dumps(
            {"NCCL communicator ID": communicator, "Message size [bytes]": collective.bytes}
        )
        yield act.Push(act.Annotation(spelling.call, domain="NCCL", payload=payload))
        yield act.Cpu(_ENTER_NS)
        yield act.Launch(work, stream)
        yield act.Cpu(_LEAVE_NS)
        yield act.Pop()
        yield act.Record(done, stream)
        for _ in ranges:
            yield act.Cpu(_LEAVE_NS)
            yield act.Pop()
        return done

    def _optimizer(self) -> act.Program:
        if not self._job.parameters and not self._job.optimizer_ns:
            return
        yield act.Push(act.Annotation("Optimizer.step#AdamW.step"))
        for dur_ns in self._optimizer_durations():
            weights = act.Arg((self._job.parameters // 2 or 1024,), "float")
            op = act.Op("aten::_fused_adamw_", (weights,) * 4)
            call = OpCall((op,), (Work(kernels.adam(), dur_ns),))
            yield from self._calls((), (call,), self._job.machine.dispatch_ns)
        yield act.Pop()

    def _optimizer_durations(self) -> Iterator[int]:
        if not self._job.parameters:
            yield self._job.optimizer_ns
            return
        for _ in range(2):  # one list with weight decay, one without
            yield bytes_ns(self._job.parameters * _ADAM_BYTES_PER_PARAMETER // 2)

    def _item(self) -> act.Program:
        """``loss.item()``: a copy to pageable memory, then a wait for the stream."""
        value = (act.Arg((), "float"),)
        for name in ("aten::item", "aten::_local_scalar_dense"):
            yield act.Push(act.Op(name, value))
            yield act.Cpu(_ENTER_NS)
        yield act.Launch(Work(kernels.device_to_host(4), 1_600))
        yield act.Sync(act.MAIN_STREAM)
        for _ in range(2):
            yield act.Cpu(_LEAVE_NS)
            yield act.Pop()
        yield act.Cpu(self._job.log_ns)


_TINY_OPS = ("aten::eq", "aten::add", "aten::add_", "aten::fill_")


def _ring_ns(collective: act.Collective, busbw_bytes_per_ns: int) -> int:
    """Time of a ring: each rank sends (n-1)/n of the bytes, twice for an all-reduce."""
    size = len(collective.group.ranks)
    passes = 2 if collective.op == "allreduce" else 1
    return 10_000 + passes * (size - 1) * collective.bytes // (size * busbw_bytes_per_ns)
