"""How does each loss of the host look as a program? Every function returns one that can be planted.

Names of calls, operators and ranges are those that PyTorch and CUDA use.
"""

from collections.abc import Callable, Iterable
from itertools import chain

from tracelens.simulate import actions as act
from tracelens.simulate import kernels
from tracelens.simulate.actions import Flop, Kernel, Work
from tracelens.simulate.host_job import SIDE_STREAM, NewEvent
from tracelens.simulate.model import matmul_flop

Planted = Callable[[NewEvent], act.Program]
_MATRIX = act.Arg((4096, 4096))


def doing(*actions: act.Action) -> Planted:
    """The actions, one after the other."""

    def program(_: NewEvent) -> act.Program:
        yield from actions

    return program


def inside(what: act.Op | act.Annotation, actions: Iterable[act.Action]) -> tuple[act.Action, ...]:
    """The actions inside an operator or a range."""
    return (act.Push(what), *actions, act.Pop())


def labeled(name: str, leaf: str, dur_ns: int) -> tuple[act.Action, ...]:
    """A range in which the thread computes."""
    return inside(act.Annotation(name, leaf=leaf), (act.Cpu(dur_ns),))


def read_back() -> Planted:
    """``loss.item()``: a copy to pageable memory, then a wait for the stream."""
    value = (act.Arg((), "float"),)
    copied = (act.Launch(Work(kernels.device_to_host(4), 1_600)), act.Sync(act.MAIN_STREAM))
    inner = inside(
        act.Op("aten::_local_scalar_dense", value), (act.Cpu(300), *copied, act.Cpu(300))
    )
    return doing(*inside(act.Op("aten::item", value), (act.Cpu(200), *inner, act.Cpu(200))))


def kernel(
    shape: Kernel, dur_ns: int, *, op: str = "aten::add", call_ns: int = 0, held_ns: int = 0
) -> tuple[act.Action, ...]:
    """One kernel launched by an operator."""
    launch = act.Launch(Work(shape, dur_ns), call_ns=call_ns, held_ns=held_ns)
    return inside(act.Op(op, (_MATRIX,)), (act.Cpu(2_000), launch, act.Cpu(500)))


def copy_in(size_bytes: int, dur_ns: int, call_ns: int = 0) -> tuple[act.Action, ...]:
    """A copy of a batch to the GPU."""
    launch = act.Launch(Work(kernels.host_to_device(size_bytes), dur_ns), call_ns=call_ns)
    return inside(act.Op("aten::copy_", (_MATRIX,)), (act.Cpu(2_000), launch, act.Cpu(500)))


def copy_out(size_bytes: int, dur_ns: int) -> tuple[act.Action, ...]:
    """A copy to pageable memory: the call returns when the copy is done."""
    work = Work(kernels.device_to_host(size_bytes), dur_ns)
    launch = act.Launch(work, returns_when_done=True)
    return inside(act.Op("aten::copy_", (_MATRIX,)), (act.Cpu(2_000), launch, act.Cpu(500)))


def copy_out_and_wait(size_bytes: int, dur_ns: int) -> tuple[act.Action, ...]:
    """The same with a synchronization of the stream, as PyTorch copies."""
    launch = act.Launch(Work(kernels.device_to_host(size_bytes), dur_ns))
    calls = (act.Cpu(2_000), launch, act.Sync(act.MAIN_STREAM), act.Cpu(500))
    return inside(act.Op("aten::copy_", (_MATRIX,)), calls)


def retry_storm(frees: int, *, synchronize: bool = False) -> tuple[act.Action, ...]:
    """The caching allocator is out of memory: it frees its blocks and asks again."""
    first = act.Api("cudaMalloc", 300_000, "host.alloc")
    free = act.Api("cudaFree", 200_000, "host.alloc", waits=True)
    again = act.Api("cudaMalloc", 150_000, "host.alloc")
    wait = (act.Sync(None, "host.alloc"),) if synchronize else ()
    calls = (first, *wait, *(free,) * frees, again)
    return inside(act.Op("aten::empty"), (act.Cpu(1_000), *calls, act.Cpu(1_000)))


def checkpoint(copies: int) -> tuple[act.Action, ...]:
    """Weights are copied out and written to disk."""
    out = chain.from_iterable(copy_out_and_wait(64 << 20, 3_000_000) for _ in range(copies))
    range_ = act.Annotation("save_checkpoint", leaf="host.ckpt")
    return inside(range_, (act.Cpu(500_000), *out, act.Cpu(8_000_000)))


def beside(main_ns: int, side_ns: int) -> Planted:
    """A matmul on a second stream while the main stream runs one; then the main stream waits."""
    flop: Flop = matmul_flop(4096, 4096, 4096)
    matmul = act.Op("aten::mm", (_MATRIX, _MATRIX))

    def program(new_event: NewEvent) -> act.Program:
        ready, done = new_event(), new_event()
        yield act.Record(ready, act.MAIN_STREAM)
        yield act.Await(ready, SIDE_STREAM)
        for shape, dur_ns, stream in (
            (kernels.gemm("TN"), main_ns, act.MAIN_STREAM),
            (kernels.gemm("NN"), side_ns, SIDE_STREAM),
        ):
            launch = act.Launch(Work(shape, dur_ns, flop), stream)
            yield from inside(matmul, (act.Cpu(2_000), launch, act.Cpu(500)))
        yield act.Record(done, SIDE_STREAM)
        yield act.Await(done, act.MAIN_STREAM)

    return program
