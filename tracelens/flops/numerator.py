"""How many FLOPs did the model need in the analyzed steps, and who says so?

In this order: the user's figure, the formula of a model configuration, the shapes of the trace.
"""

from dataclasses import dataclass, field

from tracelens.flops.conventions import CONVENTIONS, find_convention
from tracelens.flops.counting import flops_per_token
from tracelens.flops.options import FlopsOptions
from tracelens.flops.presets import Model, load_model
from tracelens.flops.scope import Scope, Training
from tracelens.flops.unused import without_effect

_RECORD = "record with record_shapes=True or give --model, --seq-len and --tokens-per-step"


@dataclass
class Numerator:
    """Model FLOPs in scope.

    Attributes:
        model_flop: ``None`` when not known; ``reason`` says why.
        low_flop: a lower bound, when some kernels have no shapes.
        source: user, config, shapes or none.
        convention: the way of counting, where it is known.
        per_convention: the same under every convention.
        credit_flop: what the convention credits beyond the exact mask.
        model: shape of the model.
        world_size: GPUs that the whole job's figures are spread over.
        is_world_known: whether the trace or the user gives it.
        reason: why there is no figure.
        notes: what a reader must know.
        option_notes: options that had no effect, or not the one asked for.
    """

    model_flop: float | None = None
    low_flop: float | None = None
    source: str = "none"
    convention: str | None = None
    per_convention: dict[str, float] | None = None
    credit_flop: float = 0.0
    model: Model | None = None
    world_size: int = 1
    is_world_known: bool = False
    reason: str | None = None
    notes: list[str] = field(default_factory=list)
    option_notes: list[str] = field(default_factory=list)


def count_model_flop(options: FlopsOptions, scope: Scope) -> Numerator:
    """Return the numerator."""
    found = Numerator(model=None if options.model is None else load_model(options.model))
    found.world_size = _world_size(options, scope, found)
    if scope.training is Training.NO:
        found.reason = "no backward pass and no optimizer in the trace: MFU is a figure of training"
    else:
        _count(found, options, scope)
    found.option_notes += without_effect(options, found.source)
    return found


def _count(found: Numerator, options: FlopsOptions, scope: Scope) -> None:
    share = _share_of_job(options, scope, found)
    if share is not None and options.model_flops_per_step is not None:
        found.source = "user"
        found.model_flop = options.model_flops_per_step * share
    elif share is not None and found.model is not None and options.tokens and options.seq_len:
        _by_formula(found, options, options.tokens * share)
    else:
        _by_shapes(found, scope)


def _world_size(options: FlopsOptions, scope: Scope, found: Numerator) -> int:
    ranks = len(scope.parts)
    given = options.world_size or scope.world_size
    if "world_size" in options.from_log and scope.world_size not in {None, given}:
        found.option_notes.append(
            f"the log is of {given} GPUs, the trace of {scope.world_size}: taken as the trace says"
        )
        given = scope.world_size
    found.is_world_known = given is not None
    if given is None and _wants_job(options):
        found.option_notes.append(
            f"size of the job not recorded: taken as the {ranks} GPU(s) given (--world-size)"
        )
    if given is not None and given < ranks:
        found.option_notes.append(
            f"job of {given} GPUs, but {ranks} were recorded: taken as {ranks}"
        )
    return max(given or ranks, ranks, 1)


def _wants_job(options: FlopsOptions) -> bool:
    return options.model_flops_per_step is not None or options.model is not None


def _share_of_job(options: FlopsOptions, scope: Scope, found: Numerator) -> float | None:
    """Steps of the whole job that the recorded ranks did: each does 1/G of every step."""
    if not _wants_job(options):
        return None
    missing = _missing_options(options)
    if missing:
        found.option_notes.append(f"model FLOPs by formula also need {missing}")
        return None
    if scope.steps is None:
        found.reason = (
            "the window is not made of steps, so FLOPs per step do not apply: "
            "mark steps (ProfilerStep or NVTX) or record shapes"
        )
        found.option_notes.append(found.reason)
        return None
    ranks = len(scope.parts)
    if ranks < found.world_size:
        found.notes.append(
            f"model FLOPs of the job are spread evenly over {found.world_size} GPUs, "
            f"{ranks} recorded: with pipeline stages they differ"
        )
    return scope.steps / found.world_size


def _missing_options(options: FlopsOptions) -> str:
    if options.model_flops_per_step is not None:
        return ""
    lacking = [] if options.seq_len else ["--seq-len"]
    if not options.tokens:
        lacking.append("--tokens-per-step or --global-batch-size")
    return " and ".join(lacking)


def _by_formula(found: Numerator, options: FlopsOptions, tokens: float) -> None:
    model, seq_len = found.model, options.seq_len
    assert model is not None
    assert seq_len is not None
    found.source = "config"
    found.convention = find_convention(options.convention).name
    found.per_convention = {
        name: tokens * flops_per_token(model, seq_len=seq_len, convention=name)
        for name in CONVENTIONS
    }
    found.model_flop = found.per_convention[found.convention]
    found.credit_flop = found.model_flop - found.per_convention["causal"]


def _by_shapes(found: Numerator, scope: Scope) -> None:
    """Forward and backward by shapes, without recompute; exact masks."""
    if not scope.executed_flop:
        bearing = any(leaf.startswith("flop.") for leaf in scope.leaves)
        why = f"no shapes: {_RECORD}" if bearing else "no FLOP-bearing kernel in the window"
        found.reason = found.reason or why
        return
    if scope.training is Training.UNKNOWN:
        found.reason = "nothing in the trace shows training: give --model-flops-per-step"
        return
    found.source, found.convention = "shapes", "causal"
    if scope.has_compiled_backward:
        found.notes.append(
            "compiled backward: forward work repeated inside compiled graphs cannot be told from "
            "the model's own and counts as model FLOPs"
        )
    if not scope.is_shaped:
        found.low_flop = scope.model_low_flop
        share, bounded = 100 * scope.unshaped_frac, 100 * scope.bounded_frac
        found.reason = f"{share:.1f} % of FLOP-bearing time has no shapes: {_RECORD}"
        if bounded:
            found.reason = (
                f"the FLOPs of {share:.1f} % of FLOP-bearing time are not known; of {bounded:.1f} "
                "% only bounds are: attention over packed sequences, whose lengths no profiler "
                "records: give --model, --seq-len and --tokens-per-step"
            )
        return
    found.model_flop = scope.model_flop
    found.per_convention = {"causal": scope.model_flop}
