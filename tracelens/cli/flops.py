"""``tracelens flops``: what a model costs per token, and what a throughput means as MFU."""

from typing import Annotated, Any

import typer

from tracelens.cli import settings
from tracelens.cli.output import show
from tracelens.errors import UsageError


def flops(
    model: Annotated[
        str,
        typer.Option(
            help="A preset, a config.json, Megatron arguments, a torchtitan TOML, or a list of "
            "layers (JSON)."
        ),
    ],
    seq: Annotated[int, typer.Option(help="Sequence length in tokens.", min=1)],
    gpu: settings.Gpu = None,
    dtype: settings.Dtype = None,
    tokens_per_second_per_gpu: Annotated[
        float | None,
        typer.Option(
            "--tokens-per-second-per-gpu",
            "--tokens-per-s-per-gpu",
            help="Throughput of one GPU in tokens per second: MFU under every convention.",
            min=0,
        ),
    ] = None,
    convention: Annotated[
        str | None,
        typer.Option(help="Show what the parts of the model cost under this convention."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show model FLOPs per token under every convention, and the MFU of a throughput."""
    from tracelens.flops import load_model
    from tracelens.flops.table import convention_table, part_table

    peak = _peak(gpu, dtype)
    shape = load_model(model)
    rows = convention_table(
        shape, seq_len=seq, peak_flop_per_s=peak, tokens_per_s=tokens_per_second_per_gpu
    )
    parts = None if convention is None else part_table(shape, seq_len=seq, convention=convention)
    if json:
        from tracelens.report import dumps

        answer: dict[str, Any] = {
            "schema": "tracelens.flops/1",
            "model": model,
            "seq_len": seq,
            "parameters": shape.params_total,
            "peak_flop_per_s": peak,
            "tokens_per_s_per_gpu": tokens_per_second_per_gpu,
            "conventions": rows,
            "parts": parts,
        }
        show(dumps(answer))
        return
    show(f"{model}: {shape.params_total:,} parameters, sequences of {seq:,} tokens")
    if peak is not None:
        show(f"{gpu}: {peak / 1e12:,.1f} TFLOP/s {dtype or 'bf16'}, dense")
    _show_conventions(rows, tokens_per_second_per_gpu)
    if parts is not None:
        _show_parts(parts)


def _peak(gpu: str | None, dtype: str | None) -> float | None:
    from tracelens.flops import peak_flop_per_s
    from tracelens.flops.peaks import check_device

    if gpu is None:
        return None
    check_device(gpu)
    peak = peak_flop_per_s(gpu, dtype=dtype or "bf16")
    if peak is None:
        raise UsageError(f"--gpu {gpu}: no peak known for {dtype or 'bf16'}")
    return peak


def _show_conventions(rows: list[dict[str, Any]], rate: float | None) -> None:
    has_mfu = any(row["mfu"] is not None for row in rows)
    head = f"{'convention':17s} {'GFLOP/token':>11s} {'/causal':>7s}"
    head += " TFLOP/s" if rate is not None else ""
    head += "     MFU" if has_mfu else ""
    show(f"{head} square table head   expert router MTP again")
    for row in rows:
        line = f"{row['convention']:17s} {row['flop_per_token'] / 1e9:11.3f}"
        line += f" {100 * row['over_causal']:+6.1f}%"
        if rate is not None:
            line += f" {row['flop_per_s_per_gpu'] / 1e12:7.1f}"
        if row["mfu"] is not None:
            line += f" {100 * row['mfu']:6.2f}%"
        show(f"{line} {_choices(row['convention'])}")
    show(
        "square: attention; table: embedding; again: recompute. --json has every choice and source."
    )


def _choices(name: str) -> str:
    from tracelens.flops.conventions import CONVENTIONS

    made = CONVENTIONS[name]
    words = {True: "yes", False: "no"}
    return (
        f"{made.attention:6s} {words[made.embedding]:5s} {made.head:6s} {made.experts:6s} "
        f"{words[made.router]:6s} {words[made.mtp]:3s} {made.recompute}"
    )


def _show_parts(rows: list[dict[str, Any]]) -> None:
    show(f"\n{'part':18s} {'layers':>6s} {'forward':>10s} {'backward':>10s} {'again':>10s}  GFLOP")
    for row in rows:
        figures = (row[name] / 1e9 for name in ("forward_flop", "backward_flop", "again_flop"))
        forward, backward, again = figures
        line = f"{row['part']:18s} {row['layers']:6d} {forward:10.3f} {backward:10.3f}"
        show(f"{line} {again:10.3f}")
