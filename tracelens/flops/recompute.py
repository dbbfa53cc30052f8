"""Which kernels only repeat forward work that activation checkpointing threw away?

Rule R1: an operator that runs inside the autograd engine, with grad mode on (it has a sequence
number and no forward thread), and that is no backward operator, is a forward run again. What runs
inside it, and the kernels launched from there, are recompute too. FLOPs of a flash-attention
backward that repeats the scores are not: they belong to that kernel.
"""

import numpy as np

from tracelens.flops.nesting import Ints
from tracelens.flops.optree import Flags, OpTree
from tracelens.store import Store

_ENGINE = "autograd::engine::evaluate_function: "
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


def find_recompute(store: Store) -> None:
    """Write ``raw.recomputed``: one row for each kernel of recomputed operators."""
    tree = OpTree(store)
    if not len(tree):
        return
    recomputed = tree.inherited(_rerun(store, tree))
    kernels = store.arrays(_KERNELS)
    at = tree.positions(kernels["op_id"])
    hit = (at >= 0) & recomputed[at]
    ids = kernels["activity_id"][hit]
    store.append("recomputed", {"activity_id": ids, "rule": ["R1"] * len(ids)})


def rerun_ops(store: Store) -> Ints:
    """Return the row ids of operators that the rule itself names, without what runs inside."""
    tree = OpTree(store)
    return np.sort(tree.op_id[_rerun(store, tree)])


def _rerun(store: Store, tree: OpTree) -> Flags:
    engine = store.rows("SELECT name_id FROM raw.name WHERE starts_with(name, ?)", [_ENGINE])
    backward = store.rows("SELECT name_id FROM raw.name WHERE contains(name, 'Backward')")
    in_engine = tree.inside(tree.named(row[0] for row in engine))
    grad_mode = tree.has_sequence & (tree.fwd_thread == 0)
    found: Flags = in_engine & grad_mode & ~tree.named(row[0] for row in backward)
    ascend = [row[0] for row in store.rows(_ASCEND)]
    found[np.isin(tree.process, ascend)] = False
    return found
