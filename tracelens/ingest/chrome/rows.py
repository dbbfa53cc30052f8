"""Turn decoded events into rows of the raw tables: rename and cast, never classify."""

import re
from typing import Any

import msgspec

from tracelens.ingest.chrome.event import Args, Event, as_int, as_small_int, as_text, number_text
from tracelens.ingest.columns import Columns
from tracelens.ingest.damage import Damage
from tracelens.store import Store
from tracelens.units import NS_PER_S, us_text_to_ns

_CATEGORY = {
    "kernel": "kernel",
    "concurrent_kernel": "kernel",
    "mtia_ccp_events": "kernel",
    "gpu_memcpy": "memcpy",
    "memcpy": "memcpy",
    "gpu_memset": "memset",
    "memset": "memset",
    "cuda_runtime": "runtime",
    "runtime": "runtime",
    "hip_runtime": "runtime",
    "mtia_runtime": "runtime",
    "xpu_runtime": "runtime",
    "privateuse1_runtime": "runtime",
    "cuda_driver": "driver",
    "hip_driver": "driver",
    "xpu_driver": "driver",
    "privateuse1_driver": "driver",
    "cpu_op": "op",
    "operator": "op",
    "hpu_op": "op",
    "user_annotation": "annotation",
    "python_function": "python",
    "overhead": "overhead",
    "cuda_sync": "sync",
}
_MARK = "ProfilerStep#"
_MODULE = "nn.Module: "
_CATEGORIES_KEPT = 20
FARTHEST_NS = 2**61
_LONGEST_NS = 3_600 * NS_PER_S
_COPY_WORDS = (
    ("h2d", re.compile(r"HtoD|HostToDevice|H2D", re.IGNORECASE)),
    ("d2h", re.compile(r"DtoH|DeviceToHost|D2H", re.IGNORECASE)),
    ("p2p", re.compile(r"PtoP|PeerToPeer|P2P", re.IGNORECASE)),
    ("d2d", re.compile(r"DtoD|DeviceToDevice|D2D", re.IGNORECASE)),
    ("h2d", re.compile(r"HtoH|HostToHost", re.IGNORECASE)),
)
_DIGITS = re.compile(r"-?\d+")

NO_TIME = "event without a usable timestamp"
NO_DUR = "complete event without a usable duration"
NEGATIVE = "negative duration"
CLAMPED = "GPU event with timestamp 0 and duration 0"
TOO_LONG = "GPU event longer than an hour"
NO_DEVICE = "GPU event without a device"
UNPAIRED = "begin or end event without its partner"


