"""How would Nsight Systems export this run to SQLite? One file for the node, or one a rank.

Operators appear as PyTorch's ``emit_nvtx(record_shapes=True)`` names them; steps, the loader and
the optimizer as plain ranges; NCCL calls in NCCL's own NVTX domain.
"""

import re
import sqlite3
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path

from tracelens.simulate.actions import Arg, Copy, Kernel, Op
from tracelens.simulate.clock import BASE_NS, NS_PER_S, NSYS_LEAD_NS, origin_ns
from tracelens.simulate.dialect import CURRENT, Dialect
from tracelens.simulate.run import Run
from tracelens.simulate.timeline import Activity, Call, Range, Timeline

_VIRTUAL_MACHINE = 1 << 48
_NO_EVENT = 0xFFFFFFFF
_NO_STREAM = 0xFFFFFFFF
_PUSH_POP = 59
_DOMAIN_CREATE = 75
_NCCL_DOMAIN = 1
_API_VERSION = {
    "cudaLaunchKernel": "_v7000",
    "cudaLaunchKernelExC": "_v11060",
    "cudaMemcpyAsync": "_v3020",
    "cudaEventRecord": "_v3020",
    "cudaEventSynchronize": "_v3020",
    "cudaStreamWaitEvent": "_v3020",
    "cudaStreamSynchronize": "_v3020",
    "cudaDeviceSynchronize": "_v3020",
    "cudaMalloc": "_v3020",
    "cudaFree": "_v3020",
    "cudaGraphLaunch": "_v10000",
}
_OVERHEAD_TYPES = {"Buffer Flush": 3, "Lazy Function Loading": 7}
_OVERHEAD_NAMES = {"Buffer Flush": "CUPTI Buffer flush"}
_OS_CLASS = 27
_LAZY = ("PROFILER_OVERHEAD", "CUPTI_ACTIVITY_KIND_OVERHEAD", "OSRT_API")
"""Tables that an export has only where there is something to tell."""
_EXPORT = {
    "EXPORT_PRODUCT_NAME": "NVIDIA Nsight Systems",
    "EXPORT_SCHEMA_VERSION": "3.24.0",
    "EXPORT_SCHEMA_VERSION_MAJOR": "3",
    "EXPORT_SCHEMA_VERSION_MINOR": "24",
    "EXPORT_SCHEMA_VERSION_MICRO": "0",
    "EXPORT_PLATFORM": "linux-desktop",
    "EXPORT_ARCH": "x64",
    "EXPORT_PARAM_LAZY": "true",
    "EXPORT_PARAM_INCLUDE_JSON": "true",
    "EXPORT_PARAM_TIME_NORMALIZE": "false",
    "EXPORT_PARAM_TIME_SHIFT": "0",
}
_CAPTURE = {
    "CAPTURE_EVENT_TYPE": "Cuda",
    "PROCESS_0:COLLECT_NVTX_TRACE": "true",
    "PROCESS_0:COLLECT_CUDA_TRACE": "true",
    "PROCESS_0:CUDA_GRAPH_TRACE_OPTIONS:MODE": "Node",
}
_GPU = (
    *(1, 52_428_800, 85_028_372_480, 3_352_320_000_000, 1_980_000_000, 132),
    *("GH100", "", "", 161, 0, 65_536, 4, 65_536, 49_152, 232_448, 233_472, 65_536, 32, 3, 64),
    *(32, 1_024, 1_024, 1_024, 64, 2_147_483_647, 65_535, 65_535, 9, 0, 9, 0),
)


_CHANGES = {"2022.4": ("2023_4", "2022_4"), "2023.4": ("2023_4",), "2026.2": ("2026_2",)}
"""Scripts that turn the current schema into that of another release, one after the other."""
_BUILDS = {"2022.4": ".2.1", "2023.4": ".4.54", "2025.5": ".2.266", "2026.2": ".1.210"}


def write_database(
    run: Run, timelines: list[Timeline], path: Path, dialect: Dialect = CURRENT
) -> None:
    """Write the export of some ranks to ``path``, replacing what is there."""
    path.unlink(missing_ok=True)
    connection = sqlite3.connect(path)
    try:
        connection.executescript(_script("schema"))
        _Export(run, timelines, connection, dialect).write()
        for changed in _CHANGES.get(dialect.nsys, ()):
            connection.executescript(_script(changed))
        for table in _LAZY:
            _drop_if_empty(connection, table)
        connection.commit()
        connection.execute("VACUUM")
    finally:
        connection.close()


def _script(name: str) -> str:
    return files("tracelens.simulate").joinpath(f"nsight_{name}.sql").read_text("utf-8")


def _drop_if_empty(connection: sqlite3.Connection, table: str) -> None:
    there = connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    if there and not connection.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone():
        connection.execute(f"DROP TABLE {table}")


