"""Which kernels only repeat forward work that activation checkpointing threw away?

Rules in order; for each process the first one that its record allows decides:

* R1: an operator that runs inside the autograd engine, with grad mode on (it has a sequence number
  and no forward thread), and that is no backward operator, is a forward run again.
* R2, R3, R4: what runs inside a frame or range that says so, or inside the backward of a reentrant
  checkpoint, but not inside a node of the backward pass in there (``recompute_ranges``).
* R4, R5: counting, where no operators were recorded or compiled graphs hide them
  (``recompute_counting``).

What runs inside a recomputed operator, and the kernels launched from there, are recompute too.
FLOPs of a flash-attention backward that repeats the scores are not: they belong to that kernel.
"""

import numpy as np

from tracelens.flops.nesting import Ints
from tracelens.flops.optree import Flags, OpTree
from tracelens.flops.recompute_counting import count_again
from tracelens.flops.recompute_ranges import run_in_ranges
from tracelens.store import Store

ENGINE = "autograd::engine::evaluate_function: "
_KERNELS = """
SELECT l.activity_id, l.op_id
FROM raw.link AS l
JOIN raw.activity AS a USING (activity_id)
WHERE l.op_id IS NOT NULL AND a.kind = 'kernel'
ORDER BY l.activity_id
"""
_ASCEND = """
SELECT p.process
FROM raw.process AS p
JOIN raw.input AS i USING (input)
WHERE lower(coalesce(i.format, '') || ' ' || coalesce(i.producer, ''))
      SIMILAR TO '.*(ascend|msprof|torch_npu).*'
"""  # torch_npu writes these fields with another meaning: 128 false hits in one trace
_COMPILED = """
SELECT DISTINCT o.process FROM raw.op AS o JOIN raw.name AS n USING (name_id)
WHERE contains(n.name, 'CompiledFunctionBackward')
"""
_GPUS = "SELECT gpu, process FROM raw.gpu ORDER BY gpu"


def find_recompute(store: Store) -> None:
    """Write ``raw.recomputed``: one row for each kernel that repeats forward work."""
    tree = OpTree(store)
    _write(store, _by_operators(store, tree), "R1")
    decided = _decided(store, tree)
    found = run_in_ranges(store, tree, engine=_in_engine_names(store), decided=decided)
    for rule, (activities, processes) in found.items():
        _write(store, activities, rule)
        decided |= processes
    compiled = {process for (process,) in store.rows(_COMPILED)}
    for gpu, process in store.rows(_GPUS):
        if process not in decided:
            _write(store, count_again(store, gpu), "R4")
        elif process in compiled:
            _write(store, count_again(store, gpu), "R5")


def rerun_ops(store: Store) -> Ints:
    """Return the row ids of operators that R1 itself names, without what runs inside."""
    tree = OpTree(store)
    return np.sort(tree.op_id[_rerun(store, tree)])


def _write(store: Store, activities: Ints, rule: str) -> None:
    store.append("recomputed", {"activity_id": activities, "rule": [rule] * len(activities)})


def _by_operators(store: Store, tree: OpTree) -> Ints:
    if not len(tree):
        return np.empty(0, np.int64)
    recomputed = tree.inherited(_rerun(store, tree))
    kernels = store.arrays(_KERNELS)
    at = tree.positions(kernels["op_id"])
    hit = (at >= 0) & recomputed[at]
    found: Ints = kernels["activity_id"][hit]
    return found


def _decided(store: Store, tree: OpTree) -> set[int]:
    """Processes whose operators carry what R1 looks at: it has decided, whatever it found."""
    if not len(tree):
        return set()
    inside = tree.inside(tree.named(_in_engine_names(store)))
    told = inside & tree.has_sequence & (tree.fwd_thread >= 0)
    ascend = {process for (process,) in store.rows(_ASCEND)}
    return {int(process) for process in np.unique(tree.process[told])} | ascend


def _in_engine_names(store: Store) -> list[int]:
    rows = store.rows("SELECT name_id FROM raw.name WHERE starts_with(name, ?)", [ENGINE])
    return [name_id for (name_id,) in rows]


def _rerun(store: Store, tree: OpTree) -> Flags:
    backward = store.rows("SELECT name_id FROM raw.name WHERE contains(name, 'Backward')")
    in_engine = tree.inside(tree.named(_in_engine_names(store)))
    grad_mode = tree.has_sequence & (tree.fwd_thread == 0)
    found: Flags = in_engine & grad_mode & ~tree.named(row[0] for row in backward)
    ascend = [row[0] for row in store.rows(_ASCEND)]
    found[np.isin(tree.process, ascend)] = False
    return found
