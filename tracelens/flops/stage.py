"""Which FLOPs does each kernel do, by the shapes of the operator that launched it?

A kernel belongs to the innermost operator around its launch whose shapes give FLOPs. An operator
may launch several kernels: its longest one gets the FLOPs, or shares them with equal launches, the
others (split-K, second pass) get none; those of a convolution share them by time. Matmuls of the
optimizer (Muon, Shampoo) are executed, but the model does not need them. An operator around another
one counts only what the inner one does not, so that ``aten::linear`` and its ``aten::addmm`` are
never both counted. Where an operator gives bounds only, its kernels have bounds and no figure.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tracelens.flops.dtypes import FP32_OR_TF32, dtype_of
from tracelens.flops.nesting import Ints, ancestors
from tracelens.flops.optree import OpTree
from tracelens.flops.recorded import parse_list
from tracelens.flops.shapes import OpFlop, op_flop
from tracelens.store import Store
from tracelens.taxonomy import CLASS_LEAF

OPTIMIZER_RULE = "optimizer: "
"""Prefix of the rule of matmuls that an optimizer step launched."""

_KIND_OF_LEAF = {"flop.gemm": "gemm", "flop.attn": "attn", "flop.conv": "conv"}
_ALLOWED = {
    "gemm": {"gemm", "attn", "conv"},  # a convolution or attention may be built from matmuls
    "attn": {"attn"},
    "conv": {"conv"},
}
"""Kinds of operator that a kernel of a kind may take its FLOPs from."""

_COLUMNS = ("executed", "model", "executed_low", "executed_high", "model_low", "model_high")

_KERNELS = """
SELECT a.activity_id, a.end_ns - a.start_ns AS dur_ns, c.class, c.dtype,
       coalesce(l.op_id, -1) AS op_id, hash(a.name_id, a.grid_x, a.grid_y, a.grid_z) AS launch
FROM raw.activity AS a
JOIN raw.activity_class AS c USING (activity_id)
LEFT JOIN (SELECT activity_id, max(op_id) AS op_id FROM raw.link GROUP BY activity_id) AS l
    USING (activity_id)
WHERE c.class IN (SELECT unnest(?::TEXT[]))
ORDER BY a.activity_id
"""
_OPTIMIZER_STEPS = """
SELECT coalesce(r.thread, -1), r.start_ns, r.end_ns
FROM raw.range AS r
JOIN raw.host_label AS l
    ON l.name_id = r.name_id AND l.target = 'range' AND l.label = 'optimizer'