class RowWriter:
    """Writes the rows of one file.

    Attributes:
        first_ns: earliest timestamp of any event that a viewer draws: what it calls 0.
        fractional: whether any time is not a whole microsecond.
        devices: device ordinals that did work.
        categories: categories of events, the first twenty.
    """

    def __init__(self, store: Store, process: int, damage: Damage, *, with_stacks: bool) -> None:
        self._store = store
        self._process = process
        self._damage = damage
        self._with_stacks = with_stacks
        self._threads: dict[tuple[str, str], int] = {}
        self._first_thread = store.next_row("thread", "thread")
        self._first_gpu = store.next_row("gpu", "gpu")
        self._open: dict[tuple[str, str], list[Event]] = {}
        self.devices: dict[int, int] = {}
        self.categories: set[str] = set()
        self.first_ns: int | None = None
        self.fractional = False
        self._tables = {
            name: Columns(store, name, columns)
            for name, columns in {
                "activity": _ACTIVITY,
                "host_call": _HOST_CALL,
                "op": _OP,
                "range": _RANGE,
                "overhead": _OVERHEAD,
                "stream_wait": _STREAM_WAIT,
                "collective": _COLLECTIVE,
            }.items()
        }

    def add(self, event: Event) -> None:
        """Take one event."""
        self._note_time(event)
        if event.ph in ("B", "E"):
            paired = self._pair(event)
            if paired is None:
                return
            event = paired
        elif event.ph != "X":
            return
        kind = _CATEGORY.get(event.cat.lower()) if isinstance(event.cat, str) else None
        if len(self.categories) < _CATEGORIES_KEPT and isinstance(event.cat, str):
            self.categories.add(event.cat[:40])
        if kind is None or (kind == "python" and not self._is_wanted_frame(event.name)):
            return
        times = self._times(event)
        if times is None:
            return
        start_ns, end_ns = times
        if kind in ("kernel", "memcpy", "memset"):
            self._activity(event, kind, start_ns, end_ns)
        else:
            self._host(event, kind, start_ns, end_ns)

    def _is_wanted_frame(self, name: object) -> bool:
        """Frames are most of a file; those of modules are few, and say what part of a model ran."""
        return self._with_stacks or (isinstance(name, str) and name.startswith(_MODULE))

    def finish(self) -> None:
        """Write what is still gathered, threads included."""
        unfinished = sum(len(stack) for stack in self._open.values())
        if unfinished:
            self._damage.add(UNPAIRED, count=unfinished)
        for table in self._tables.values():
            table.flush()
        if self._threads:
            self._store.append(
                "thread",
                {
                    "thread": list(self._threads.values()),
                    "process": [self._process] * len(self._threads),
                    "tid": [f"{pid}/{tid}" for pid, tid in self._threads],
                },
            )
        self._store.flush_names()

    # --- times -----------------------------------------------------------------------------------

    def _note_time(self, event: Event) -> None:
        at_ns = us_text_to_ns(number_text(event.ts))
        if at_ns is not None and (self.first_ns is None or at_ns < self.first_ns):
            self.first_ns = at_ns

    def _times(self, event: Event) -> tuple[int, int] | None:
        start_ns = us_text_to_ns(number_text(event.ts))
        if start_ns is None:
            self._damage.add(NO_TIME)
            return None
        dur_ns = us_text_to_ns(number_text(event.dur))
        if dur_ns is None:
            self._damage.add(NO_DUR)
            return None
        if dur_ns < 0:
            self._damage.add(NEGATIVE)
            return None
        if abs(start_ns) > FARTHEST_NS or dur_ns > FARTHEST_NS:
            self._damage.add(NO_TIME)
            return None
        if not self.fractional and (start_ns % 1000 or dur_ns % 1000):
            self.fractional = True
        return start_ns, start_ns + dur_ns

    def _pair(self, event: Event) -> Event | None:
        stack = self._open.setdefault((str(event.pid), str(event.tid)), [])
        if event.ph == "B":
            stack.append(event)
            return None
        if not stack:
            self._damage.add(UNPAIRED)
            return None
        begin = stack.pop()
        start_ns = us_text_to_ns(number_text(begin.ts))
        end_ns = us_text_to_ns(number_text(event.ts))
        if start_ns is None or end_ns is None:
            self._damage.add(NO_TIME)
            return None
        whole, part = divmod(abs(end_ns - start_ns), 1000)
        sign = "-" if end_ns < start_ns else ""
        begin.dur = msgspec.Raw(f"{sign}{whole}.{part:03d}".encode())
        begin.ph = "X"
        return begin

    # --- GPU -------------------------------------------------------------------------------------

    def _activity(self, event: Event, kind: str, start_ns: int, end_ns: int) -> None:
        if start_ns == 0 and end_ns == 0:
            self._damage.add(CLAMPED)
            return
        if end_ns - start_ns > _LONGEST_NS:
            self._damage.add(TOO_LONG)
            return
        args = event.args or _NO_ARGS
        name = as_text(event.name) or "unknown"
        device = _first_int(args.device, event.pid)
        if device is None or not 0 <= device < 2**31:
            self._damage.add(NO_DEVICE)
            return
        stream = _first_int(args.stream, event.tid)
        grid = _triple(args.grid)
        block = _triple(args.block)
        activity_id = self._store.take_ids("activity", 1)
        self._tables["activity"].add(
            (
                activity_id,
                self._gpu(device),
                self._process,
                stream if stream is not None else -1,
                kind,
                name,
                start_ns,
                end_ns,
                as_int(args.correlation),
                as_int(args.graph_node),
                as_int(args.bytes),
                _copy_kind(name, args.kind) if kind == "memcpy" else None,
                *grid,
                *block,
                as_int(args.external_id if args.external_id is not None else args.external_id_old),
            )
        )
        if args.collective is not None:
            self._collective(args, activity_id=activity_id)

    def _gpu(self, device: int) -> int:
        return self.devices.setdefault(device, self._first_gpu + len(self.devices))

    def _collective(
        self, args: Args, *, activity_id: int | None = None, op_id: int | None = None
    ) -> None:
        self._tables["collective"].add(
            (
                activity_id,
                op_id,
                as_text(args.collective),
                as_int(args.in_elems),
                as_int(args.out_elems),
                as_text(args.dtype),
                as_small_int(args.group_size),
                as_text(args.group_name),
                as_text(args.group_desc),
                as_text(args.group_ranks),
                as_int(args.seq),
            )
        )

    # --- host ------------------------------------------------------------------------------------

    def _host(self, event: Event, kind: str, start_ns: int, end_ns: int) -> None:
        args = event.args or _NO_ARGS
        name = as_text(event.name) or "unknown"
        process = self._process
        if kind == "sync":
            self._stream_wait(event, args, start_ns, end_ns)
            return
        thread = self._thread(event)
        if kind == "op" and name.startswith(_MARK):
            kind = "annotation"  # written as an operator until torch 1.11
        if kind in ("runtime", "driver"):
            correlation = as_int(args.correlation)
            row = (process, thread, kind, name, start_ns, end_ns, correlation)
            self._tables["host_call"].add(row)
        elif kind == "op":
            self._op(args, (process, thread, name, start_ns, end_ns))
        elif kind == "overhead":
            self._tables["overhead"].add((process, thread, name, start_ns, end_ns))
        else:
            self._tables["range"].add((process, thread, kind, name, start_ns, end_ns))

    def _op(self, args: Args, place: tuple[Any, ...]) -> None:
        op_id = self._store.take_ids("op", 1)
        external = args.external_id if args.external_id is not None else args.external_id_old
        self._tables["op"].add(
            (
                op_id,
                *place,
                as_int(external),
                as_int(args.sequence),
                as_int(args.fwd_thread),
                _json_text(args.input_dims) or _json_text(args.input_dims_old),
                _json_text(args.input_types),
                _json_text(args.concrete_inputs),
            )
        )
        if args.collective is not None:
            self._collective(args, op_id=op_id)

    def _stream_wait(self, event: Event, args: Args, start_ns: int, end_ns: int) -> None:
        device = _first_int(args.device, event.pid)
        if args.wait_on_stream is None or device not in self.devices:
            return
        self._tables["stream_wait"].add(
            (
                self.devices[device],
                self._process,
                _first_int(args.stream, event.tid),
                as_int(args.wait_on_stream),
                as_int(args.wait_record),
                start_ns,
                end_ns,
                as_int(args.correlation),
            )
        )

    def _thread(self, event: Event) -> int:
        key = (str(event.pid), str(event.tid))
        return self._threads.setdefault(key, self._first_thread + len(self._threads))


