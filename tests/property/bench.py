"""Run soups through the real stages: one store, emptied between runs, a GPU of its own a soup."""

from collections import Counter
from dataclasses import dataclass
from functools import cache

import numpy as np
import pyarrow as pa
from soups import BYSTANDER, Call

from tracelens.attribution import attribute
from tracelens.classify import classify
from tracelens.ingest import link_activities
from tracelens.store import Store

_KEPT = {"name", "meta"}
_RUNS_A_STORE = 200
_RECORDS = 1_000
"""Correlation ids of event records begin here, above those of launches."""


@dataclass(frozen=True)
class Account:
    """What the stages say of one soup.

    Attributes:
        window: (start, end) of the analysed window, all steps together.
        steps: (step, start, end) of those that are analysed.
        segments: (start, end, leaf, enabled by sync, position of the activity) in time order.
        hidden: time by (leaf that ran, leaf that owned the GPU).
    """

    window: tuple[int, int]
    segments: tuple[tuple[int, int, str, bool, int | None], ...]
    hidden: dict[tuple[str, str], int]
    steps: tuple[tuple[int | None, int, int], ...] = ()

    @property
    def leaves(self) -> Counter[str]:
        total: Counter[str] = Counter()
        for start, end, leaf, _, _ in self.segments:
            total[leaf] += end - start
        return total

    @property
    def kinds(self) -> Counter[str]:
        """Time by the first part of the leaf, everything idle together."""
        total: Counter[str] = Counter()
        for leaf, dur in self.leaves.items():
            root = leaf.partition(".")[0]
            total["idle" if root in {"idle", "host", "gap"} else root] += dur
        return total

    @property
    def causes(self) -> Counter[tuple[str, bool]]:
        total: Counter[tuple[str, bool]] = Counter()
        for start, end, leaf, by_sync, _ in self.segments:
            total[leaf, by_sync] += end - start
        return total

    def closes(self) -> bool:
        """Tell whether the segments tile the window, each nanosecond once."""
        edges = [self.window[0]]
        for start, end, *_ in self.segments:
            if start != edges[-1] or end <= start:
                return False
            edges.append(end)
        return edges[-1] == self.window[1]


def accounts(soups, window="all", ranks=None):
    """Return the account of each soup; ``ranks`` are positions, as long as they do not matter."""
    store = _fresh()
    numbers = list(range(len(soups)))
    ranks = numbers if ranks is None else ranks
    store.append("input", {"input": numbers})
    store.append("process", {"process": numbers, "input": numbers})
    store.append("gpu", {"gpu": numbers, "input": numbers, "process": numbers, "rank": ranks})
    first = _write_activities(store, soups)
    _write_host(store, soups)
    store.flush_names()
    link_activities(store)
    classify(store)
    attribute(store, window)
    return _read(store, soups, first)


@cache
def _store(_generation):
    store = Store()
    store.execute(
        "SET threads = 1"
    )  # rows are few: handing them to threads costs more than it saves
    return store


_runs = [0]


def _fresh():
    if _runs[0] % _RUNS_A_STORE == 0:
        _store.cache_clear()
    _runs[0] += 1
    store = _store(0)
    for (table,) in store.rows("SELECT table_name FROM duckdb_tables() WHERE schema_name = 'raw'"):
        if table not in _KEPT:
            store.execute(f"DELETE FROM raw.{table}")
    return store


def _write_activities(store, soups):
    rows = [(number, soup, a) for number, soup in enumerate(soups) for a in soup.activities]
    whats = [a.what for _, _, a in rows]
    first = store.append(
        "activity",
        {
            "gpu": [number for number, _, _ in rows],
            "process": [number for number, _, _ in rows],
            "stream": [a.stream for _, _, a in rows],
            "kind": [what.kind for what in whats],
            "name_id": store.name_ids([what.name for what in whats]),
            "start_ns": [a.start for _, _, a in rows],
            "end_ns": [a.end for _, _, a in rows],
            "correlation": [0 if a.launch is None else a.launch + 1 for _, _, a in rows],
            "copy_kind": pa.array([what.copy_kind for what in whats], pa.string()),
        },
    )
    named = [place for place, what in enumerate(whats) if what.dimension]
    if named:
        store.append(
            "activity_dimension",
            {
                "activity_id": [first + place for place in named],
                "dimension": [whats[place].dimension for place in named],
            },
        )
    starts = np.cumsum([0, *(len(soup.activities) for soup in soups)])
    return [first + int(start) for start in starts]


