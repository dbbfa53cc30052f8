"""Close the account of a run and write it: FLOPs, peak, MFU, waterfall, workload, capacity."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from tracelens.flops.account import Books, Closed, close_books
from tracelens.flops.clock_log import with_clocks
from tracelens.flops.denominator import Peak, choose_peak
from tracelens.flops.ladder import climb
from tracelens.flops.ladder.rates import rates_of
from tracelens.flops.ladder.section import ladder_section, losses_by_part
from tracelens.flops.ladder.stage import Climbed, Rates
from tracelens.flops.logcompare import Account, Comparison, compare
from tracelens.flops.numerator import Numerator, count_model_flop
from tracelens.flops.options import FlopsOptions
from tracelens.flops.padding import padding_flop
from tracelens.flops.scope import (
    Scope,
    Training,
    has_recompute_leaves,
    model_flop_of_trace,
    read_scope,
)
from tracelens.store import Store

_RESIDUAL_OK_POINTS = 1.0
_RESIDUAL_BAD_POINTS = 3.0


def close_account(store: Store, options: FlopsOptions | None = None) -> None:
    """Write the sections that say how far from the peak the run was.

    Args:
        store: attributed, with ``raw.activity_flop`` and ``raw.segment`` filled.
        options: what the user says of model, job and device.

    Raises:
        UsageError: if the options contradict each other or name something unknown.
        IdentityError: if the account does not close.
    """
    options = (options or FlopsOptions()).with_log()
    scope = read_scope(store)
    numerator = count_model_flop(options, scope)
    if not scope.total_ns:
        return
    parts = with_clocks(scope.parts, options)
    peak = choose_peak(options, parts, scope.mix)
    climbed = _climb(store, scope, rates_of(peak, parts, options))
    padding = padding_flop(store, numerator.model) if climbed else None
    books = replace(_books(scope, numerator, peak, climbed), padding_flop=padding)
    closed = close_books(books)
    store.put_result("flops", _flops(books, numerator, scope, closed))
    store.put_result("peak", _peak(peak, scope))
    store.put_result(
        "mfu",
        _mfu(books, numerator, peak, closed)
        | {
            "scope": _scope_of(scope, numerator),
            "all_recorded": _all_recorded(store, numerator, peak),
        },
    )
    store.put_result("waterfall", closed.waterfall)
    store.put_result("ladder", ladder_section(store, climbed, peak, options))
    workload = _workload(options, numerator, scope)
    logged = _logged(options, numerator, scope, peak, closed)
    if logged is not None:
        workload["log"] = logged.fields
        _write_notes(store, "info", logged.notes)
        _write_notes(store, "warning", logged.warnings)
    store.put_result("workload", workload)
    store.put_result(
        "capacity",
        {
            "ok": None if closed.capacity_residual_rel is None else True,
            "residual_rel": closed.capacity_residual_rel,
        },
    )
    _write_notes(store, "info", [*numerator.option_notes, *numerator.notes, *peak.notes])
    _write_notes(store, "info", _borrowed(scope))
    _write_notes(store, "warning", _alarms(closed, scope))
    _write_notes(store, "warning", _faster(climbed))


def _climb(store: Store, scope: Scope, rates: list[Rates]) -> Climbed | None:
    if not rates or not scope.executed_flop:
        return None
    return climb(store, rates, relabelled=has_recompute_leaves(scope.leaves))


def _books(scope: Scope, numerator: Numerator, peak: Peak, climbed: Climbed | None) -> Books:
    return Books(
        leaves=scope.leaves,
        total_ns=scope.total_ns,
        single_rank=len(scope.parts) == 1,
        peak_flop_per_s=peak.flop_per_s,
        model_flop=numerator.model_flop,
        executed_flop=scope.executed_flop if scope.is_shaped else None,
        recompute_flop=scope.recompute_flop,
        recompute_is_inferred=scope.recompute_is_inferred,
        executed_is_inferred=scope.borrowed_flop > 0,
        attention_backward_flop=scope.attention_backward_flop,
        optimizer_flop=scope.optimizer_flop,
        credit_flop=numerator.credit_flop,
        ladder=losses_by_part(climbed) if climbed and scope.is_shaped else None,
    )


def _flops(books: Books, numerator: Numerator, scope: Scope, closed: Closed) -> dict[str, Any]:
    shaped = scope.is_shaped
    return {
        "model_flop": numerator.model_flop,
        "executed_flop": books.executed_total_flop,
        "source": numerator.source,
        "convention": numerator.convention,
        "per_convention": numerator.per_convention,
        "reconciliation": {
            "recompute": scope.recompute_flop if shaped else None,
            "optimizer": scope.optimizer_flop if shaped else None,
            "attention_backward_recompute": scope.attention_backward_flop if shaped else None,
            "masked_not_executed": numerator.credit_flop if numerator.convention else None,
            "padding": books.padding_flop if shaped else None,
            "unshaped": 0.0 if shaped and scope.unshaped_frac == 0 else None,
            "unshaped_time_frac": scope.unshaped_frac,
            "residual": books.residual_flop,
            "residual_points": closed.residual_points,
        },
    }


def _peak(peak: Peak, scope: Scope) -> dict[str, Any]:
    return {
        "flop_per_s": peak.flop_per_s,
        "kind": peak.kind,
        "dtype": peak.dtype,
        "mix": scope.mix.shares() or None,
        "mix_of": "flop" if scope.mix.are_flops else "time",
        "bf16_flop_per_s": peak.bf16_flop_per_s,
        "device": peak.device,
        "source": peak.source,
        "reason": peak.reason,
    }


def _mfu(books: Books, numerator: Numerator, peak: Peak, closed: Closed) -> dict[str, Any]:
    capacity = books.capacity_flop
    bf16 = peak.bf16_flop_per_s
    reasons = [numerator.reason] if numerator.model_flop is None else []
    reasons += [peak.reason] if capacity is None else []
    per_convention = numerator.per_convention if capacity else None
    return {
        "value": closed.mfu,
        "low": _over(numerator.low_flop, capacity),
        "scope": None,
        "hfu": closed.hfu,
        "all_recorded": None,
        "against_bf16": _over(numerator.model_flop, bf16 and bf16 * books.total_ns / 1e9),
        "per_convention": per_convention
        and {name: flop / (capacity or 1.0) for name, flop in per_convention.items()},
        "reason": "; ".join(dict.fromkeys(reason for reason in reasons if reason)) or None,
    }


def _over(flop: float | None, capacity: float | None) -> float | None:
    return None if flop is None or not capacity else flop / capacity


def _scope_of(scope: Scope, numerator: Numerator) -> str:
    ranks = len(scope.parts)
    if ranks == 1 and (numerator.world_size > 1 or not numerator.is_world_known):
        return "rank"
    known = numerator.is_world_known and ranks == numerator.world_size
    return "job" if known else "replica"


def _all_recorded(store: Store, numerator: Numerator, peak: Peak) -> float | None:
    """MFU over everything recorded, warm-up and excluded steps included; by shapes only."""
    if numerator.source != "shapes" or not peak.flop_per_s:
        return None
    found = model_flop_of_trace(store)
    return None if found is None else found[0] / (peak.flop_per_s * found[1] / 1e9)


def _workload(options: FlopsOptions, numerator: Numerator, scope: Scope) -> dict[str, Any]:
    tokens, steps = options.tokens, scope.steps
    step_ns = None if steps is None else round(scope.total_ns / steps)
    sequences = options.global_batch_size
    if sequences is None and tokens and options.seq_len and tokens % options.seq_len == 0:
        sequences = tokens // options.seq_len
    rate = None
    if tokens and step_ns:
        rate = tokens / numerator.world_size / (step_ns / 1e9)
    world_size = numerator.world_size if numerator.is_world_known else None
    given = {
        "parameters": numerator.model,
        "tokens_per_step_global": tokens,
        "sequences_global": sequences,
    }
    origin = dict.fromkeys(given, "option")
    if "model" in options.from_log:
        origin["parameters"] = "log"
    if options.from_log & {"global_batch_size", "seq_len"}:
        origin |= dict.fromkeys(("tokens_per_step_global", "sequences_global"), "log")
    source = {name: origin[name] for name, value in given.items() if value is not None}
    if world_size is not None:
        named = "log" if "world_size" in options.from_log else "option"
        source["world_size"] = named if options.world_size == world_size else "trace"
    log = options.training_log
    if log is not None and log.mesh:
        source["mesh"] = "log"
    return {
        "parameters": numerator.model.params_total if numerator.model else None,
        "tokens_per_step_global": tokens,
        "sequences_global": sequences,
        "micro_batches": None,
        "mesh": (log and log.mesh) or None,
        "dtypes": list(scope.mix.shares()) or None,
        "source": source,
        "step_time_ns": step_ns,
        "tokens_per_s_per_gpu": rate,
        "world_size": world_size,
        "option_notes": numerator.option_notes,
    }


def _logged(
    options: FlopsOptions, numerator: Numerator, scope: Scope, peak: Peak, closed: Closed
) -> Comparison | None:
    """Compare with the training log, where one was given."""
    log = options.training_log
    if log is None:
        return None
    flop_per_token = None
    if numerator.model_flop is not None and options.tokens and scope.steps:
        tokens = options.tokens * scope.steps / numerator.world_size
        flop_per_token = numerator.model_flop / tokens
    own = Account(
        mfu=closed.mfu,
        peak_flop_per_s=peak.flop_per_s,
        flop_per_token=flop_per_token,
        step_time_ns=None if scope.steps is None else round(scope.total_ns / scope.steps),
        model=numerator.model,
        seq_len=options.seq_len,
    )
    found = compare(log, own)
    if numerator.model is None and log.model_reason:
        found.notes.append(f"no model from the log, {log.model_reason}: give --model")
    return found


def _alarms(closed: Closed, scope: Scope) -> Iterable[str]:
    if closed.mfu is None and closed.hfu is not None and closed.hfu > 1:
        yield f"HFU of {100 * closed.hfu:.3g} %: shapes, number format or peak is wrong"
    if closed.mfu is not None and closed.mfu > 1:
        yield (
            f"MFU of {100 * closed.mfu:.1f} %: FLOPs, number format or peak is wrong, or the "
            "window holds less time than the FLOPs took"
        )
    points = closed.residual_points
    if points is not None and abs(points) > _RESIDUAL_BAD_POINTS:
        yield f"FLOPs do not reconcile: {points:+.1f} points between model and shapes"
    elif points is not None and abs(points) > _RESIDUAL_OK_POINTS:
        yield f"FLOPs reconcile only to {points:+.1f} points"
    if scope.training is Training.YES and 0 < scope.unshaped_frac <= 0.01:
        yield f"{100 * scope.unshaped_frac:.2f} % of FLOP-bearing time has no shapes"


def _borrowed(scope: Scope) -> Iterable[str]:
    if scope.borrowed_flop:
        share = 100 * scope.borrowed_flop / sum(scope.executed_flop.values())
        yield (
            f"{share:.1f} % of executed FLOPs are taken from equal launches that have shapes: "
            "inferred, not recorded"
        )


def _faster(climbed: Climbed | None) -> Iterable[str]:
    if climbed and climbed.faster_than_peak:
        yield (
            f"{climbed.faster_than_peak} of {climbed.instances} FLOP-bearing kernels ran faster "
            "than the peak of their number format: their shapes, format or device are not what "
            "the trace says, or the clock was above that of the peak"
        )


def _write_notes(store: Store, severity: str, texts: Iterable[str]) -> None:
    for text in dict.fromkeys(texts):
        store.append("note", {"input": [None], "severity": [severity], "text": [text]})
