"""``tracelens attribute``: the main job."""

import os
import shutil
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from tracelens.cli import settings
from tracelens.cli.compat import print_compat
from tracelens.cli.output import show, show_data
from tracelens.cli.progress import watched_run
from tracelens.errors import UsageError

_COLUMNS, _LEAST_COLUMNS = 100, 60


@settings.takes_analysis
def attribute(
    traces: settings.Traces,
    options: dict[str, Any],
    json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the self-contained HTML report.")
    ] = None,
    perfetto: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write one labelled step for ui.perfetto.dev."),
    ] = None,
    store: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Keep the database for tracelens sql.")
    ] = None,
    all_rows: Annotated[bool, typer.Option("--all", help="Show every loss.")] = False,
    quiet: settings.Quiet = False,
    no_color: Annotated[bool, typer.Option("--no-color", help="Plain text.")] = False,
    compat: Annotated[
        str | None,
        typer.Option(metavar="TOOL", help="Print another tool's figures instead: hta (HTA 0.5.0)."),
    ] = None,
) -> None:
    """Attribute every nanosecond of every GPU and close the account from peak to MFU."""
    if compat is not None:
        if any(file is not None for file in (html, perfetto, store)):
            raise UsageError(
                "--compat prints figures only: leave out --html, --perfetto and --store"
            )
        print_compat(traces, compat, as_json=json)
        return
    from tracelens.run import check_page, check_perfetto

    if html is not None:
        check_page(html)
    if perfetto is not None:
        check_perfetto(perfetto)
    with watched_run(traces, options, store=store, quiet=quiet) as run:
        if html is not None:
            run.save_html(html)
        if perfetto is not None:
            run.save_perfetto(perfetto)
        if json:
            from tracelens.report import dumps

            show_data(dumps(run.to_dict()) + "\n")
        elif not quiet:
            show(run.render(all_rows=all_rows, color=_color(no_color), width=_width()))


def _width() -> int:
    """Return the columns of a terminal that is narrow; a file or a pipe gets them all."""
    if not sys.stdout.isatty():
        return _COLUMNS
    return max(_LEAST_COLUMNS, min(_COLUMNS, shutil.get_terminal_size((_COLUMNS, 40)).columns))


def _color(no_color: bool) -> bool:
    return not no_color and sys.stdout.isatty() and "NO_COLOR" not in os.environ
