"""Which physical GPU does a process mean by a CUDA device number, and what is it?"""

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from tracelens.ingest.nsight import schema
from tracelens.ingest.nsight.tables import Ints, Tables, small

_NO_UUID = "00000000-0000-0000-0000-000000000000"


@dataclass(frozen=True)
class Model:
    """What a GPU is; ``None`` where the export does not say."""

    name: str | None
    num_sms: int | None


_UNKNOWN = Model(None, None)


@dataclass(frozen=True)
class Device:
    """A GPU as a process sees it.

    Attributes:
        key: equal for the same physical GPU (or MIG instance).
        index: its number in the node where the export maps it, else the number in the process.
        mapped: whether the export says which physical GPU it is.
        model: what it is.
    """

    key: Hashable
    index: int
    mapped: bool
    model: Model


@dataclass(frozen=True)
class _Mapping:
    gpu: int | None
    uuid: str | None
    num_sms: int | None


class Hardware:
    """The GPUs that an export describes.

    Args:
        tables: the export.
    """

    def __init__(self, tables: Tables) -> None:
        self._gpus = _gpus(tables)
        self._by_ordinal = _old_cuda_gpus(tables)
        self._mappings = _mappings(tables)
        self._context_sms = _context_sms(tables)

    def device(self, global_pid: int, ordinal: int, contexts: frozenset[int]) -> Device:
        """Return the GPU that a process calls by a device number.

        Args:
            global_pid: the process.
            ordinal: CUDA's device number inside that process.
            contexts: CUDA contexts of the process on that device.
        """
        pid = pid_of(global_pid)
        mapping = self._mappings.get((pid, ordinal))
        sms = max((self._context_sms.get((pid, context), 0) for context in contexts), default=0)
        if mapping is None or (mapping.gpu is None and mapping.uuid is None):
            model = self._by_ordinal.get(ordinal) or self._common_model()
            key: Hashable = ("process", global_pid, ordinal)
            return Device(key, ordinal, mapped=False, model=Model(model.name, sms or model.num_sms))
        # The number of multiprocessors of a MIG instance is a part of what the whole GPU has.
        model = _UNKNOWN if mapping.gpu is None else self._gpus.get(mapping.gpu, _UNKNOWN)
        key = ("uuid", mapping.uuid) if mapping.uuid else ("gpu", mapping.gpu)
        index = ordinal if mapping.gpu is None else mapping.gpu
        num_sms = mapping.num_sms or sms or model.num_sms
        return Device(key, index, mapped=True, model=Model(model.name, num_sms))

    @property
    def mixed(self) -> bool:
        """Whether the node has GPUs of several models."""
        return len(set(self._gpus.values())) > 1

    def _common_model(self) -> Model:
        # Without a map the model is known only when all GPUs of the node are alike.
        models = set(self._gpus.values())
        return models.pop() if len(models) == 1 else _UNKNOWN


def pid_of(global_pid: int) -> int:
    """Return the operating system's process id within a globalPid or globalTid."""
    return (global_pid >> 24) & 0xFFFFFF


def process_part(global_ids: Ints) -> Ints:
    """Return the globalPid within each globalPid or globalTid."""
    return global_ids & ~np.int64(0xFFFFFF)


def _gpus(tables: Tables) -> dict[int, Model]:
    columns = tables.columns(schema.GPU_INFO)
    key = "id" if "id" in columns else "deviceId"
    gpus: dict[int, Model] = {}
    for batch in tables.batches(schema.GPU_INFO, (key, "name", "smCount", "isDiscrete")):
        names = batch.columns["name"].to_pylist()
        sms = batch.columns["smCount"].to_pylist()
        for gpu, name, num_sms in zip(batch.ints(key), names, sms, strict=True):
            # Display adapters of other makers are listed too, without multiprocessors.
            if num_sms != 0:
                gpus[int(gpu)] = Model(name, small(num_sms))
    return gpus


def _old_cuda_gpus(tables: Tables) -> dict[int, Model]:
    """Read the table that exports up to 2021 have: models by CUDA device number."""
    gpus: dict[int, Model] = {}
    names = ("deviceId", "name", "numMultiprocessors")
    if "deviceId" not in tables.columns(schema.CUDA_GPU_INFO):
        return gpus
    for batch in tables.batches(schema.CUDA_GPU_INFO, names):
        columns = [batch.columns[name].to_pylist() for name in names]
        for ordinal, name, num_sms in zip(*columns, strict=True):
            if num_sms != 0:
                gpus[ordinal] = Model(name, small(num_sms))
    return gpus


def _mappings(tables: Tables) -> dict[tuple[int, int], _Mapping]:
    names = ("pid", "cudaId", "gpuId", "uuid", "numMultiprocessors")
    found: dict[tuple[int, int], _Mapping] = {}
    for batch in tables.batches(schema.CUDA_DEVICE, names):
        columns = [batch.columns[name].to_pylist() for name in names]
        for pid, ordinal, gpu, uuid, num_sms in zip(*columns, strict=True):
            if pid is not None and ordinal is not None:
                known_uuid = uuid if uuid and uuid != _NO_UUID else None
                found[pid & 0xFFFFFF, ordinal] = _Mapping(small(gpu), known_uuid, small(num_sms))
    return found


def _context_sms(tables: Tables) -> dict[tuple[int, int], int]:
    names = ("processId", "contextId", "isGreenContext", "numMultiprocessors")
    found: dict[tuple[int, int], int] = {}
    if "numMultiprocessors" not in tables.columns(schema.CONTEXT_INFO):
        return found
    for batch in tables.batches(schema.CONTEXT_INFO, names):
        columns = [batch.columns[name].to_pylist() for name in names]
        for pid, context, green, num_sms in zip(*columns, strict=True):
            # A green context is a share of the device by choice of the program, not a smaller GPU.
            if pid is not None and context is not None and not green:
                found[pid & 0xFFFFFF, context] = small(num_sms) or 0
    return found
