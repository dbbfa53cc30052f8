"""What does each rank of a parallel job do in a step?"""

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from tracelens.simulate import actions as act
from tracelens.simulate.exchanging import ExchangingScript
from tracelens.simulate.model import Node, OpCall
from tracelens.simulate.pipeline import Task, alternating

if TYPE_CHECKING:
    from tracelens.simulate.parallel import ParallelJob

_FORWARD_THREAD = 0
_BACKWARD_FORWARD_THREAD = 1


class ParallelScript(ExchangingScript):
    """The host programs of one rank."""

    def __init__(self, job: "ParallelJob", rank: int) -> None:
        super().__init__(job, rank)
        self._stage = job.mesh.place("pp", rank)
        pipeline = job.pipeline
        self._tasks = (
            alternating(job.micro_batches)
            if pipeline is None
            else pipeline.tasks(self._stage, job.micro_batches)
        )
        self._last_backward = {task.chunk: task for task in self._tasks if task.kind == "backward"}
        self._puts_weights_off = any(task.kind == "weight" for task in self._tasks)
        self._firsts = [index for index, node in enumerate(job.nodes) if node.first]
        self._first_sequence: dict[tuple[int, int], int] = {}
        self._gathered: dict[int, act.Event] = {}
        self._again_sequence = 0

    def _step(self) -> act.Program:
        job = self._parallel
        yield from self._load()
        for task in self._tasks:
            if task.kind == "forward":
                yield from self._forward_task(task)
            elif task.kind == "backward":
                yield from self._backward_task(task)
            else:
                for node in reversed(job.nodes):
                    yield from self._calls((), node.weight, job.machine.dispatch_ns)
        yield from self._finish()
        if job.item:
            yield from self._item()
        if job.device_sync:
            yield act.Sync(None)

    def _finish(self) -> act.Program:
        """Between the last backward pass and the next step."""
        job = self._parallel
        for event in self._reduced:
            yield act.Await(event, act.MAIN_STREAM)
        self._reduced.clear()
        if job.grad_norm_ns:
            event = yield from self._all("world", "allreduce", 1, job.grad_norm_ns)
            yield act.Await(event, act.MAIN_STREAM)
        pause = job.pause
        if pause is not None and (pause.rank, pause.step) == (self._rank, self._number):
            yield act.Push(act.Annotation("gc", leaf="host.gc"))
            yield act.Cpu(pause.dur_ns)
            yield act.Pop()
        yield from self._optimizer()

    def _neighbor(self, task: Task, distance: int) -> int | None:
        """The rank that holds the layers before (-1) or after (1) those of a task."""
        pipeline = self._parallel.pipeline
        if pipeline is None:
            return None
        place = task.chunk * pipeline.stages + self._stage + distance
        if not 0 <= place < pipeline.stages * pipeline.chunks:
            return None
        return self._group("pp").ranks[place % pipeline.stages]

    def _pass_on(self, task: Task, distance: int, *, receive: bool) -> act.Program:
        peer, pipeline = self._neighbor(task, distance), self._parallel.pipeline
        if peer is None or pipeline is None:
            return
        message = (pipeline.elems, pipeline.transfer_ns)
        if receive:
            event = yield from self._receive(task.kind, "pp", peer, message)
            yield act.Await(event, act.MAIN_STREAM)
        else:
            yield from self._send(task.kind, "pp", peer, message)

    def _forward_task(self, task: Task) -> act.Program:
        yield from self._pass_on(task, -1, receive=True)
        self._first_sequence[task.chunk, task.micro_batch] = self._sequence
        yield from self._forward_nodes()
        yield from self._pass_on(task, 1, receive=False)

    def _backward_task(self, task: Task) -> act.Program:
        yield from self._pass_on(task, 1, receive=True)
        first = self._first_sequence.pop((task.chunk, task.micro_batch))
        last = self._last_backward[task.chunk] == task
        yield act.Handoff("autograd", self._backward(first, exchange=last))
        yield from self._pass_on(task, -1, receive=False)

    def _forward_nodes(self) -> act.Program:
        self._gathered.clear()
        waiting: list[act.Event] = []
        for index, node in enumerate(self._parallel.nodes):
            if node.first:
                yield from self._gather(self._firsts.index(index), 1)
            held, waiting = waiting, []
            if node.exchange is None:
                yield from self._forward(node)
            else:
                name = node.backward_name.removesuffix("Backward")
                op = act.Op(name, sequence=self._sequence, fwd_thread=_FORWARD_THREAD)
                self._sequence += 1
                exchange = node.exchange
                waiting = yield from self._within_layer(exchange, exchange.forward_op, (op,))
            yield from _awaited(held)
        yield from _awaited(waiting)

    def _backward(self, first_sequence: int, *, exchange: bool) -> act.Program:
        nodes = self._parallel.nodes
        self._gathered.clear()
        waiting: list[act.Event] = []
        for index in reversed(range(len(nodes))):
            node, opens = nodes[index], index == len(nodes) - 1 or nodes[index + 1].first
            if opens:
                yield from self._gather(sum(first <= index for first in self._firsts) - 1, -1)
            held, waiting = waiting, []
            wrappers = _wrappers(node, first_sequence + index)
            if node.exchange is not None:
                op = node.exchange.backward_op
                waiting = yield from self._within_layer(node.exchange, op, wrappers)
            else:
                calls = (*self._again(index, opens=opens), *node.backward)
                calls += () if self._puts_weights_off else node.weight
                yield from self._calls(wrappers, calls, self._parallel.machine.dispatch_ns)
            yield from _awaited(held)
            yield from self._gradients(node, exchange=exchange)
        yield from _awaited(waiting)

    def _gradients(self, node: Node, *, exchange: bool) -> act.Program:
        """Exchange what is complete after a node."""
        job = self._parallel
        if exchange and node.bucket_elems and job.exchange is not None:
            yield from self._reduce(node.bucket_elems, job.exchange)
        if node.first and job.sharding is not None:
            sharding = job.sharding
            event = yield from self._all(
                "fsdp", "_reduce_scatter_base", sharding.elems, sharding.scatter_ns
            )
            self._reduced.append(event)

    def _gather(self, layer: int, direction: int) -> act.Program:
        """Gather the parameters of a layer, and ahead of time those of the next ones."""
        sharding = self._parallel.sharding
        if sharding is None:
            return
        elems = sharding.elems // self._parallel.mesh.size("fsdp")
        for ahead in range(sharding.prefetch + 1):
            wanted = layer + ahead * direction
            if 0 <= wanted < len(self._firsts) and wanted not in self._gathered:
                gathering = self._all("fsdp", "_allgather_base", elems, sharding.gather_ns)
                self._gathered[wanted] = yield from gathering
        yield act.Await(self._gathered[layer], act.MAIN_STREAM)

    def _again(self, index: int, *, opens: bool) -> Iterable[OpCall]:
        """Forward operators that backward of a node runs again, as activations were not kept."""
        nodes, kind = self._parallel.nodes, self._parallel.recompute
        if kind == "full" and opens:
            first = max(first for first in self._firsts if first <= index)
            chosen = nodes[first : index + 1]
        elif kind == "attention" and _is_attention(nodes[index]):
            chosen = nodes[index : index + 1]
        else:
            return ()
        return [self._rerun(node.forward) for node in chosen if node.forward is not None]

    def _rerun(self, call: OpCall) -> OpCall:
        sequence = self._again_sequence
        self._again_sequence += 1
        ops = tuple(replace(op, sequence=sequence, fwd_thread=_FORWARD_THREAD) for op in call.ops)
        works = tuple(
            replace(work, flop=act.Flop(work.flop.executed), recomputed=True) for work in call.works
        )
        return OpCall(ops, works)


def _awaited(events: list[act.Event]) -> act.Program:
    for event in events:
        yield act.Await(event, act.MAIN_STREAM)


def _wrappers(node: Node, sequence: int) -> tuple[act.Op, ...]:
    names = (f"autograd::engine::evaluate_function: {node.backward_name}", node.backward_name)
    return tuple(
        act.Op(name, sequence=sequence, fwd_thread=_BACKWARD_FORWARD_THREAD) for name in names
    )


def _is_attention(node: Node) -> bool:
    works = () if node.forward is None else node.forward.works
    return any(work.shape.leaf == "flop.attn" for work in works)
