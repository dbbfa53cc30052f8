"""How would PyTorch's profiler (Kineto) write this run? One file a rank."""

import json
from collections.abc import Iterator

from tracelens.simulate.actions import Annotation, Arg, Collective, Copy, Event, Group, Kernel, Op
from tracelens.simulate.clock import BASE_NS
from tracelens.simulate.dialect import CURRENT, Dialect
from tracelens.simulate.run import Run
from tracelens.simulate.timeline import Activity, Call, Overhead, Range, Timeline

CBID = {
    "cudaLaunchKernel": 211,
    "cudaLaunchKernelExC": 430,
    "cuLaunchKernelEx": 652,
    "cudaMemcpyAsync": 41,
    "cudaEventRecord": 135,
    "cudaStreamWaitEvent": 147,
    "cudaEventSynchronize": 137,
    "cudaStreamSynchronize": 131,
    "cudaDeviceSynchronize": 165,
    "cudaMalloc": 20,
    "cudaFree": 22,
    "cudaGraphLaunch": 311,
}
_SMS = 132
_THREADS_PER_SM = 2048
_DEVICE = {
    "name": "NVIDIA H100 80GB HBM3",
    "totalGlobalMem": 85_028_372_480,
    "computeMajor": 9,
    "computeMinor": 0,
    "maxThreadsPerBlock": 1024,
    "maxThreadsPerMultiprocessor": _THREADS_PER_SM,
    "regsPerBlock": 65536,
    "warpSize": 32,
    "sharedMemPerBlock": 49152,
    "numSms": _SMS,
    "regsPerMultiprocessor": 65536,
    "sharedMemPerBlockOptin": 232_448,
    "sharedMemPerMultiprocessor": 233_472,
}


def document(run: Run, rank: int, dialect: Dialect = CURRENT) -> Iterator[str]:
    """The lines of the trace of one rank."""
    timeline = run.timelines[rank]
    writer = _Writer(run, timeline, dialect)
    header = json.dumps(_header(run, rank, dialect))
    yield header.removesuffix("}") + ',\n"traceEvents": [\n'
    events = list(writer.events())
    yield ",\n".join(events)
    yield f'\n], "traceName": "rank{rank}.json"\n}}\n'


def _header(run: Run, rank: int, dialect: Dialect) -> dict[str, object]:
    world_size = run.job.world_size
    devices = [{"id": index, **_DEVICE} for index in range(world_size)]
    header: dict[str, object] = {"schemaVersion": 1, "deviceProperties": devices}
    if dialect.old_kineto:
        if world_size > 1:
            job = {"backend": "nccl", "rank": rank, "world_size": world_size}
            header["distributedInfo"] = job
        return header | {"record_shapes": 1}
    header["cupti_version"] = 24
    header["cuda_runtime_version"] = 12060
    header["cuda_driver_version"] = 12080
    if world_size > 1:
        everyone = Group("0", "default_pg", "world", tuple(range(world_size)))
        groups = [everyone, *run.job.groups(rank)]
        header["distributedInfo"] = {
            "backend": "nccl",
            "rank": rank,
            "world_size": world_size,
            "pg_count": len(groups),
            "pg_config": [
                {
                    "pg_name": group.name,
                    "pg_desc": group.description,
                    "backend_config": "cuda:nccl",
                    "pg_size": len(group.ranks),
                    "ranks": list(group.ranks),
                }
                for group in groups
            ],
            "nccl_version": "2.26.2",
        }
    header["record_shapes"] = 1
    header["trace_id"] = f"{run.seed:016X}{rank + 1:016X}"
    header["displayTimeUnit"] = "ms"
    if dialect.kineto == "ns":
        header["baseTimeNanoseconds"] = BASE_NS
    return header


def _recorded(parents: tuple[Range, ...]) -> Range | None:
    """The innermost range that Kineto sees; it knows nothing of NVTX domains."""
    for opened in reversed(parents):
        if isinstance(opened.what, Op) or not opened.what.domain:
            return opened
    return None


