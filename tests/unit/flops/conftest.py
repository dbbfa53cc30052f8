"""A run written by hand: just the rows that the FLOPs account reads."""

import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from tracelens.classify.host import host_label
from tracelens.store import Store

US = 1_000


@dataclass
class HandMadeRun:
    """One process on one or more GPUs; every method adds rows and returns their id."""

    store: Store = field(default_factory=Store)

    def gpu(self, gpu: int = 0, name: str | None = "NVIDIA H100 80GB HBM3", **more: Any) -> int:
        row = {"gpu": gpu, "input": 0, "process": 0, "device": gpu, "rank": gpu, **more}
        self._append("gpu", {"device_name": name, "num_sms": 132} | row)
        return gpu

    def process(self, world_size: int | None = None, **more: Any) -> None:
        self._append("process", {"process": 0, "input": 0, "world_size": world_size, **more})

    def op(self, name: str, start_us: int, end_us: int, **record: Any) -> int:
        row: dict[str, Any] = {"process": 0, "thread": 0, "name_id": self._name(name)}
        row |= {"start_ns": start_us * US, "end_ns": end_us * US}
        for key in ("input_dims", "input_types", "concrete_inputs"):
            value = record.pop(key, None)
            row[key] = value if value is None or isinstance(value, str) else json.dumps(value)
        if "Backward" in name:
            label = {"name_id": row["name_id"], "target": "op", "label": "backward"}
            self._append("host_label", label)
        return self._append("op", row | record)

    def range(self, name: str, start_us: int, end_us: int) -> None:
        row = {"process": 0, "thread": 0, "kind": "annotation", "name_id": self._name(name)}
        if name.startswith("Optimizer.step"):
            label = {"name_id": row["name_id"], "target": "range", "label": "optimizer"}
            self._append("host_label", label)
        self._append("range", row | {"start_ns": start_us * US, "end_ns": end_us * US})

    def kernel(self, class_: str, start_us: int, end_us: int, **more: Any) -> int:
        op = more.pop("op", None)
        name = more.pop("name", class_)
        dtype = more.pop("dtype", None)
        step = more.pop("step", None)
        row = {"gpu": 0, "process": 0, "stream": 7, "kind": "kernel", "name_id": self._name(name)}
        row |= {"start_ns": start_us * US, "end_ns": end_us * US, **more}
        activity = self._append("activity", row)
        self._append("activity_class", {"activity_id": activity, "class": class_, "dtype": dtype})
        if op is not None:
            self._append("link", {"activity_id": activity, "op_id": op})
        if step is not None:
            self._append("activity_step", {"activity_id": activity, "step": step})
        return activity

    def launch(self, activity: int, at_us: int, thread: int = 0) -> None:
        """Record the host call that launched an activity; its operator is not known."""
        row = {"process": 0, "thread": thread, "kind": "runtime", "start_ns": at_us * US}
        call = self._append("host_call", row | {"end_ns": at_us * US + 1})
        self._append("link", {"activity_id": activity, "call_id": call})

    def labelled(self, name: str, start_us: int, end_us: int, **more: Any) -> None:
        """A range with the labels that classification gives it."""
        row = {"process": 0, "thread": 0, "kind": "nvtx", "name_id": self._name(name), **more}
        for target in ("phase", "module", "range"):
            label = host_label(name, target)
            if label is not None:
                found = {"name_id": row["name_id"], "target": target, "label": label}
                self._append("host_label", found)
        self._append("range", row | {"start_ns": start_us * US, "end_ns": end_us * US})

    def step(self, step: int | None, start_us: int, end_us: int, gpu: int = 0) -> None:
        row = {"gpu": gpu, "step": step, "start_ns": start_us * US, "end_ns": end_us * US}
        self._append("step", row | {"included": True})

    def segment(self, leaf: str, start_us: int, end_us: int, **more: Any) -> None:
        row = {"gpu": 0, "start_ns": start_us * US, "end_ns": end_us * US, "leaf": leaf}
        self._append("segment", row | more)

    def done(self) -> Store:
        self.store.flush_names()
        return self.store

    def _name(self, name: str) -> int:
        return self.store.name_ids([name])[0]

    def _append(self, table: str, row: dict[str, Any]) -> int:
        columns = {key: [value] for key, value in row.items() if value is not None}
        return self.store.append(table, columns)


@pytest.fixture
def run() -> HandMadeRun:
    return HandMadeRun()