WHERE r.end_ns > r.start_ns
"""
_RECORDS = """
SELECT o.op_id, n.name, o.input_dims, o.input_types, o.concrete_inputs
FROM raw.op AS o
JOIN raw.name AS n USING (name_id)
WHERE o.op_id IN (SELECT unnest(?::BIGINT[])) AND o.input_dims IS NOT NULL
"""


@dataclass
class _Kernel:
    activity_id: int
    dur_ns: int
    dtype: str | None
    kind: str
    op: int
    launch: int


class _Amount(NamedTuple):
    """FLOPs, at most and at least; both are the same where they are known."""

    executed: float = 0.0
    model: float = 0.0
    executed_low: float = 0.0
    model_low: float = 0.0

    @classmethod
    def of(cls, flop: OpFlop) -> "_Amount":
        executed, model = flop.executed_flop, flop.model_flop
        return cls(executed, model, executed * flop.low_frac, model * flop.low_frac)

    def without(self, inner: "_Amount") -> "_Amount":
        """What an operator does beside the one in it: bounds of both are of the same lengths."""
        return _Amount(*(max(own - other, 0.0) for own, other in zip(self, inner, strict=True)))

    def part(self, dur_ns: int, total_ns: int) -> "_Amount":
        """The share of one kernel of several, in whole FLOPs."""
        return _Amount(*(flop * dur_ns // total_ns for flop in self))

    @property
    def is_known(self) -> bool:
        return self.executed == self.executed_low


@dataclass
class _Share:
    """What one kernel receives; without an amount nothing is known."""

    amount: _Amount | None = None
    dtype: str | None = None
    rule: str | None = None
    op_id: int | None = None

    def flop(self, name: str) -> float | None:
        """A figure, or a bound of it; ``None`` for a figure that only has bounds."""
        if self.amount is None or (name in {"executed", "model"} and not self.amount.is_known):
            return None
        return float(getattr(self.amount, name.replace("_high", "")))


def assign_flops(store: Store) -> None:
    """Write ``raw.activity_flop``: one row for each kernel that multiplies matrices."""
    kernels = _kernels(store)
    if not kernels:
        return
    tree = OpTree(store)
    positions = tree.positions(np.array([kernel.op for kernel in kernels], dtype=np.int64))
    for kernel, position in zip(kernels, positions.tolist(), strict=True):
        kernel.op = position
    flops, names = _flops_of_ops(store, tree, {kernel.op for kernel in kernels})
    groups: dict[int, list[_Kernel]] = defaultdict(list)
    shares: dict[int, _Share] = {}
    for kernel in kernels:
        op = _shaping_op(kernel, tree.parent, flops)
        if op is None:
            shares[kernel.activity_id] = _Share(dtype=dtype_of(kernel.dtype))
        else:
            groups[op].append(kernel)
    own = _own_flops(groups, tree.parent, flops)
    for op in _in_optimizer(store, tree, groups):
        own[op] = own[op]._replace(model=0.0, model_low=0.0)
        names[op] = OPTIMIZER_RULE + names[op]
    for op, members in groups.items():
        found = _Found(flops[op], own[op], names[op], int(tree.op_id[op]))
        _share_out(members, found, shares)
    _write(store, shares)


def _kernels(store: Store) -> list[_Kernel]:
    kinds = {
        name: _KIND_OF_LEAF[leaf] for name, leaf in CLASS_LEAF.items() if leaf in _KIND_OF_LEAF
    }
    rows = store.rows(_KERNELS, [list(kinds)])
    return [
        _Kernel(activity, dur_ns, dtype, kinds[class_], op, launch)
        for activity, dur_ns, class_, dtype, op, launch in rows
    ]


def _flops_of_ops(
    store: Store, tree: OpTree, launching: Iterable[int]
) -> tuple[dict[int, OpFlop], dict[int, str]]:
    """FLOPs and names, by position, of the operators around any launch."""
    around: set[int] = set()
    for op in launching:
        for position in ancestors(op, tree.parent):
            if position in around:
                break
            around.add(position)
    ids = {int(tree.op_id[position]): position for position in around}
    flops: dict[int, OpFlop] = {}
    names: dict[int, str] = {}
    known: dict[tuple[str | None, ...], OpFlop | None] = {}
    for op_id, *record in store.rows(_RECORDS, [list(ids)]):
        key = tuple(record)
        if key not in known:
            name, dims, types, concrete = record
            known[key] = op_flop(name, parse_list(dims), parse_list(types), parse_list(concrete))
        found = known[key]
        if found is not None:
            flops[ids[op_id]] = found
            names[ids[op_id]] = record[0]
    return flops, names


def _shaping_op(kernel: _Kernel, parent: Ints, flops: dict[int, OpFlop]) -> int | None:
    for position in ancestors(kernel.op, parent):
        found = flops.get(position)
        if found is not None and found.kind in _ALLOWED[kernel.kind]:
            return position
    return None


def _own_flops(groups: Iterable[int], parent: Ints, flops: dict[int, OpFlop]) -> dict[int, _Amount]:
    """FLOPs of each operator without those of counted operators inside it."""
    counted = set(groups)
    own = {op: _Amount.of(flops[op]) for op in counted}
    for op in counted:
        for outer in ancestors(int(parent[op]), parent):
            if outer in counted:
                own[outer] = own[outer].without(_Amount.of(flops[op]))
                break
    return own


def _in_optimizer(store: Store, tree: OpTree, ops: Iterable[int]) -> list[int]:
    """Operators that began inside an optimizer step of their thread."""
    steps: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for thread, start_ns, end_ns in store.rows(_OPTIMIZER_STEPS):
        steps[thread].append((start_ns, end_ns))
    found = []
    for op in ops:
        start_ns = int(tree.start_ns[op])
        ranges = steps.get(int(tree.thread[op]), ())
        if any(begin <= start_ns < end for begin, end in ranges):
            found.append(op)
    return found


@dataclass(frozen=True)
class _Found:
    """What an operator does, and what of it is not counted further inside."""

    flop: OpFlop
    own: _Amount
    name: str
    op_id: int


def _share_out(members: list[_Kernel], found: _Found, shares: dict[int, _Share]) -> None:
    """Give FLOPs to the kernels of one operator.

    Of the kernels of a matmul one kind multiplies: that of the longest. The library may launch it
    several times for parts of a large product. A convolution may take one kernel for each gradient,
    or several for its transforms. Those that multiply share the FLOPs by their time.
    """
    longest = min(members, key=lambda kernel: (-kernel.dur_ns, kernel.activity_id))
    working = members
    if found.flop.kind != "conv":
        working = [kernel for kernel in members if kernel.launch == longest.launch]
    total_ns = max(sum(kernel.dur_ns for kernel in working), 1)
    working_ids = {kernel.activity_id for kernel in working} - {longest.activity_id}
    left = found.own
    for kernel in members:
        amount = _Amount()
        if kernel.activity_id in working_ids:
            amount = found.own.part(kernel.dur_ns, total_ns)
            left = left.without(amount)
        dtype = _dtype(kernel, found.flop)
        shares[kernel.activity_id] = _Share(amount, dtype, found.name, found.op_id)
    shares[longest.activity_id].amount = left


def _dtype(kernel: _Kernel, found: OpFlop) -> str | None:
    """The kernel's name knows best: it tells TF32 from FP32; the operator only sees 32 bits."""
    named = dtype_of(kernel.dtype)
    if named == "fp32" and found.dtype not in {None, FP32_OR_TF32}:
        return found.dtype  # fp32 in a name may be the accumulator
    return named or found.dtype


def _write(store: Store, shares: dict[int, _Share]) -> None:
    import pyarrow as pa

    ordered = sorted(shares.items())
    rows = [share for _, share in ordered]
    store.append(
        "activity_flop",
        {
            "activity_id": pa.array([activity for activity, _ in ordered], pa.int64()),
            **{
                f"{name}_flop": pa.array([row.flop(name) for row in rows], pa.float64())
                for name in _COLUMNS
            },
            "dtype": pa.array([row.dtype for row in rows], pa.string()),
            "shaped": pa.array([row.flop("executed") is not None for row in rows], pa.bool_()),
            "rule": pa.array([row.rule for row in rows], pa.string()),
            "op_id": pa.array([row.op_id for row in rows], pa.int64()),
        },
    )
