"""How are the rows of a query printed: as a table, as CSV or as JSON?"""

import csv
import io
import math
from typing import TYPE_CHECKING, Any

from tracelens.errors import UsageError
from tracelens.report.json_text import dumps
from tracelens.report.plain_text import pad, printable, width_of

if TYPE_CHECKING:
    import pyarrow as pa

_MOST_COLUMNS = 60


def table_text(rows: "pa.Table", form: str) -> str:
    """Write rows as text that is safe on a terminal.

    JSON is exact. CSV and tables show control characters of hostile names by their escapes; a table
    also cuts cells to 60 columns.

    Args:
        rows: result of a query.
        form: ``table``, ``csv`` or ``json``.

    Raises:
        UsageError: if columns of one name cannot be told apart in JSON.
        ValueError: for another form.
    """
    # By position: two columns of a query may have one name.
    columns = [column.to_pylist() for column in rows.columns]
    lines = list(zip(*columns, strict=True))
    if form == "json":
        names = rows.column_names
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise UsageError(
                f"two columns are called {', '.join(twice)}: an object of JSON cannot hold both",
                hint="name them apart with AS",
            )
        items = [{n: _plain(v) for n, v in zip(names, line, strict=True)} for line in lines]
        return dumps(items) + "\n"
    cells = [[_cell(value) for value in line] for line in lines]
    header = [printable(name) for name in rows.column_names]
    if form == "csv":
        buffer = io.StringIO()
        csv.writer(buffer, lineterminator="\n").writerows([header, *cells])
        return buffer.getvalue()
    if form != "table":
        raise ValueError(f"no form {form!r}")
    numeric = [_is_numeric(kind) for kind in rows.schema.types]
    return _aligned(header, cells, numeric)


def _aligned(header: list[str], cells: list[list[str]], numeric: list[bool]) -> str:
    lines = [header, *cells]
    widths = [
        min(_MOST_COLUMNS, max(width_of(line[i]) for line in lines)) for i in range(len(header))
    ]
    lines.insert(1, ["─" * width for width in widths])
    return "".join(
        "  ".join(
            text.rjust(width) if right else pad(text, width)
            for text, width, right in zip(line, widths, numeric, strict=True)
        ).rstrip()
        + "\n"
        for line in lines
    )


def _is_numeric(kind: "pa.DataType") -> bool:
    import pyarrow as pa

    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )


def _cell(value: Any) -> str:
    return "" if value is None else printable(str(value))


def _plain(value: Any) -> Any:
    """Return what JSON can hold: no NaN or infinity; text for kinds that JSON lacks."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return value if value is None or isinstance(value, bool | int | str) else str(value)
