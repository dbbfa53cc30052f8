"""``tracelens report``: the HTML report of a trace or of a kept store."""

from pathlib import Path
from typing import Annotated

import typer

from tracelens.cli import settings
from tracelens.cli.attribute import analyzed
from tracelens.errors import UsageError


def report(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="STORE_OR_TRACE...",
            help="A store kept with --store, or traces.",
            show_default=False,
        ),
    ],
    html: Annotated[Path, typer.Option(metavar="FILE", help="Where the report goes.")],
    model: settings.Model = None,
    seq_len: settings.SeqLen = None,
    tokens_per_step: settings.TokensPerStep = None,
    gpu: settings.Gpu = None,
    window: settings.Window = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """Write the self-contained HTML loss-waterfall report."""
    from tracelens.run import Run
    from tracelens.store import Store

    if not html.parent.is_dir():
        raise UsageError(f"{html}: the folder does not exist")
    first = Path(sources[0])
    if len(sources) == 1 and first.is_file() and Store.is_store(first):
        run = Run.open(first)
    else:
        values = {
            "model": model,
            "seq_len": seq_len,
            "tokens_per_step": tokens_per_step,
            "gpu": gpu,
            "window": window,
        }
        run = analyzed(sources, values, None, quiet=quiet)
    with run:
        run.save_html(html)
    typer.echo(str(html))
