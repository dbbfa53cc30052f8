"""What does each collective do for the job, how much does it move, and at what bandwidth?"""

from collections import defaultdict
from collections.abc import Iterable
from importlib import resources
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa

from tracelens.comm.enclosing import find_enclosing
from tracelens.comm.groups import UNKNOWN, rule_of
from tracelens.comm.messages import Message, bus_factor, collective_op, message_bytes, ranks_in
from tracelens.store import Store
from tracelens.units import NS_PER_S

_BUCKET_BYTES = 64 * 1024
"""Smaller messages are norms, losses and flags, of whatever group."""

_GroupKey = tuple[str | None, str | None, str | None]


def describe_collectives(store: Store) -> None:
    """Write the dimension, operation and size of every communication activity.

    A dimension is taken from the description of the process group; where that says nothing,
    gradient buckets of data parallelism are known by what their group does. All else is
    ``unknown``.
    """
    find_enclosing(store)
    kinds = store.records(_sql("collective_metadata"))
    store.execute(_sql("peer_messages"))
    store.execute("DROP TABLE _enclosing")
    for kind in kinds:
        kind["group_size"] = ranks_in(kind["group_size"], kind["group_ranks"])
        kind["collective"] = collective_op((kind["op"], kind["annotation"]), kind["class"])
    ops_of_group: dict[_GroupKey, set[str]] = defaultdict(set)
    for kind in kinds:
        ops_of_group[_group(kind)].add(kind["collective"])
    groups = _write_groups(store, kinds)
    described = [
        {**_described(kind, ops_of_group[_group(kind)]), "process_group": groups.get(_named(kind))}
        for kind in kinds
    ]
    counts = [len(kind["activity_ids"]) for kind in kinds]
    ids: list[int] = [i for kind in kinds for i in kind["activity_ids"]]
    columns: dict[str, Any] = {"activity_id": np.array(ids, dtype=np.int64)}
    for name in ("dimension", "collective", "bytes", "group_size", "source"):
        columns[name] = _repeated((row[name] for row in described), counts)
    columns["process_group"] = pa.array(
        _repeated((row["process_group"] for row in described), counts), pa.int32()
    )
    columns["seq"] = pa.array([seq for kind in kinds for seq in kind["seqs"]], pa.int64())
    store.append("activity_dimension", columns)
    store.execute(_sql("gradient_buckets"), {"bucket_bytes": _BUCKET_BYTES})


def summarize_collectives(store: Store) -> None:
    """Keep the ``collectives`` section of the answer: one row a dimension, operation and size.

    Bandwidth is message over *duration*, and a duration includes waiting for other ranks: it is a
    lower bound of what the links did.
    """
    instances: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for row in store.records(_sql("collective_summary")):
        instances[row["dimension"], row["collective"], row["bytes"]].append(row)
    sections = [_summary(key, rows) for key, rows in instances.items()]
    sections.sort(key=lambda s: (-s["exposed_ns"], s["dim"], s["op"], s["bytes"] or -1))
    store.put_result("collectives", sections)


def _described(kind: dict[str, Any], ops_of_group: set[str]) -> dict[str, Any]:
    rule = rule_of(kind["group_desc"])
    op = kind["collective"]
    message = Message(
        **{
            name: kind[name]
            for name in ("in_elems", "out_elems", "dtype", "in_bytes", "out_bytes", "group_size")
        }
    )
    return {
        "dimension": rule.dimension_for(op, ops_of_group) if rule else UNKNOWN,
        "collective": op,
        "bytes": message_bytes(op, message),
        "group_size": kind["group_size"],
        "source": "description" if rule else "none",
    }


def _summary(key: tuple[Any, ...], rows: list[dict[str, Any]]) -> dict[str, Any]:
    dimension, op, size = key
    rates = [rate for row in rows if (rate := _bus_bandwidth(row)) is not None]
    return {
        "dim": dimension,
        "op": op,
        "bytes": size,
        "count": len(rows),
        "busbw_p50_bytes_per_s": median(rates) if rates else None,
        "busbw_bound": "lower" if rates else None,
        "exposed_ns": sum(row["exposed_ns"] for row in rows),
        "wait_ns": None,
        "transfer_ns": None,
    }


def _bus_bandwidth(row: dict[str, Any]) -> float | None:
    factor = bus_factor(row["collective"], row["group_size"])
    if factor is None or row["bytes"] is None or row["dur_ns"] <= 0:
        return None
    return float(row["bytes"] / row["dur_ns"] * factor * NS_PER_S)


def _group(kind: dict[str, Any]) -> _GroupKey:
    # The name is unique within one trace only; ranks and description tell groups apart.
    return (
        kind["group_desc"],
        kind["group_ranks"],
        None if kind["group_ranks"] else kind["group_name"],
    )


def _named(kind: dict[str, Any]) -> _GroupKey:
    return (kind["group_desc"], kind["group_ranks"], kind["group_name"])


def _write_groups(store: Store, kinds: list[dict[str, Any]]) -> dict[_GroupKey, int]:
    """Number the process groups that say who or what they are."""
    sizes: dict[_GroupKey, int | None] = {}
    for kind in kinds:
        if kind["group_ranks"] or kind["group_name"]:
            sizes[_named(kind)] = sizes.get(_named(kind)) or kind["group_size"]
    if sizes:
        descriptions, ranks, names = zip(*sizes, strict=True)
        store.append(
            "process_group",
            {
                "process_group": list(range(len(sizes))),
                "group_ranks": pa.array(ranks, pa.string()),
                "group_desc": pa.array(descriptions, pa.string()),
                "group_name": pa.array(names, pa.string()),
                "group_size": pa.array(sizes.values(), pa.int32()),
            },
        )
    return {key: number for number, key in enumerate(sizes)}


def _repeated(values: Iterable[Any], counts: list[int]) -> list[Any]:
    return [value for value, count in zip(values, counts, strict=True) for _ in range(count)]


def _sql(name: str) -> str:
    return resources.files("tracelens.comm").joinpath(f"{name}.sql").read_text(encoding="utf-8")