class _Writer:
    def __init__(self, run: Run, timeline: Timeline, dialect: Dialect) -> None:
        self._run = run
        self._timeline = timeline
        self._dialect = dialect
        self._origin_ns = dialect.kineto_origin_ns(run.seed)
        self._clock = timeline.recording.clock(timeline.rank)

    def events(self) -> Iterator[str]:
        """All events, in the order of the recorder's passes."""
        timeline = self._timeline
        for index, opened in enumerate(
            opened
            for opened in timeline.recorded_ranges()
            if isinstance(opened.what, Op) or not opened.what.domain
        ):
            yield self._range(opened, index)
        launches = {activity.call.correlation for activity in timeline.recorded_activities()}
        for call in timeline.recorded_calls():
            yield self._call(call)
            if call.correlation in launches:
                yield self._flow("s", call)
        for activity in timeline.recorded_activities():
            yield self._activity(activity)
            yield self._flow("f", activity)
        yield from map(self._overhead, filter(timeline.captured, timeline.overheads))
        if not self._dialect.old_kineto:
            yield from self._annotations()
            yield from self._waits()
        yield from self._metadata()

    def _stamp(self, time_ns: int) -> str:
        return self._dialect.stamp(self._origin_ns + self._clock.read(time_ns))

    def _span(self, cat: str, name: str, where: tuple[int, int], start_ns: int, end_ns: int) -> str:
        pid, tid = where
        ts = self._stamp(start_ns)
        shown_ns = [self._origin_ns + self._clock.read(time_ns) for time_ns in (start_ns, end_ns)]
        dur = self._dialect.span(*shown_ns)
        return (
            f'{{"ph": "X", "cat": "{cat}", "name": {json.dumps(name)}, "pid": {pid}, '
            f'"tid": {tid}, "ts": {ts}, "dur": {dur}'
        )

    def _host(self, thread: str) -> tuple[int, int]:
        return self._timeline.pid, self._timeline.threads[thread]

    def _range(self, opened: Range, index: int) -> str:
        what = opened.what
        args: dict[str, object] = {"External id": opened.id}
        if not self._dialect.old_kineto:
            args["Record function id"] = 0
        if isinstance(what, Op):
            if what.sequence is not None:
                args["Sequence number"] = what.sequence
                args["Fwd thread id"] = what.fwd_thread
            if what.collective is not None:
                args |= self._collective(what.collective, on_op=True)
            if what.args:
                args |= _inputs(what.args, strides=not self._dialect.old_kineto)
        args["Ev Idx"] = index
        cat = "cpu_op" if isinstance(what, Op) else "user_annotation"
        span = self._span(cat, what.name, self._host(opened.thread), opened.start_ns, opened.end_ns)
        return f'{span}, "args": {json.dumps(args)}}}'

    def _collective(self, collective: Collective, *, on_op: bool) -> dict[str, object]:
        ranks = collective.group.ranks
        fields: dict[str, object] = {
            "Collective name": collective.op,
            "In msg nelems": collective.elems,
            "Out msg nelems": collective.out_elems,
            "Group size": len(ranks),
            "dtype": collective.dtype,
            "In split size": "[]",
            "Out split size": "[]",
            "Process Group Name": collective.group.name,
            "Process Group Description": collective.group.description,
            "Process Group Ranks": str(list(ranks)),
        }
        if collective.peers is not None:
            sender, receiver = collective.peers
            sends = collective.op == "send"
            fields |= {"Dst Rank": receiver} if sends else {"Src Rank": sender}
        if on_op:
            fields |= {
                "Rank": self._timeline.rank,
                "Global rank start": 0,
                "Global rank stride": 1,
            }
        return fields

    def _call(self, call: Call) -> str:
        args = self._external_id(call)
        if call.name in CBID:
            args["cbid"] = CBID[call.name]
        args["correlation"] = call.correlation
        cat = "cuda_runtime" if call.name.startswith("cuda") else "cuda_driver"
        span = self._span(cat, call.name, self._host(call.thread), call.start_ns, call.end_ns)
        return f'{span}, "args": {json.dumps(args)}}}'

    def _external_id(self, call: Call) -> dict[str, object]:
        if self._dialect.old_kineto:
            return {"External id": call.correlation}
        parent = _recorded(call.parents)
        return {} if parent is None else {"External id": parent.id}

    def _overhead(self, row: Overhead) -> str:
        """Kineto does not say which thread the profiler held up."""
        span = self._span("overhead", row.name, (-1, 0), row.start_ns, row.end_ns)
        return f"{span}}}"

    def _flow(self, phase: str, end: Call | Activity) -> str:
        if isinstance(end, Call):
            (pid, tid), key, binding = self._host(end.thread), end.correlation, ""
        else:
            pid, tid, key = self._timeline.rank, end.stream, end.call.correlation
            binding = ', "bp": "e"'
        return (
            f'{{"ph": "{phase}", "id": {key}, "pid": {pid}, "tid": {tid}, '
            f'"ts": {self._stamp(end.start_ns)}, "cat": "ac2g", "name": "ac2g"{binding}}}'
        )

    def _activity(self, activity: Activity) -> str:
        shape = activity.work.shape
        where = (self._timeline.rank, activity.stream)
        args = self._external_id(activity.call)
        if isinstance(shape, Kernel):
            args["queued"] = 0
        args |= {
            "device": self._timeline.rank,
            "context": 1,
            "stream": activity.stream,
            "correlation": activity.call.correlation,
        }
        if isinstance(shape, Copy):
            args["bytes"] = shape.bytes
            args["memory bandwidth (GB/s)"] = shape.bytes / activity.work.dur_ns
        else:
            args |= _occupancy(shape)
        if activity.node >= 0:
            args |= {"graph id": 1, "graph node id": activity.node + 1}
        if activity.work.collective is not None and not self._dialect.old_kineto:
            args |= self._collective(activity.work.collective, on_op=False)
        cat = "gpu_memcpy" if isinstance(shape, Copy) else "kernel"
        span = self._span(cat, shape.name, where, activity.start_ns, activity.end_ns)
        return f'{span}, "args": {json.dumps(args)}}}'

    def _annotations(self) -> Iterator[str]:
        """Copies of user ranges on the GPU: the span of their kernels, widened as Kineto does."""
        spans: dict[tuple[int, int], tuple[Range, int, int]] = {}
        named = {opened.id for opened in self._timeline.recorded_ranges()}
        for activity in self._timeline.recorded_activities():
            for opened in activity.call.parents:
                if opened.id not in named:
                    continue
                if isinstance(opened.what, Annotation) and not opened.what.domain:
                    key = (opened.id, activity.stream)
                    _, first, last = spans.get(key, (opened, activity.start_ns, 0))
                    spans[key] = (
                        opened,
                        min(first, activity.start_ns),
                        max(last, activity.end_ns),
                    )
        for (_, stream), (opened, first, last) in spans.items():
            where = (self._timeline.rank, stream)
            span = self._span("gpu_user_annotation", opened.what.name, where, first - 1, last + 1)
            yield f'{span}, "args": {{"External id": {opened.id}}}}}'

    def _waits(self) -> Iterator[str]:
        calls = set(map(id, self._timeline.recorded_calls()))
        for wait in self._timeline.stream_waits:
            if id(wait.call) not in calls:
                continue
            yield self._sync("Stream Wait Event", wait.stream, wait.call, wait.event)
        for sync in self._timeline.host_syncs:
            if id(sync.call) not in calls:
                continue
            if sync.event is not None:
                yield self._sync("Event Sync", -1, sync.call, sync.event)
            elif sync.stream is not None:
                yield self._sync("Stream Sync", sync.stream, sync.call)
            else:
                yield self._sync("Context Sync", -1, sync.call)

    def _sync(self, kind: str, stream: int, call: Call, event: Event | None = None) -> str:
        parent = _recorded(call.parents)
        args: dict[str, object] = {} if parent is None else {"External id": parent.id}
        args["cuda_sync_kind"] = kind
        if event is not None:
            args["wait_on_stream"] = event.record_stream
            args["wait_on_cuda_event_record_corr_id"] = event.record_correlation
            args["wait_on_cuda_event_id"] = event.id
        device = self._timeline.rank
        args |= {
            "stream": stream,
            "correlation": call.correlation,
            "device": device,
            "context": 1,
        }
        span = self._span("cuda_sync", kind, (device, stream), call.start_ns, call.end_ns)
        return f'{span}, "args": {json.dumps(args)}}}'

    def _metadata(self) -> Iterator[str]:
        timeline = self._timeline
        ts = self._stamp(0)

        def row(kind: str, where: tuple[int, int], args: dict[str, object]) -> str:
            return (
                f'{{"name": "{kind}", "ph": "M", "ts": {ts}, "pid": {where[0]}, '
                f'"tid": {where[1]}, "args": {json.dumps(args)}}}'
            )

        processes = [(timeline.pid, "CPU", timeline.pid)] + [
            (device, f"GPU {device}", 5_000_000 + device)
            for device in range(self._run.job.world_size)
        ]
        for pid, label, order in processes:
            yield row("process_name", (pid, 0), {"name": "python"})
            yield row("process_labels", (pid, 0), {"labels": label})
            yield row("process_sort_index", (pid, 0), {"sort_index": order})
        for stream in sorted({activity.stream for activity in timeline.activities}):
            where = (timeline.rank, stream)
            yield row("thread_name", where, {"name": f"stream {stream} "})
            yield row("thread_sort_index", where, {"sort_index": stream})
        for name, tid in timeline.threads.items():
            title = "python" if name == "main" else "pt_autograd_0"
            yield row("thread_name", (timeline.pid, tid), {"name": f"thread {tid} ({title})"})
            yield row("thread_sort_index", (timeline.pid, tid), {"sort_index": tid})
        yield (
            '{"name": "Iteration Start: PyTorch Profiler", "ph": "i", "s": "g", '
            f'"pid": "Traces", "tid": "Trace PyTorch Profiler", "ts": {ts}}}'
        )
        end_ns = max(call.end_ns for call in timeline.calls)
        yield (
            '{"name": "Record Window End", "ph": "i", "s": "g", "pid": "", "tid": "", '
            f'"ts": {self._stamp(end_ns)}}}'
        )


def _inputs(inputs: tuple[Arg, ...], *, strides: bool) -> dict[str, object]:
    fields: dict[str, object] = {
        "Concrete Inputs": [arg.concrete for arg in inputs],
        "Input type": [arg.type for arg in inputs],
    }
    if strides:
        fields["Input Strides"] = [list(arg.strides) for arg in inputs]
    return fields | {"Input Dims": [list(arg.dims) for arg in inputs]}


def _occupancy(kernel: Kernel) -> dict[str, object]:
    blocks = kernel.grid[0] * kernel.grid[1] * kernel.grid[2]
    threads = kernel.block[0] * kernel.block[1] * kernel.block[2]
    warps = -(-threads // 32)
    return {
        "registers per thread": kernel.registers,
        "shared memory": kernel.shared_bytes,
        "blocks per SM": round(blocks / _SMS, 6),
        "warps per SM": round(blocks * warps / _SMS, 6),
        "grid": list(kernel.grid),
        "block": list(kernel.block),
        "est. achieved occupancy %": min(100, blocks * threads * 100 // (_SMS * _THREADS_PER_SM)),
    }
