"""``tracelens sql``: read-only SQL over the public views of a kept store."""

import enum
import sys
from pathlib import Path
from typing import Annotated

import typer

from tracelens.errors import UsageError


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

    with Store.open(store) as database:
        rows = database.user_query(query)
    if format == Format.parquet:
        import pyarrow.parquet

        if output is None:
            raise UsageError("--format parquet needs --output FILE")
        pyarrow.parquet.write_table(rows, output)
        return
    text = table_text(rows, format.value)
    if output is not None:
        output.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
