"""What do the tables say about the analyzed steps: time, executed FLOPs, devices, training?"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from tracelens.flops.denominator import Mix, Part
from tracelens.store import Store

UNSHAPED_LIMIT = 0.01
"""Above this share of FLOP-bearing time without shapes, executed FLOPs are only a lower bound."""

_LEAF = {"gemm": "flop.gemm", "attention": "flop.attn", "conv": "flop.conv"}
_AGAIN = {"gemm": "flop.recompute.gemm", "attention": "flop.recompute.attn"}

_IN_SCOPE = """
WITH span AS (SELECT gpu, step, start_ns, end_ns FROM raw.step WHERE included),
work AS (
    SELECT f.activity_id, a.gpu, a.start_ns, a.end_ns - a.start_ns AS dur_ns, s.step
    FROM raw.activity_flop AS f
    JOIN raw.activity AS a USING (activity_id)
    LEFT JOIN raw.activity_step AS s USING (activity_id)
),
chosen AS (
    SELECT w.activity_id, w.dur_ns FROM work AS w JOIN span AS p USING (gpu, step)
    UNION ALL
    SELECT w.activity_id, w.dur_ns FROM work AS w JOIN span AS p USING (gpu)
    WHERE w.step IS NULL AND w.start_ns >= p.start_ns AND w.start_ns < p.end_ns
),
again AS (SELECT DISTINCT activity_id FROM raw.recomputed)
SELECT c.class, r.activity_id IS NOT NULL AS again,
       starts_with(coalesce(f.rule, ''), 'optimizer: ') AS by_optimizer, f.dtype,
       sum(x.dur_ns)::BIGINT AS dur_ns, sum(f.executed_flop) AS executed,
       sum(f.model_flop) AS model, sum(f.model_low_flop) AS model_low,
       sum(f.executed_flop) FILTER (starts_with(f.rule, 'borrowed: ')) AS borrowed
FROM chosen AS x
JOIN raw.activity_flop AS f USING (activity_id)
JOIN raw.activity_class AS c USING (activity_id)
LEFT JOIN again AS r USING (activity_id)
GROUP BY ALL
ORDER BY ALL
"""
_SHAPED_TIME = """
SELECT coalesce(sum(s.end_ns - s.start_ns), 0)::BIGINT,
       coalesce(sum(s.end_ns - s.start_ns) FILTER (f.shaped), 0)::BIGINT,
       coalesce(sum(s.end_ns - s.start_ns)
           FILTER (NOT f.shaped AND f.executed_high_flop > 0), 0)::BIGINT
FROM raw.segment AS s
LEFT JOIN raw.activity_flop AS f USING (activity_id)
WHERE starts_with(s.leaf, 'flop.')
"""
_PARTS = """
SELECT g.device_name, g.num_sms, s.dur_ns, g.gpu, g.device
FROM raw.gpu AS g
JOIN (SELECT gpu, sum(end_ns - start_ns)::BIGINT AS dur_ns FROM raw.segment GROUP BY gpu) AS s
    USING (gpu)
ORDER BY g.gpu
"""
_ALL_WORK = """
SELECT sum(f.model_flop) FILTER (r.activity_id IS NULL),
       sum(a.end_ns - a.start_ns) FILTER (NOT f.shaped)::DOUBLE / sum(a.end_ns - a.start_ns)
FROM raw.activity_flop AS f
JOIN raw.activity AS a USING (activity_id)
LEFT JOIN (SELECT DISTINCT activity_id FROM raw.recomputed) AS r USING (activity_id)
"""
_ALL_TIME = """
SELECT sum(dur_ns)::BIGINT
FROM (SELECT max(end_ns) - min(start_ns) AS dur_ns FROM raw.activity GROUP BY gpu)
"""
_COUNTED = "SELECT EXISTS (SELECT 1 FROM raw.recomputed WHERE rule IN ('R4', 'R5'))"
_TRAINS = """
SELECT EXISTS (SELECT 1 FROM raw.activity_class WHERE class = 'optimizer')
    OR EXISTS (SELECT 1 FROM raw.host_label WHERE label IN ('backward', 'optimizer'))
"""


class Training(Enum):
    """Whether the trace is of training."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Scope:
    """The analyzed steps of the recorded ranks.

    Attributes:
        leaves: time by leaf.
        parts: one entry a GPU.
        steps: steps summed over GPUs; ``None`` when the window is not made of steps.
        world_size: GPUs of the job, where the trace says.
        executed_flop: FLOPs of kernels with shapes, by FLOP leaf.
        model_flop: what the model needs of them.
        model_low_flop: the same at least, with kernels whose FLOPs only have bounds.
        recompute_flop: what activation recompute ran of them.
        recompute_is_inferred: whether counting kernels, not their operators, told which.
        attention_backward_flop: what attention backward recomputed in itself.
        optimizer_flop: what matmuls of the optimizer ran.
        unshaped_frac: share of FLOP-bearing time in kernels whose FLOPs are not known.
        bounded_frac: share of it in kernels whose FLOPs have bounds.
        borrowed_flop: executed FLOPs that equal launches with shapes lent.
        mix: formats of the FLOP-bearing kernels.
        training: whether the trace is of training.
        has_compiled_backward: whether recompute may hide in compiled graphs.
    """

    leaves: dict[str, int]
    parts: list[Part]
    steps: int | None
    world_size: int | None
    executed_flop: dict[str, float]
    model_flop: float
    model_low_flop: float
    recompute_flop: float
    recompute_is_inferred: bool
    attention_backward_flop: float
    optimizer_flop: float
    unshaped_frac: float
    bounded_frac: float
    borrowed_flop: float
    mix: Mix
    training: Training
    has_compiled_backward: bool

    @property
    def total_ns(self) -> int:
        """Analyzed time."""
        return sum(self.leaves.values())

    @property
    def is_shaped(self) -> bool:
        """Whether executed FLOPs are known, but for a negligible part."""
        return bool(self.executed_flop) and self.unshaped_frac <= UNSHAPED_LIMIT


