"""``tracelens batch``: every run under some paths, into a lake that remembers."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tracelens.cli import settings
from tracelens.cli.output import show

if TYPE_CHECKING:
    from tracelens.batch import RunRow


@settings.takes_analysis
def batch(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH...",
            help="Folders and files; one folder, or one set of files, is one run.",
            show_default=False,
        ),
    ],
    options: dict[str, Any],
    lake: Annotated[Path, typer.Option(metavar="DIR", help="Where results are kept.")],
) -> None:
    """Attribute every run found; unchanged runs are skipped, a failed run stops nothing."""
    from tracelens.batch import run_batch
    from tracelens.ingest.inputs import recognize
    from tracelens.run import attribute, options_from

    def attributed(files: Sequence[Path], options: Mapping[str, Any]) -> Mapping[str, Any]:
        with attribute(list(files), **options) as run:
            return run.to_dict()

    # Said once, before the first run, not by every run of the night.
    options_from({name: value for name, value in options.items() if name != "max_memory"})
    report = run_batch(
        paths,
        lake,
        options,
        attribute=attributed,
        recognize=lambda path: recognize(path) is not None,
        progress=lambda row: show(_line(row)),
    )
    show(report.summary)


def _line(row: "RunRow") -> str:
    from tracelens.report.plain_text import printable

    return printable(f"{row.status:10s} {row.name}  {_outcome(row)}")


def _outcome(row: "RunRow") -> str:
    """Say MFU or a bound of it, and where there is no MFU, why."""
    from tracelens.report.headline import mfu_figure

    if row.status != "ok":
        return row.message
    known = mfu_figure({"mfu": {"value": row.mfu, "low": row.mfu_low, "scope": None}})
    return f"{known}: {row.mfu_reason}" if row.mfu is None and row.mfu_reason else known
