"""What is known of every FLOP-bearing kernel in the window: launch, shapes, time beside others?"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np
import numpy.typing as npt

from tracelens.flops.ladder.geometry import PLAIN_PRODUCTS, Geometry, geometry
from tracelens.flops.ladder.overlap import covered_ns
from tracelens.flops.recorded import parse_list
from tracelens.store import Store

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Columns = dict[str, npt.NDArray[Any]]

_RECORDS = """
CREATE TABLE raw.flops_record AS
SELECT o.op_id, dense_rank() OVER (
    ORDER BY o.name_id, o.input_dims, o.input_types,
        CASE WHEN n.name NOT IN (SELECT unnest(?::TEXT[])) THEN o.concrete_inputs END) - 1 AS record
FROM raw.op AS o JOIN raw.name AS n USING (name_id)
WHERE o.op_id IN (SELECT op_id FROM raw.activity_flop WHERE executed_flop > 0)
"""
_TEXTS = """
SELECT r.record, any_value(n.name), any_value(o.input_dims), any_value(o.input_types),
    any_value(o.concrete_inputs)
FROM raw.flops_record AS r JOIN raw.op AS o USING (op_id) JOIN raw.name AS n USING (name_id)
GROUP BY r.record ORDER BY r.record
"""
_OTHERS = """
SELECT a.gpu, a.start_ns, a.end_ns
FROM raw.activity AS a JOIN raw.activity_class AS c USING (activity_id)
WHERE starts_with(c.class, 'collective:') OR starts_with(c.class, 'memcpy:')
    OR c.class = 'p2p:sendrecv'
"""
_SPANS = "SELECT gpu, start_ns, end_ns FROM raw.step WHERE included"


@dataclass(frozen=True)
class Known:
    """One FLOP-bearing kernel a position.

    Attributes:
        columns: those of ``instances.sql``.
        shapes: geometry of each record.
        m: rows of the result; 0 where the kernel is no plain product that is fully its own.
        n: columns of the result.
        k: inner dimension.
        batch: products.
        bytes: least traffic; ``nan`` where not known.
        window_ns: time from start to end that lies in the window.
        beside_ns: time in which communication or a copy ran on the same GPU.
    """

    columns: Columns
    shapes: list[Geometry | None]
    m: Ints
    n: Ints
    k: Ints
    batch: Ints
    bytes: Floats
    window_ns: Ints
    beside_ns: Ints

    def __len__(self) -> int:
        return len(self.columns["activity_id"])

    @property
    def dur_ns(self) -> Ints:
        """Time from start to end."""
        found: Ints = self.columns["end_ns"] - self.columns["start_ns"]
        return found


def read_instances(store: Store, *, relabelled: bool) -> Known:
    """Read the kernels that own time in the window, or whose FLOPs are counted in it.

    Args:
        store: attributed.
        relabelled: whether recomputed kernels have leaves of their own.
    """
    with _records(store):
        shapes = _geometries(store)
        sql = resources.files("tracelens.flops.ladder").joinpath("instances.sql").read_text("utf-8")
        columns = store.arrays(sql, {"relabelled": relabelled})
    sizes = _sizes(shapes, columns)
    window = _covered(columns, store.arrays(_SPANS))
    beside = _covered(columns, store.arrays(_OTHERS))
    return Known(columns, shapes, *sizes, window, beside)


@contextmanager
def _records(store: Store) -> Iterator[None]:
    store.execute(_RECORDS, [list(PLAIN_PRODUCTS)])
    try:
        yield
    finally:
        store.execute("DROP TABLE raw.flops_record")


def _geometries(store: Store) -> list[Geometry | None]:
    return [
        geometry(name, parse_list(dims), parse_list(types), parse_list(concrete))
        for _, name, dims, types, concrete in store.rows(_TEXTS)
    ]


def _sizes(
    shapes: list[Geometry | None], columns: Columns
) -> tuple[Ints, Ints, Ints, Ints, Floats]:
    """Sizes by kernel; only where the product of the operator is all that the kernel does."""
    table = np.zeros((len(shapes) + 1, 4), np.int64)
    moved = np.full(len(shapes) + 1, np.nan)
    for index, shape in enumerate(shapes):
        if shape is not None:
            table[index] = (shape.m or 0, shape.n or 0, shape.k or 0, shape.batch)
            moved[index] = np.nan if shape.bytes is None else shape.bytes
    record = columns["record"]
    sizes = table[record]
    flop = 2.0 * sizes.astype(np.float64).prod(axis=1)
    whole = columns["is_alone_in_op"] & (columns["flop"] > 0)
    is_product = sizes[:, 0] > 0
    fits = whole & (~is_product | np.isin(columns["flop"] / np.where(flop > 0, flop, 1.0), (1, 2)))
    sizes = np.where((fits & is_product)[:, None], sizes, 0)
    m, n, k, batch = sizes.T
    return m, n, k, batch, np.where(fits, moved[record], np.nan)


def _covered(columns: Columns, others: Columns) -> Ints:
    found = np.zeros(len(columns["gpu"]), np.int64)
    for gpu in np.unique(columns["gpu"]):
        here, there = columns["gpu"] == gpu, others["gpu"] == gpu
        found[here] = covered_ns(
            columns["start_ns"][here],
            columns["end_ns"][here],
            others["start_ns"][there],
            others["end_ns"][there],
        )
    return found