@dataclass
class _Work:
    """Sums over the FLOP-bearing kernels in scope."""

    executed: dict[str, float]
    flop_by_dtype: dict[str | None, float]
    ns_by_dtype: dict[str | None, float]
    model: float = 0.0
    model_low: float = 0.0
    borrowed: float = 0.0
    recompute: float = 0.0
    attention_backward: float = 0.0
    optimizer: float = 0.0


def read_scope(store: Store) -> Scope:
    """Read what the stages before wrote."""
    leaves = dict(
        store.rows(
            "SELECT leaf, sum(end_ns - start_ns)::BIGINT FROM raw.segment "
            "GROUP BY leaf ORDER BY leaf"
        )
    )
    flop_ns, shaped_ns, bounded_ns = store.rows(_SHAPED_TIME)[0]
    unshaped = 1 - shaped_ns / flop_ns if flop_ns else 0.0
    work = _read_work(store, relabelled=has_recompute_leaves(leaves))
    by_flop = unshaped <= UNSHAPED_LIMIT and sum(work.flop_by_dtype.values()) > 0
    weights = work.flop_by_dtype if by_flop else work.ns_by_dtype
    return Scope(
        leaves=leaves,
        parts=[Part(*row) for row in store.rows(_PARTS)],
        steps=_steps(store),
        world_size=store.scalar("SELECT max(world_size) FROM raw.process"),
        executed_flop=work.executed,
        model_flop=work.model,
        model_low_flop=work.model_low,
        recompute_flop=work.recompute,
        recompute_is_inferred=bool(store.scalar(_COUNTED)),
        attention_backward_flop=work.attention_backward,
        optimizer_flop=work.optimizer,
        unshaped_frac=unshaped,
        bounded_frac=bounded_ns / flop_ns if flop_ns else 0.0,
        borrowed_flop=work.borrowed,
        mix=Mix(weights, are_flops=by_flop),
        training=_training(store),
        has_compiled_backward=_has_op(store, "CompiledFunctionBackward"),
    )


def has_recompute_leaves(leaves: Iterable[str]) -> bool:
    """Tell whether recomputed kernels are charged to leaves of their own."""
    return any(leaf.startswith("flop.recompute") for leaf in leaves)


def model_flop_of_trace(store: Store) -> tuple[float, int] | None:
    """Return model FLOPs by shapes and GPU time of the whole trace; ``None`` without shapes."""
    flop, unshaped = store.rows(_ALL_WORK)[0]
    total_ns = store.scalar(_ALL_TIME)
    if not flop or not total_ns or (unshaped or 0.0) > UNSHAPED_LIMIT:
        return None
    return float(flop), int(total_ns)


def _read_work(store: Store, *, relabelled: bool) -> _Work:
    work = _Work(defaultdict(float), defaultdict(float), defaultdict(float))
    for class_, again, by_optimizer, dtype, dur_ns, *flop in store.rows(_IN_SCOPE):
        executed, model, model_low, borrowed = flop
        work.borrowed += borrowed or 0.0
        work.ns_by_dtype[dtype] += dur_ns
        if not by_optimizer and not again:
            work.model_low += model_low or 0.0
        if executed is None:
            continue
        kind = "gemm" if class_.startswith("gemm") else class_
        leaf = _AGAIN.get(kind, "flop.recompute") if again and relabelled else _LEAF[kind]
        work.executed[leaf] += executed
        work.flop_by_dtype[dtype] += executed
        if by_optimizer:
            work.optimizer += executed
        elif again:
            work.recompute += executed
        else:
            work.model += model
            work.attention_backward += executed - model
    return work


def _steps(store: Store) -> int | None:
    """Steps over all GPUs; a window that is no step has no number."""
    if not (store.result("window") or {"are_steps": True}).get("are_steps", True):
        return None
    steps, unnumbered = store.rows(
        "SELECT count(step), count(*) FILTER (step IS NULL) FROM raw.step WHERE included"
    )[0]
    return None if unnumbered or not steps else int(steps)


def _training(store: Store) -> Training:
    if store.scalar(_TRAINS):
        return Training.YES
    recorded = store.scalar("SELECT EXISTS (SELECT 1 FROM raw.op)")
    return Training.NO if recorded else Training.UNKNOWN


def _has_op(store: Store, text: str) -> bool:
    return bool(
        store.scalar(
            "SELECT EXISTS (SELECT 1 FROM raw.op JOIN raw.name USING (name_id) "
            "WHERE contains(name, ?))",
            [text],
        )
    )
