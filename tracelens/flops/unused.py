"""Which options did a user give that change nothing, and why?"""

from collections.abc import Iterable

from tracelens.flops.conventions import DEFAULT_CONVENTION, find_convention
from tracelens.flops.options import FlopsOptions

_BY_FORMULA = "--model, --seq-len and --tokens-per-step"
_GIVEN = "the FLOPs of a step were given"
_OF_THE_FORMULA = {
    "--model": "model",
    "--seq-len": "seq_len",
    "--tokens-per-step": "tokens_per_step",
    "--global-batch-size": "global_batch_size",
}


def without_effect(options: FlopsOptions, source: str) -> Iterable[str]:
    """Yield a sentence for every option without effect on MFU.

    Args:
        options: what the user gave.
        source: where the model FLOPs come from in the end: user, config, shapes or none.
    """
    if options.micro_batch_size is not None and "micro_batch_size" not in options.from_log:
        yield "--micro-batch-size has no effect: nothing is derived from it"
    if source == "config":
        return
    convention = find_convention(options.convention).name
    if convention != DEFAULT_CONVENTION:
        yield f"--convention {convention} has no effect: {_why(source)}"
    given = [
        flag
        for flag, name in _OF_THE_FORMULA.items()
        if getattr(options, name) is not None and name not in options.from_log
    ]
    if source == "user":
        given = [flag for flag in given if flag == "--model"]
    if given and (source == "user" or options.model is None):
        need = _GIVEN if source == "user" else f"it takes {_BY_FORMULA}"
        yield f"no MFU by formula from {' and '.join(given)}: {need}"


def _why(source: str) -> str:
    if source == "user":
        return _GIVEN
    if source == "shapes":
        return f"shapes count the exact mask; others take {_BY_FORMULA}"
    return f"it takes {_BY_FORMULA}"