def _host_rows(soups):
    """Return (soup, call, correlation) by table."""
    tables = {"host_call": [], "op": [], "range": [], "overhead": []}
    for number, soup in enumerate(soups):
        for place, call in enumerate(soup.launches):
            tables["host_call"].append((number, call, place + 1))
        for call in soup.host:
            tables[call.table].append((number, call, 0))
        for step, (start, end) in enumerate(soup.marks):
            mark = Call(f"ProfilerStep#{step}", start, end, 1, "range", "annotation")
            tables["range"].append((number, mark, 0))
    return tables


def _write_host(store, soups):
    waits = _waits(soups)
    tables = _host_rows(soups)
    tables["host_call"] += _records(waits)
    for table, rows in tables.items():
        if not rows:
            continue
        columns = {
            "process": [number for number, _, _ in rows],
            # Threads are numbered through a run, as importers do it.
            "thread": [10 * number + call.thread for number, call, _ in rows],
            "name_id": store.name_ids([call.name for _, call, _ in rows]),
            "start_ns": [call.start for _, call, _ in rows],
            "end_ns": [call.end for _, call, _ in rows],
        }
        if table == "host_call":
            columns["correlation"] = [correlation for _, _, correlation in rows]
        if table in {"host_call", "range"}:
            columns["kind"] = [call.kind for _, call, _ in rows]
        store.append(table, columns)
    if waits:
        _write_waits(store, waits)


def _waits(soups):
    return [(number, wait) for number, soup in enumerate(soups) for wait in soup.waits]


def _records(waits):
    """Return the records that waits are for, as calls of a thread that launches nothing."""
    return [
        (number, Call("cudaEventRecord", wait.record, wait.record, BYSTANDER), _RECORDS + place)
        for place, (number, wait) in enumerate(waits)
        if wait.record is not None
    ]


def _write_waits(store, waits):
    store.append(
        "stream_wait",
        {
            "gpu": [number for number, _ in waits],
            "process": [number for number, _ in waits],
            "stream": [wait.stream for _, wait in waits],
            "wait_on_stream": pa.array([wait.on for _, wait in waits], pa.int64()),
            "record_correlation": pa.array(
                [
                    None if wait.record is None else _RECORDS + place
                    for place, (_, wait) in enumerate(waits)
                ],
                pa.int64(),
            ),
            "start_ns": [wait.at for _, wait in waits],
            "end_ns": [wait.at for _, wait in waits],
        },
    )


def _read(store, soups, first):
    """Return one account a soup."""
    windows = dict.fromkeys(range(len(soups)), (0, 0))
    for gpu, start, end in store.rows(
        "SELECT gpu, min(start_ns), max(end_ns) FROM raw.step WHERE included GROUP BY gpu"
    ):
        windows[gpu] = (start, end)
    segments = {number: [] for number in windows}
    for gpu, start, end, leaf, detail, activity in store.rows(
        "SELECT gpu, start_ns, end_ns, leaf, detail, activity_id FROM raw.segment "
        "ORDER BY gpu, start_ns"
    ):
        place = None if activity is None else activity - first[gpu]
        segments[gpu].append(
            (start, end, leaf, (detail or "").startswith("enabled_by=sync"), place)
        )
    hidden = {number: {} for number in windows}
    for gpu, loser, winner, dur in store.rows(
        "SELECT gpu, class_leaf, by_leaf, sum(dur_ns)::BIGINT FROM raw.hidden GROUP BY ALL"
    ):
        hidden[gpu][loser, winner] = dur
    steps = {number: [] for number in windows}
    for gpu, *step in store.rows(
        "SELECT gpu, step, start_ns, end_ns FROM raw.step WHERE included ORDER BY gpu, start_ns"
    ):
        steps[gpu].append(tuple(step))
    return [Account(windows[n], tuple(segments[n]), hidden[n], tuple(steps[n])) for n in windows]
