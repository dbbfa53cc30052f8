"""``tracelens batch``: every run under some paths, into a lake that remembers."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from tracelens.cli import settings


def batch(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH...",
            help="Folders and files; one folder, or one set of files, is one run.",
            show_default=False,
        ),
    ],
    lake: Annotated[Path, typer.Option(metavar="DIR", help="Where results are kept.")],
    model: settings.Model = None,
    seq_len: settings.SeqLen = None,
    tokens_per_step: settings.TokensPerStep = None,
    gpu: settings.Gpu = None,
    window: settings.Window = None,
) -> None:
    """Attribute every run found; unchanged runs are skipped, a failed run stops nothing."""
    from tracelens.batch import RunRow, run_batch
    from tracelens.ingest.inputs import recognize
    from tracelens.run import attribute

    def attributed(files: Sequence[Path], options: Mapping[str, Any]) -> Mapping[str, Any]:
        with attribute(list(files), **options) as run:
            return run.to_dict()

    def show(row: RunRow) -> None:
        mfu = f"MFU {100 * row.mfu:.1f} %" if row.mfu is not None else (row.message or "")
        typer.echo(f"{row.status:10s} {row.name}  {mfu}")

    values = {
        "model": model,
        "seq_len": seq_len,
        "tokens_per_step": tokens_per_step,
        "gpu": gpu,
        "window": window,
    }
    given = {name: value for name, value in values.items() if value is not None}
    report = run_batch(
        paths,
        lake,
        given,
        attribute=attributed,
        recognize=lambda path: recognize(path) is not None,
        progress=show,
    )
    typer.echo(f"{len(report.done)} runs attributed, {len(report.skipped)} unchanged")
