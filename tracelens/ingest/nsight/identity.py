"""Which process, thread and GPU of the store does a row belong to?"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tracelens.ingest.nsight import schema
from tracelens.ingest.nsight.hardware import Device, Hardware, pid_of, process_part
from tracelens.ingest.nsight.session import launched_rank, mpi_ranks
from tracelens.ingest.nsight.tables import Batch, Ints, Tables, distinct, distinct_rows
from tracelens.store import Store

NOWHERE = -1
_TID_MASK = 0xFFFFFF


@dataclass
class _Gpu:
    number: int
    process: int
    device: Device
    users: set[tuple[int, int]] = field(default_factory=set)


class Identity:
    """Numbers processes, threads and GPUs in the order in which they are met.

    Correlation ids restart in every process, and device numbers are those that a process sees, so
    both are meaningful only together with the process.

    Args:
        tables: the export.
        store: where rows go.
        number: the input's row.
    """

    def __init__(self, tables: Tables, store: Store, number: int) -> None:
        self._tables = tables
        self._store = store
        self._input = number
        self._hardware = Hardware(tables)
        self._processes: dict[int, int] = {}
        self._threads: dict[int, int] = {}
        self._thread_names: dict[int, int] | None = None
        self._gpus: dict[Any, _Gpu] = {}
        self._gpu_of: dict[tuple[int, ...], int] = {}
        self._first_gpu = store.next_row("gpu", "gpu")
        self._context_gpu: dict[tuple[int, int], int] = {}

    # --- rows to numbers -----------------------------------------------------------------------

    def processes(self, global_ids: Ints) -> Ints:
        """Return the process of each globalPid or globalTid."""
        found, codes = distinct(process_part(global_ids))
        new = sorted(pid for pid in found if pid not in self._processes)
        first = self._store.next_row("process", "process")
        self._processes.update({pid: first + at for at, pid in enumerate(new)})
        self._store.append(
            "process",
            {
                "process": [self._processes[pid] for pid in new],
                "input": [self._input] * len(new),
                "pid": [pid_of(pid) for pid in new],
            },
        )
        return np.array([self._processes[pid] for pid in found], np.int64)[codes]

    def threads(self, global_tids: Ints) -> Ints:
        """Return the thread of each globalTid."""
        self.processes(global_tids)
        found, codes = distinct(global_tids)
        new = sorted(tid for tid in found if tid not in self._threads)
        first = self._store.next_row("thread", "thread")
        self._threads.update({tid: first + at for at, tid in enumerate(new)})
        names = self._names_of_threads(new)
        self._store.append(
            "thread",
            {
                "thread": [self._threads[tid] for tid in new],
                "process": [self._processes[tid & ~_TID_MASK] for tid in new],
                "tid": [str(tid & _TID_MASK) for tid in new],
                "name": [names.get(tid) for tid in new],
            },
        )
        return np.array([self._threads[tid] for tid in found], np.int64)[codes]

    def gpus(self, batch: Batch) -> Ints:
        """Return the GPU of each row of a table of GPU work."""
        self.processes(batch.ints("globalPid"))
        keys, codes = distinct_rows(
            process_part(batch.ints("globalPid")),
            batch.ints("deviceId"),
            batch.ints("contextId"),
        )
        new = set(keys) - self._gpu_of.keys()
        for pid, ordinal, context in sorted(new, key=lambda key: (key[1], key)):
            self._add(pid, ordinal, context)
        return np.array([self._gpu_of[key] for key in keys], np.int64)[codes]

    def gpus_of_contexts(self, global_pids: Ints, contexts: Ints) -> Ints:
        """Return the GPU of each CUDA context as far as GPU work told it, else ``NOWHERE``.

        Rows of synchronisation carry a context that is right and a device number that is not.
        """
        pairs, codes = distinct_rows(process_part(global_pids), contexts)
        gpus = [self._context_gpu.get((pid, context), NOWHERE) for pid, context in pairs]
        return np.array(gpus, np.int64)[codes]

    @property
    def gpu_pids(self) -> frozenset[int]:
        """The globalPid of every process that used a GPU."""
        return frozenset(pid for pid, _, _ in self._gpu_of)

    @property
    def known_pids(self) -> frozenset[int]:
        """The globalPid of every process met so far."""
        return frozenset(self._processes)

    # --- what is known at the end --------------------------------------------------------------

    def write(self) -> list[str]:
        """Append the GPUs and the ranks of processes; return what a user should know of them."""
        gpus = sorted(self._gpus.values(), key=lambda gpu: gpu.number)
        self._store.append(
            "gpu",
            {
                "gpu": [gpu.number for gpu in gpus],
                "input": [self._input] * len(gpus),
                "process": [gpu.process for gpu in gpus],
                "device": [gpu.device.index for gpu in gpus],
                "device_name": [gpu.device.model.name for gpu in gpus],
                "num_sms": [gpu.device.model.num_sms for gpu in gpus],
            },
        )
        self._write_ranks()
        return self._remarks(gpus)

    def _add(self, pid: int, ordinal: int, context: int) -> None:
        seen = {c for p, o, c in self._gpu_of if (p, o) == (pid, ordinal)}
        device = self._hardware.device(pid, ordinal, frozenset(seen | {context}))
        gpu = self._gpus.get(device.key)
        if gpu is None:
            number = self._first_gpu + len(self._gpus)
            gpu = self._gpus[device.key] = _Gpu(number, self._processes[pid], device)
        gpu.users.add((pid, ordinal))
        self._gpu_of[pid, ordinal, context] = gpu.number
        self._context_gpu[pid, context] = gpu.number

    def _write_ranks(self) -> None:
        ranks: dict[int, tuple[int, str, int | None]] = {
            pid: (rank, "MPI_RANKS of the export", None)
            for pid, rank in mpi_ranks(self._tables).items()
        }
        if len(self.gpu_pids) == 1:
            launched = launched_rank(self._tables)
            (pid,) = self.gpu_pids
            if launched.rank is not None:
                ranks[pid] = (launched.rank, launched.rank_source or "", launched.world_size)
        for pid, (rank, source, size) in ranks.items():
            if pid in self._processes:
                self._store.execute(
                    "UPDATE raw.process SET claimed_rank = ?, rank_source = ?, world_size = ?"
                    " WHERE process = ?",
                    [rank, source, size, self._processes[pid]],
                )

    def _remarks(self, gpus: list[_Gpu]) -> list[str]:
        remarks: list[str] = []
        unmapped = [user for gpu in gpus if not gpu.device.mapped for user in gpu.users]
        shared = {ordinal for _, ordinal in unmapped}
        if len(shared) < len(unmapped):
            remarks.append(
                f"{len(unmapped)} processes use the same device numbers and the export does not say"
                " which GPUs these are (CUDA_VISIBLE_DEVICES hides that): each process is taken to"
                " have its own GPU; a capture with a newer nsys settles it"
            )
        unnamed = any(not gpu.device.mapped and gpu.device.model.name is None for gpu in gpus)
        if unnamed and self._hardware.mixed:
            remarks.append(
                "the node has GPUs of several models and the export does not say which one was"
                " used: name it with --gpu"
            )
        return remarks

    def _names_of_threads(self, tids: list[int]) -> dict[int, str]:
        if self._thread_names is None:
            self._thread_names = {}
            for batch in self._tables.batches(schema.THREAD_NAMES, ("globalTid", "nameId")):
                pairs = zip(batch.ints("globalTid"), batch.ints("nameId"), strict=True)
                self._thread_names.update((int(tid), int(name)) for tid, name in pairs)
        known = {tid: self._thread_names[tid] for tid in tids if tid in self._thread_names}
        texts = self._tables.strings(set(known.values())) if known else {}
        return {tid: texts[name] for tid, name in known.items() if name in texts}
