"""What is every GPU activity, and what was the host doing: the stage that names things."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import resources
from typing import Any

from tracelens.classify import host
from tracelens.classify.names import normalize
from tracelens.classify.rules import classify_names
from tracelens.classify.tilings import is_backward, tilings_of
from tracelens.store import Store

_SCRATCH = {
    "classify_name": "name_id INTEGER, class TEXT, dtype TEXT",
    "classify_op": "target TEXT, name_id INTEGER, class TEXT, announced TEXT",
    "classify_text": "kind TEXT, text TEXT, class TEXT",
}
_TILED = "('gemm', 'gemm_mem', 'conv', 'attention')"
_TILING = ("tile_m", "tile_n", "tile_k", "schedule", "grid_unit")
_SOURCE_OF_TARGET = {
    "call": "raw.host_call",
    "op": "raw.op",
    "range": "raw.range",
    "rerun": "raw.range",
    "phase": "raw.range",
    "module": "(SELECT name_id FROM raw.range UNION ALL SELECT name_id FROM raw.op)",
    "overhead": "raw.overhead",
    "copy": "raw.activity WHERE kind = 'memcpy'",
}


def classify(store: Store) -> None:
    """Fill ``raw.activity_class``, ``raw.kernel_tiling`` and ``raw.host_label``.

    Distinct names are matched once; everything else is a join. Running it again replaces the rows.
    """
    with store.transaction():
        store.execute("DELETE FROM raw.activity_class")
        store.execute("DELETE FROM raw.host_label")
        store.execute("DELETE FROM raw.kernel_tiling")
        with _scratch(store):
            _match_kernel_names(store)
            _match_op_names(store)
            _match_range_names(store)
            _match_texts(store, "collective", "op", host.collective_class)
            _match_texts(store, "dtype", "dtype", host.framework_dtype)
            sql = resources.files("tracelens.classify").joinpath("classes.sql")
            store.execute(sql.read_text(encoding="utf-8"))
        _match_tilings(store)
        for target in host.TARGETS:
            _label(store, target)


@contextmanager
def _scratch(store: Store) -> Iterator[None]:
    for table, columns in _SCRATCH.items():
        store.execute(f"CREATE TABLE raw.{table} ({columns})")
    yield
    for table in _SCRATCH:
        store.execute(f"DROP TABLE raw.{table}")


def _match_kernel_names(store: Store) -> None:
    rows = _names_of(store, "raw.activity")
    facts = classify_names([name for _, name in rows])
    store.append(
        "classify_name",
        {
            "name_id": _ids(rows),
            "class": [fact.kernel_class for fact in facts],
            "dtype": [fact.dtype for fact in facts],
        },
    )


def _match_tilings(store: Store) -> None:
    """Spell every FLOP-bearing kernel in one way, with the tiles that its name tells."""
    rows = _names_of(
        store, f"raw.activity JOIN raw.activity_class USING (activity_id) WHERE class IN {_TILED}"
    )
    tilings = tilings_of(name for _, name in rows)
    columns: dict[str, list[Any]] = {
        name: [tiling and getattr(tiling, name) for tiling in tilings] for name in _TILING
    }
    keys = [normalize(name) for _, name in rows]
    columns["is_backward"] = [is_backward(name) for _, name in rows]
    store.append("kernel_tiling", {"name_id": _ids(rows), "kernel_key": keys, **columns})


def _match_op_names(store: Store) -> None:
    rows = _names_of(store, "raw.link JOIN raw.op USING (op_id)")
    store.append(
        "classify_op",
        {
            "target": ["op"] * len(rows),
            "name_id": _ids(rows),
            "class": [host.op_class(name) for _, name in rows],
            "announced": [host.annotated_class(name, "op") for _, name in rows],
        },
    )


def _match_range_names(store: Store) -> None:
    # Only announcements of the framework: NCCL's own ranges end before a grouped launch.
    matched = [
        (name_id, announced)
        for name_id, name in _names_of(store, "raw.range")
        if (announced := host.annotated_class(name, "range")) and ":" in name
    ]
    store.append(
        "classify_op",
        {
            "target": ["range"] * len(matched),
            "name_id": _ids(matched),
            "announced": [announced for _, announced in matched],
        },
    )


def _match_texts(
    store: Store, kind: str, column: str, meaning_of: Callable[[str], str | None]
) -> None:
    rows = store.rows(
        f'SELECT DISTINCT "{column}" FROM raw.collective WHERE "{column}" IS NOT NULL'
    )
    texts = [text for (text,) in rows]
    store.append(
        "classify_text",
        {"kind": [kind] * len(texts), "text": texts, "class": [meaning_of(text) for text in texts]},
    )


def _label(store: Store, target: str) -> None:
    labelled = [
        (name_id, label)
        for name_id, name in _names_of(store, _SOURCE_OF_TARGET[target])
        if (label := host.host_label(name, target))
    ]
    store.append(
        "host_label",
        {
            "name_id": _ids(labelled),
            "target": [target] * len(labelled),
            "label": [label for _, label in labelled],
        },
    )


def _names_of(store: Store, source: str) -> list[tuple[int, str]]:
    rows = store.rows(
        f"SELECT name_id, name FROM raw.name WHERE name_id IN (SELECT name_id FROM {source})"
        " ORDER BY name_id"
    )
    return [(int(name_id), str(name)) for name_id, name in rows]


def _ids(rows: list[tuple[int, str]]) -> list[int]:
    return [name_id for name_id, _ in rows]
