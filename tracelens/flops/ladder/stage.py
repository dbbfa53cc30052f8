"""Where does the time of FLOP-bearing kernels go, from the peak down to what each reached?

Writes ``raw.ladder``, one row a kernel, and the section ``ladder``; returns the sums that the
account needs. Losses are checked on every run: whole nanoseconds, instance by instance.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tracelens.errors import IdentityError
from tracelens.flops.ladder.alone import Alone, time_alone
from tracelens.flops.ladder.grid import Grids, use_of
from tracelens.flops.ladder.read import Floats, Known, read_instances
from tracelens.flops.ladder.steps import (
    SIGNED,
    STEPS,
    Instances,
    Ladder,
    climb_all,
    factors,
)
from tracelens.store import Store

PARTS = ("gemm", "conv", "attention", "recompute")
_TILED = ("gemm", "recompute")


@dataclass(frozen=True)
class Rates:
    """What the device of one GPU can do.

    Attributes:
        gpu: number of the GPU.
        peak_flop_per_s: what 100 % stands for.
        by_dtype: FLOP/s by number format.
        ceiling: declared sustained over nominal matmul rate, by number format.
        bytes_per_s: memory bandwidth; ``None`` where not known.
        sms: multiprocessors; ``None`` where not known.
        clock_frac: SM clock over the clock that the peak holds for; ``None`` where not known.
    """

    gpu: int
    peak_flop_per_s: float
    by_dtype: dict[str, float]
    ceiling: dict[str, float]
    bytes_per_s: float | None
    sms: int | None
    clock_frac: float | None


@dataclass(frozen=True)
class PartSum:
    """The ladder of one part of the FLOP-bearing time.

    Attributes:
        owned_ns: owned time.
        ideal_ns: what its FLOPs take at the peak.
        losses: loss in ns by step, signed ones included; a step without any evidence is missing.
        covered: by step, share of the owned time with evidence.
        edge_ns: FLOPs done in the window less those counted in it, at the peak.
        unshaped_ns: owned time of kernels whose FLOPs are not known.
        beside: instances that ran beside communication or a copy for some of their time.
        measured: those of them whose time alone tells what that cost.
        contention_high_ns: the most that contention can hold: all that the others lost to nothing
            else.
    """

    owned_ns: int
    ideal_ns: float
    losses: dict[str, float]
    covered: dict[str, float]
    edge_ns: float
    unshaped_ns: int
    beside: int
    measured: int
    contention_high_ns: float


@dataclass(frozen=True)
class Climbed:
    """All that the ladder found.

    Attributes:
        parts: by part.
        faster_than_peak: instances that beat their own peak by more than 2 %.
        instances: instances with known FLOPs.
    """

    parts: dict[str, PartSum]
    faster_than_peak: int
    instances: int


def climb(store: Store, rates: list[Rates], *, relabelled: bool) -> Climbed:
    """Write ``raw.ladder`` and return the sums by part.

    Args:
        store: attributed, with ``raw.activity_flop``.
        rates: what each GPU can do.
        relabelled: whether recomputed kernels have leaves of their own.

    Raises:
        IdentityError: if the losses of one instance do not sum to what it took beyond the ideal.
    """
    known = read_instances(store, relabelled=relabelled)
    found, alone = _instances(known, rates)
    shaped = ~np.isnan(known.columns["flop"])
    ladder = climb_all(found)
    losses_ns = ladder.losses_ns()
    _check(ladder, losses_ns, shaped)
    _write(store, known, found, ladder, alone)
    parts = {
        part: _sum(known, found, ladder, known.columns["part"] == part)
        for part in PARTS
        if (known.columns["part"] == part).any()
    }
    return Climbed(parts, int(ladder.is_faster.sum()), int((shaped & (found.flop > 0)).sum()))


def _check(ladder: Ladder, losses_ns: dict[str, npt.NDArray[np.int64]], shaped: object) -> None:
    total = sum(losses_ns.values(), np.zeros(len(ladder.owned_ns), np.int64))
    wanted = ladder.owned_ns - np.rint(ladder.ideal_ns).astype(np.int64)
    off = np.flatnonzero((total != wanted) & shaped)
    negative = sum(int((losses_ns[step] < 0).sum()) for step in STEPS[1:])
    if len(off) or negative:
        raise IdentityError(
            f"ladder: {len(off)} kernels whose losses do not sum, {negative} negative losses",
            hint="this is a bug of TraceLens: please report it with the trace",
        )


def _instances(known: Known, rates: list[Rates]) -> tuple[Instances, Alone]:
    columns = known.columns
    of_gpu = {rate.gpu: rate for rate in rates}
    gpus, position = np.unique(columns["gpu"], return_inverse=True)
    here = [of_gpu[int(gpu)] for gpu in gpus]

    def by_gpu(values: list[float | None]) -> Floats:
        return np.array([np.nan if v is None else v for v in values], np.float64)[position]

    dtypes, format_ = np.unique(columns["dtype"].astype(str), return_inverse=True)

    def by_dtype(values: list[dict[str, float]]) -> Floats:
        table = np.array([[row.get(str(dtype), np.nan) for dtype in dtypes] for row in values])
        return table.reshape(len(values), len(dtypes))[position, format_]

    tiled = np.isin(columns["part"].astype(str), _TILED) & (known.m > 0)
    use = use_of(
        Grids(
            m=known.m,
            n=known.n,
            batch=known.batch,
            tile_m=columns["tile_m"].astype(np.int64),
            tile_n=columns["tile_n"].astype(np.int64),
            schedule=columns["schedule"],
            blocks=columns["blocks"].astype(np.int64),
            sms=np.nan_to_num(by_gpu([rate.sms for rate in here])).astype(np.int64),
        )
    )
    dur_ns = known.dur_ns
    inside = known.window_ns / np.maximum(dur_ns, 1)
    is_whole = (known.window_ns == dur_ns) & (columns["owned_ns"] == dur_ns) & (dur_ns > 0)
    alone = time_alone(columns["key"], columns["owned_ns"], known.beside_ns, is_whole)
    found = Instances(
        owned_ns=columns["owned_ns"],
        dur_ns=known.window_ns,
        flop=np.nan_to_num(columns["flop"]) * inside,
        peak=by_gpu([rate.peak_flop_per_s for rate in here]),
        rate=by_dtype([rate.by_dtype for rate in here]),
        bytes=known.bytes * inside,
        bandwidth=by_gpu([rate.bytes_per_s for rate in here]),
        sm_factor=np.where(tiled, use.sm_factor, np.nan),
        quantisation=np.where(tiled, use.quantisation, np.nan),
        clock=by_gpu([rate.clock_frac for rate in here]),
        ceiling=np.where(tiled, by_dtype([rate.ceiling for rate in here]), np.nan),
        alone_ns=np.where(is_whole, alone.ns, np.nan),
        beside=known.beside_ns / np.maximum(dur_ns, 1),
    )
    return found, alone


def _sum(known: Known, found: Instances, ladder: Ladder, chosen: npt.NDArray[np.bool_]) -> PartSum:
    columns = known.columns
    shaped = chosen & ~np.isnan(columns["flop"])
    owned = int(columns["owned_ns"][chosen].sum())
    losses = {
        step: float(np.sum(loss[shaped]))
        for step, loss in ladder.losses().items()
        if step in SIGNED or ladder.known[step][shaped].any()
    }
    shaped_ns = int(columns["owned_ns"][shaped].sum())
    covered = {
        step: float(columns["owned_ns"][shaped & ladder.known[step]].sum() / max(owned, 1))
        for step in STEPS
    }
    beside = shaped & (found.beside > 0) & (found.flop > 0) & (columns["owned_ns"] > 0)
    untold = beside & ~ladder.known["contention"]
    at_most = np.sum(ladder.losses()["kernel"][untold]) + losses.get("contention", 0.0)
    counted = np.where(columns["is_counted"], columns["flop"], 0.0)
    edge = (found.flop - counted) / found.peak * 1e9
    return PartSum(
        owned_ns=owned,
        ideal_ns=float(np.sum(ladder.ideal_ns[shaped])),
        losses=losses,
        covered=covered,
        edge_ns=float(np.sum(edge[shaped])),
        unshaped_ns=owned - shaped_ns,
        beside=int(beside.sum()),
        measured=int((beside & ladder.known["contention"]).sum()),
        contention_high_ns=float(at_most),
    )


def _write(store: Store, known: Known, found: Instances, ladder: Ladder, alone: Alone) -> None:
    shaped = ~np.isnan(known.columns["flop"])
    losses = ladder.losses_ns()
    ideal_ns = np.rint(ladder.ideal_ns).astype(np.int64)
    store.append(
        "ladder",
        {
            "activity_id": known.columns["activity_id"][shaped],
            "part": pa.array(known.columns["part"][shaped], pa.string()),
            "kernel_key": known.columns["key"][shaped],
            "owned_ns": known.columns["owned_ns"][shaped],
            "ideal_ns": ideal_ns[shaped],
            **{
                f"{step}_ns": _masked(losses[step], ladder.known.get(step), shaped)
                for step in (*STEPS, *SIGNED)
            },
            **{
                f"{step}_factor": _nulls(factor[shaped])
                for step, factor in factors(found, ladder).items()
            },
            "is_faster_than_peak": ladder.is_faster[shaped],
            "flop": found.flop[shaped],
            "bytes": _nulls(found.bytes[shaped]),
            "m": _positive(known.m[shaped]),
            "n": _positive(known.n[shaped]),
            "k": _positive(known.k[shaped]),
            "batch": _positive(known.batch[shaped]),
            "shape": pa.array(_shapes(known)[shaped], pa.string()),
            "beside_frac": found.beside[shaped],
            "alone_ns": _nulls(alone.ns[shaped]).cast(pa.int64()),
            "alone_count": alone.count[shaped],
            "alone_is_fitted": alone.is_fitted[shaped],
        },
    )


def _shapes(known: Known) -> npt.NDArray[np.object_]:
    texts = np.array([shape.shape if shape else None for shape in known.shapes] + [None], object)
    return texts[known.columns["record"]]


def _masked(
    loss: npt.NDArray[np.int64],
    is_known: npt.NDArray[np.bool_] | None,
    shaped: npt.NDArray[np.bool_],
) -> pa.Array:
    mask = None if is_known is None else ~is_known[shaped]
    return pa.array(loss[shaped], pa.int64(), mask=mask)


def _nulls(values: Floats) -> pa.Array:
    return pa.array(values, pa.float64(), mask=~np.isfinite(values))


def _positive(values: npt.NDArray[np.int64]) -> pa.Array:
    return pa.array(values, pa.int64(), mask=values <= 0)
