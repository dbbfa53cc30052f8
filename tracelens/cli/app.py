"""Registers the commands."""

from typing import Annotated

import typer

from tracelens.cli import attribute, batch, flops, report, simulate, sql

app = typer.Typer(
    name="tracelens",
    help="Where every point of MFU went: exact attribution of GPU training traces.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(show: bool) -> None:
    if show:
        from tracelens.store.database import version

        typer.echo(f"tracelens {version()}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Where every point of MFU went: exact attribution of GPU training traces."""


app.command("attribute")(attribute.attribute)
app.command("report")(report.report)
app.command("batch")(batch.batch)
app.command("flops")(flops.flops)
app.command("sql")(sql.sql)
app.command("simulate")(simulate.simulate)
