"""``tracelens sql``: read-only SQL over the public views of a kept store."""

import enum
from pathlib import Path
from typing import Annotated

import typer

from tracelens.cli.output import show, show_data
from tracelens.errors import UsageError, writing


class Format(enum.StrEnum):
    """How rows are printed."""

    table = "table"
    csv = "csv"
    json = "json"
    parquet = "parquet"


def sql(
    store: Annotated[Path, typer.Argument(help="A store kept with attribute --store.")],
    query: Annotated[str, typer.Argument(help="One SELECT over the public views.")],
    format: Annotated[Format, typer.Option(help="Output format.")] = Format.table,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write here; needed for parquet.")
    ] = None,
) -> None:
    """Query a store. Views: activity, kernel, segment, loss_time, collective, step, rank, ..."""
    from tracelens.report import table_text
    from tracelens.store import Store

    if format == Format.parquet and output is None:
        raise UsageError("--format parquet needs --output FILE")
    if output is not None:
        _check_output(output)
    with Store.open(store) as database:
        rows = database.user_query(query)
    if output is None:
        text = table_text(rows, format.value)
        if format == Format.table:
            show(text.removesuffix("\n"))
        else:
            show_data(text)
        return
    with writing(output):
        if format == Format.parquet:
            import pyarrow.parquet

            pyarrow.parquet.write_table(rows, output)
        else:
            output.write_text(table_text(rows, format.value), encoding="utf-8")


def _check_output(output: Path) -> None:
    from tracelens.store import Store

    with writing(output):
        if output.is_file() and Store.is_store(output):
            raise UsageError(f"{output}: is a TraceLens store; not overwritten")
