"""Which tables can be taken from the page, as files inside of links?"""

import base64
import csv
import io
from typing import Any, NamedTuple

from tracelens.report.json_text import dumps
from tracelens.report.plain_text import printable
from tracelens.store import Store

_MOST_BYTES = 250_000

# Small tables that sum up; the segments themselves are millions, and come with --store.
_TABLES = {
    "loss_time": "SELECT * FROM loss_time ORDER BY rank, step, leaf",
    "kernel": "SELECT * FROM kernel ORDER BY total_ns DESC, rank, name, class LIMIT 500",
    "step": "SELECT * FROM step ORDER BY rank, start_ns",
}


class Download(NamedTuple):
    """One file.

    Attributes:
        name: file name.
        link: the file as a data link.
        size_bytes: of the file.
    """

    name: str
    link: str
    size_bytes: int


def downloads(store: Store, document: dict[str, Any]) -> tuple[list[Download], list[str]]:
    """Return the files, and the names of those that are too large for a page."""
    files = [
        ("losses.csv", "text/csv", _losses_csv(document)),
        ("answer.json", "application/json", (dumps(document, indent=None) + "\n").encode()),
    ]
    for name, query in _TABLES.items():
        files.append((f"{name}.parquet", "application/vnd.apache.parquet", _parquet(store, query)))
    small = [
        Download(name, f"data:{kind};base64,{base64.b64encode(body).decode('ascii')}", len(body))
        for name, kind, body in files
        if len(body) <= _MOST_BYTES
    ]
    return small, [name for name, _, body in files if len(body) > _MOST_BYTES]


def _losses_csv(document: dict[str, Any]) -> bytes:
    """Write the losses; a text that a spreadsheet would run as a formula is quoted."""
    columns = ("id", "label", "share_points", "recoverable_points", "tag", "confidence", "advice")
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*columns, "evidence", "rank", "viewer_time"])
    for row in document["losses"]:
        top = row["evidence"][0] if row["evidence"] else {}
        more = (top.get("text"), top.get("rank"), top.get("viewer_time"))
        writer.writerow([_cell(value) for value in (*(row[name] for name in columns), *more)])
    return text.getvalue().encode()


def _cell(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    clean = printable(value)
    return f"'{clean}" if clean.startswith(("=", "+", "-", "@")) else clean


def _parquet(store: Store, query: str) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(store.arrow(query), sink, compression="none")
    return bytes(sink.getvalue().to_pybytes())