_NO_ARGS = Args()
_ACTIVITY = (
    *("activity_id", "gpu", "process", "stream", "kind", "name_id", "start_ns", "end_ns"),
    *("correlation", "graph_node", "bytes", "copy_kind", "grid_x", "grid_y", "grid_z"),
    *("block_x", "block_y", "block_z", "external_id"),
)
_HOST_CALL = ("process", "thread", "kind", "name_id", "start_ns", "end_ns", "correlation")
_OP = (
    *("op_id", "process", "thread", "name_id", "start_ns", "end_ns", "external_id", "sequence"),
    *("fwd_thread", "input_dims", "input_types", "concrete_inputs"),
)
_RANGE = ("process", "thread", "kind", "name_id", "start_ns", "end_ns")
_OVERHEAD = ("process", "thread", "name_id", "start_ns", "end_ns")
_STREAM_WAIT = (
    *("gpu", "process", "stream", "wait_on_stream", "record_correlation"),
    *("start_ns", "end_ns", "correlation"),
)
_COLLECTIVE = (
    *("activity_id", "op_id", "op", "in_elems", "out_elems", "dtype"),
    *("group_size", "group_name", "group_desc", "group_ranks", "seq"),
)


def _first_int(*values: Any) -> int | None:
    for value in values:
        number = as_int(value)
        if number is not None:
            return number
        if isinstance(value, str) and (digits := _DIGITS.search(value)):  # "stream 7" of torch 1.8
            return as_int(digits.group())
    return None


def _triple(value: Any) -> tuple[int | None, int | None, int | None]:
    if not isinstance(value, list) or len(value) != 3:
        return (None, None, None)
    first, second, third = (as_small_int(item) for item in value)
    return (first, second, third)


def _copy_kind(name: str, kind: Any) -> str | None:
    for text in (kind if isinstance(kind, str) else "", name):
        for copy_kind, words in _COPY_WORDS:
            if words.search(text):
                return copy_kind
    return None


def _json_text(raw: msgspec.Raw) -> str | None:
    text = bytes(raw)
    if text[:1] != b"[":
        return None
    return msgspec.json.format(text, indent=-1).decode("utf-8", "replace")