class _Export:
    def __init__(
        self,
        run: Run,
        timelines: list[Timeline],
        connection: sqlite3.Connection,
        dialect: Dialect,
    ) -> None:
        self._run = run
        self._timelines = timelines
        self._connection = connection
        self._dialect = dialect
        self._clock = timelines[0].recording.clock(timelines[0].rank)
        self._strings: dict[str, int] = {"[Unknown]": 0}

    def write(self) -> None:
        """Fill every table."""
        for timeline in self._timelines:
            self._activities(timeline)
            calls = timeline.recorded_calls()
            self._calls(timeline, calls)
            self._waits(timeline, {id(call) for call in calls})
            self._ranges(timeline)
            self._overheads(timeline)
            self._process(timeline)
        self._session()
        rows = [(number, text) for text, number in self._strings.items()]
        self._insert("StringIds", rows)

    def _insert(self, table: str, rows: Iterable[tuple[object, ...]]) -> None:
        rows = list(rows)
        if rows:
            marks = ", ".join("?" * len(rows[0]))
            self._connection.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)

    def _string(self, text: str) -> int:
        return self._strings.setdefault(text, len(self._strings))

    def _time(self, time_ns: int) -> int:
        return NSYS_LEAD_NS + self._clock.read(time_ns)

    def _activities(self, timeline: Timeline) -> None:
        kernels, copies = [], []
        for activity in timeline.recorded_activities():
            shape = activity.work.shape
            if isinstance(shape, Kernel):
                kernels.append(self._where(timeline, activity) + self._kernel(shape, activity))
            else:
                copies.append(self._where(timeline, activity) + _copy(shape))
        self._insert("CUPTI_ACTIVITY_KIND_KERNEL", kernels)
        self._insert("CUPTI_ACTIVITY_KIND_MEMCPY", copies)

    def _where(self, timeline: Timeline, activity: Activity) -> tuple[object, ...]:
        return (
            self._time(activity.start_ns),
            self._time(activity.end_ns),
            timeline.rank,
            1,
            None,
            activity.stream,
            activity.call.correlation,
            _global_pid(timeline),
        )

    def _kernel(self, kernel: Kernel, activity: Activity) -> tuple[object, ...]:
        name = self._string(kernel.nsys_name)
        short = self._string(_short_name(kernel.nsys_name))
        node, graph = (activity.node + 1, 1) if activity.node >= 0 else (None, None)
        grid_id = activity.id + 1
        shared = (0, kernel.shared_bytes, 0, 0, grid_id, kernel.shared_bytes, node, 0, graph)
        cluster = (0, 0, 0, 0, 1, 0)
        return (
            *(name, short, name, 1, 1, kernel.registers),
            *kernel.grid,
            *kernel.block,
            *shared,
            *cluster,
        )

    def _calls(self, timeline: Timeline, calls: list[Call]) -> None:
        self._insert(
            "CUPTI_ACTIVITY_KIND_RUNTIME",
            [
                (
                    self._time(call.start_ns),
                    self._time(call.end_ns),
                    0 if call.name.startswith("cuda") else 1,
                    _global_tid(timeline, call.thread),
                    call.correlation,
                    self._string(call.name + _API_VERSION.get(call.name, "")),
                    0,
                    None,
                )
                for call in calls
            ],
        )

    def _waits(self, timeline: Timeline, calls: set[int]) -> None:
        device, global_pid = timeline.rank, _global_pid(timeline)
        rows: list[tuple[object, ...]] = [
            (
                *(self._time(wait.call.start_ns), self._time(wait.call.end_ns), device, 1, None),
                *(wait.stream, wait.call.correlation, global_pid, None, 2),
                *(wait.event.id, wait.event.id),
            )
            for wait in timeline.stream_waits
            if id(wait.call) in calls
        ]
        for sync in timeline.host_syncs:
            if id(sync.call) not in calls:
                continue
            kind, stream, event = 4, _NO_STREAM, _NO_EVENT
            if sync.stream is not None:
                kind, stream = 3, sync.stream
            elif sync.event is not None:
                kind, event = 1, sync.event.id
            rows.append(
                (
                    *(self._time(sync.call.start_ns), self._time(sync.call.end_ns), device, 1),
                    *(None, stream, sync.call.correlation, global_pid, None, kind, event),
                    0 if event == _NO_EVENT else event,
                )
            )
        self._insert("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", rows)
        self._insert(
            "CUPTI_ACTIVITY_KIND_CUDA_EVENT",
            [
                (
                    *(0, device, 1, None, record.stream, record.call.correlation, global_pid),
                    *(record.event_id, record.event_id),
                )
                for record in timeline.event_records
                if id(record.call) in calls
            ],
        )

    def _ranges(self, timeline: Timeline) -> None:
        rows = [self._range(timeline, opened) for opened in timeline.recorded_ranges()]
        if any(row[10] == _NCCL_DOMAIN for row in rows):
            tid = _global_tid(timeline, "main")
            created = (self._time(0), None, _DOMAIN_CREATE, None, None, None, None, tid, None)
            name = self._string("NCCL")
            rows.insert(0, (*created, name, _NCCL_DOMAIN, *(None,) * 9))
        self._insert("NVTX_EVENTS", rows)

    def _overheads(self, timeline: Timeline) -> None:
        profiler, driver = [], []
        for row in filter(timeline.captured, timeline.overheads):
            name = self._string(_OVERHEAD_NAMES.get(row.name, row.name))
            times = (self._time(row.start_ns), self._time(row.end_ns))
            tid, kind = _global_tid(timeline, row.thread), _OVERHEAD_TYPES[row.name]
            if row.name == "Buffer Flush":
                profiler.append((*times, tid, name, kind))
            else:
                driver.append((*times, 1, tid, None, name, kind))
        self._insert("PROFILER_OVERHEAD", profiler)
        self._insert("CUPTI_ACTIVITY_KIND_OVERHEAD", driver)
        self._insert(
            "OSRT_API",
            [
                (
                    *(self._time(row.start_ns), self._time(row.end_ns), _OS_CLASS),
                    *(_global_tid(timeline, row.thread), self._string(row.name), 0, None, 0),
                )
                for row in filter(timeline.captured, timeline.os_calls)
            ],
        )

    def _range(self, timeline: Timeline, opened: Range) -> tuple[object, ...]:
        what = opened.what
        tid = _global_tid(timeline, opened.thread)
        times = (self._time(opened.start_ns), self._time(opened.end_ns), _PUSH_POP)
        if isinstance(what, Op):
            text: str | None = _op_text(what, opened.id)
            text_id, domain = None, 0
        elif what.domain:
            text, text_id, domain = None, self._string(what.name), _NCCL_DOMAIN
        else:
            text, text_id, domain = what.nsys_name or what.name, None, 0
        payload = None if isinstance(what, Op) else what.payload
        names = (None, None, None, text, tid, None, text_id, domain)
        return (*times, *names, *(None,) * 7, payload, None)

    def _process(self, timeline: Timeline) -> None:
        pid, device = timeline.pid, timeline.rank
        self._insert("PROCESSES", [(_global_pid(timeline), pid, "python")])
        self._insert("TARGET_INFO_CUDA_DEVICE", [(device, device, pid)])
        self._insert("TARGET_INFO_CUDA_CONTEXT_INFO", [(7, 0, 1, pid, device, 1, None, None)])
        streams = sorted({activity.stream for activity in timeline.activities})
        self._insert(
            "TARGET_INFO_CUDA_STREAM",
            [(stream, 0, 1, pid, 1, 0, 3 if stream == 7 else 2) for stream in streams],
        )
        names = {"main": "pt_main_thread", "autograd": "pt_autograd_0"}
        self._insert(
            "ThreadNames",
            [
                (self._string(names[thread]), 20, _global_tid(timeline, thread))
                for thread in timeline.threads
            ],
        )
        memory, tail = _GPU[:6], _GPU[7:]
        uuid = f"00000000-0000-0000-0000-{device + 1:012d}"
        bus = f"0000:{0x19 + 0x10 * device:02x}:00.0"
        named = (_VIRTUAL_MACHINE, device, "NVIDIA H100 80GB HBM3", bus)
        self._insert(
            "TARGET_INFO_GPU", [(*named, *memory, device, uuid, 0, _GPU[6], device, *tail)]
        )

    def _session(self) -> None:
        started_ns = BASE_NS + origin_ns(self._run.seed) - NSYS_LEAD_NS
        version = self._dialect.nsys
        stamp = datetime.fromtimestamp(started_ns // NS_PER_S, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        self._insert("TARGET_INFO_SESSION_START_TIME", [(started_ns, stamp, stamp)])
        last_ns = max(call.end_ns for line in self._timelines for call in line.calls)
        duration_ns = self._time(last_ns) + NS_PER_S
        boot_ns = 86_400 * NS_PER_S
        self._insert(
            "ANALYSIS_DETAILS", [(_VIRTUAL_MACHINE, duration_ns, boot_ns, boot_ns + duration_ns)]
        )
        product, *settings = _EXPORT.items()
        build = [
            ("EXPORT_PRODUCT_VERSION", version + _BUILDS[version]),
            ("EXPORT_PRODUCT_DATE", version),
        ]
        self._insert("META_DATA_EXPORT", [product, *build, *settings])
        self._insert("META_DATA_CAPTURE", list(_CAPTURE.items()))


def _global_pid(timeline: Timeline) -> int:
    return _VIRTUAL_MACHINE | timeline.pid << 24


def _global_tid(timeline: Timeline, thread: str) -> int:
    return _global_pid(timeline) | timeline.threads[thread]


def _copy(copy: Copy) -> tuple[object, ...]:
    kinds = (copy.bytes, copy.copy_kind, None, copy.src_kind, copy.dst_kind)
    return (*kinds, *(None,) * 7, 1)


def _short_name(name: str) -> str:
    """The bare function name: no return type, namespaces, template or parameter list."""
    bare = re.split(r"[<(]", name.replace("<unnamed>", ""), maxsplit=1)[0]
    return bare.rsplit("::", 1)[-1].rsplit(" ", 1)[-1]


def _op_text(op: Op, op_id: int) -> str:
    text = op.name if op.sequence is None else f"{op.name}, seq = {op.sequence}"
    text += f", op_id = {op_id}"
    if op.args:
        text += f", sizes = [{', '.join(_size(arg) for arg in op.args)}]"
    return text


def _size(arg: Arg) -> str:
    return str(list(arg.dims))
