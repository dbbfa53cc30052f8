"""``tracelens flops``: what a model costs per token, and what a throughput means as MFU."""

from typing import Annotated

import typer

from tracelens.cli import settings
from tracelens.cli.output import show
from tracelens.errors import UsageError


def flops(
    model: Annotated[str, typer.Option(help="A preset name or a Hugging Face config.json.")],
    seq: Annotated[int, typer.Option(help="Sequence length in tokens.", min=1)],
    gpu: settings.Gpu = None,
    dtype: settings.Dtype = None,
    tokens_per_s_per_gpu: Annotated[
        float | None, typer.Option(help="Throughput of one GPU, tokens per second.", min=0)
    ] = None,
) -> None:
    """Show model FLOPs per token under every convention, and the MFU of a throughput."""
    from tracelens.flops import flops_per_token_by_convention, peak_flop_per_s
    from tracelens.flops.peaks import check_device

    peak = None
    if gpu is not None:
        check_device(gpu)
        peak = peak_flop_per_s(gpu, dtype=dtype or "bf16")
        if peak is None:
            raise UsageError(f"--gpu {gpu}: no peak known for {dtype or 'bf16'}")
        show(f"{gpu}: {peak / 1e12:,.1f} TFLOP/s {dtype or 'bf16'}, dense")
    show(f"{'convention':24s} {'GFLOP/token':>12s}" + ("      MFU" if peak else ""))
    for name, value in flops_per_token_by_convention(model, seq_len=seq).items():
        line = f"{name:24s} {value / 1e9:12.3f}"
        if peak and tokens_per_s_per_gpu:
            line += f" {100 * value * tokens_per_s_per_gpu / peak:7.2f} %"
        show(line)
