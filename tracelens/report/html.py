"""What does the answer look like as one self-contained page that needs no network?"""

import base64
import gzip
from functools import cache
from pathlib import Path
from typing import Any

from tracelens.report.bars import bars, printed_shares
from tracelens.report.figure import DIV_ID, waterfall_figure
from tracelens.report.headline import (
    mfu_figure,
    mfu_reason,
    option_notes,
    other_definitions,
    percent,
    subject,
)
from tracelens.report.json_text import dumps_for_script
from tracelens.report.ladder_rows import ladder_rows, shape_rows
from tracelens.report.limits import limits
from tracelens.report.loss_table import has_gains
from tracelens.report.page_rows import composition, heat_rows
from tracelens.report.plain_text import printable, shorten
from tracelens.report.rounding import tenths_text, tera_text
from tracelens.report.sections.waterfall import slice_of_loss
from tracelens.report.tables import kernels
from tracelens.report.trust import trust
from tracelens.store import Store
from tracelens.units import format_duration

_NAME_COLUMNS = 110


def save_html(document: dict[str, Any], store: Store, path: Path) -> None:
    """Write the page; equal answers give equal bytes.

    Args:
        document: the answer.
        store: where the kernels table comes from.
        path: file to write; its folder must exist.
    """
    path.write_text(page(document, store), encoding="utf-8", newline="\n")


def page(document: dict[str, Any], store: Store) -> str:
    """Return the page as text."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("tracelens.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "duration": format_duration,
        "percent": percent,
        "tera": tera_text,
        "tenths": tenths_text,
        "points": _points,
        "name": lambda text: shorten(text, _NAME_COLUMNS),
        "clean": printable,
    }
    return environment.get_template("report.html").render(_context(document, store)) + "\n"


def _context(document: dict[str, Any], store: Store) -> dict[str, Any]:
    single_rank = len(document["run"]["ranks"]) == 1
    figure = waterfall_figure(document).to_plotly_json()
    return {
        "document": document,
        "subject": subject(document),
        "mfu_figure": mfu_figure(document),
        "mfu_reason": mfu_reason(document),
        "option_notes": option_notes(document),
        "other_definitions": other_definitions(document),
        "trust": trust(document),
        "bars": bars(document),
        "shares": printed_shares(document),
        "has_gains": has_gains(document),
        "limits": limits(document),
        "composition": composition(document),
        "per_rank": heat_rows(document, "per_rank"),
        "per_step": heat_rows(document, "per_step"),
        "kernels": kernels(store, document),
        "ladder": ladder_rows(document),
        "ladder_shapes": shape_rows(document),
        "slices": {
            row["id"]: slice_of_loss(row["id"], single_rank=single_rank)
            for row in document["losses"]
        },
        "div_id": DIV_ID,
        "figure_json": dumps_for_script({"data": figure["data"], "layout": figure["layout"]}),
        "plotly_gzip_base64": _plotly_gzip_base64(),
    }


@cache
def _plotly_gzip_base64() -> str:
    """Pack plotly.js: 4.8 MB become 2.0 MB, and no text in it can end the script element."""
    from plotly.offline import get_plotlyjs

    packed = gzip.compress(get_plotlyjs().encode(), compresslevel=9, mtime=0)
    return base64.b64encode(packed).decode("ascii")


def _points(value: float) -> str:
    return tenths_text(round(value * 10))
