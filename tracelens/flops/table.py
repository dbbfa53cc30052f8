"""What does a model cost per token, as tables: by convention, and by part?"""

from math import fsum
from typing import Any

from tracelens.flops.conventions import CONVENTIONS, DEFAULT_CONVENTION, find_convention
from tracelens.flops.counting import flops_by_part, flops_per_token_by_convention
from tracelens.flops.presets import ModelLike


def convention_table(
    model: ModelLike,
    *,
    seq_len: int,
    peak_flop_per_s: float | None = None,
    tokens_per_s: float | None = None,
) -> list[dict[str, Any]]:
    """Return one row a convention: FLOPs a token, and what a throughput means by it.

    Args:
        model: what ``flops_per_token`` takes.
        seq_len: tokens a sequence.
        peak_flop_per_s: peak of one GPU.
        tokens_per_s: throughput of one GPU.

    Raises:
        UsageError: if the model or the length makes no sense.
    """
    found = flops_per_token_by_convention(model, seq_len=seq_len)
    rows = []
    for name, flop in found.items():
        rate = None if tokens_per_s is None else flop * tokens_per_s
        rows.append(
            {
                "convention": name,
                "flop_per_token": flop,
                "over_causal": flop / found[DEFAULT_CONVENTION] - 1,
                "flop_per_s_per_gpu": rate,
                "mfu": None if rate is None or not peak_flop_per_s else rate / peak_flop_per_s,
                "choices": CONVENTIONS[name].choices(),
                "source": CONVENTIONS[name].source,
            }
        )
    return rows


def part_table(model: ModelLike, *, seq_len: int, convention: str) -> list[dict[str, Any]]:
    """Return one row a kind of part, summed over layers, in the order of the forward pass.

    Raises:
        UsageError: if the model, the convention or the length makes no sense.
    """
    parts = flops_by_part(model, seq_len=seq_len, convention=convention)
    factor = 1 / 3 if find_convention(convention).recompute == "all" else 0.0
    names = dict.fromkeys(part.name for part in parts)
    rows = []
    for name in names:
        members = [part for part in parts if part.name == name]
        row = {
            "part": name,
            "layers": len({part.layer for part in members if part.layer is not None}),
            "forward_flop": fsum(part.forward_flop for part in members),
            "backward_flop": fsum(part.backward_flop for part in members),
            "again_flop": fsum(part.again_flop + factor * part.flop for part in members),
        }
        rows.append(row)
    return rows
