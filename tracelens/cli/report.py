"""``tracelens report``: the HTML report of a trace or of a kept store."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tracelens.cli import settings
from tracelens.cli.output import show
from tracelens.cli.progress import watched_run
from tracelens.errors import UsageError

if TYPE_CHECKING:
    from tracelens.run import Run


@settings.takes_analysis
def report(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="STORE_OR_TRACE...",
            help="A store kept with --store, or traces.",
            show_default=False,
        ),
    ],
    options: dict[str, Any],
    html: Annotated[Path, typer.Option(metavar="FILE", help="Where the report goes.")],
    quiet: settings.Quiet = False,
) -> None:
    """Write the self-contained HTML loss-waterfall report."""
    from tracelens.run import check_page

    check_page(html)
    with _run(sources, options, quiet=quiet) as run:
        run.save_html(html)
    if not quiet:
        show(str(html))


def _run(sources: list[str], options: dict[str, Any], *, quiet: bool) -> "Run":
    from tracelens.run import Run
    from tracelens.store import Store

    first = Path(sources[0])
    if len(sources) > 1 or not first.is_file() or not Store.is_store(first):
        return watched_run(sources, options, quiet=quiet)
    if options:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in options)
        raise UsageError(
            f"{first}: a store is analysed already; {names} would change nothing",
            hint="give the options with the traces: tracelens attribute TRACE --store FILE",
        )
    return Run.open(first)
