"""What does the answer look like as one self-contained page that needs no network?"""

import base64
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from tracelens.report.advice import rules
from tracelens.report.bars import bars, printed_shares, scale_of
from tracelens.report.downloads import downloads
from tracelens.report.figure import DIV_ID, waterfall_figure
from tracelens.report.figures import composition_figure, kernel_figure
from tracelens.report.headline import (
    mfu_figure,
    mfu_reason,
    option_notes,
    other_definitions,
    percent,
    subject,
)
from tracelens.report.json_text import dumps, dumps_for_script
from tracelens.report.ladder_rows import ladder_rows, legend, shape_rows
from tracelens.report.limits import limits
from tracelens.report.page_rows import composition
from tracelens.report.page_tables import absent_pivots, components, conventions, pivots
from tracelens.report.plain_text import printable, shorten
from tracelens.report.rounding import tenths_text, tera_text
from tracelens.report.sections.waterfall import slice_of_loss
from tracelens.report.tables import kernels
from tracelens.report.timeline import timeline
from tracelens.report.trust import trust
from tracelens.store import Store
from tracelens.units import format_duration

_NAME_COLUMNS = 110
_SECTIONS = (
    ("waterfall", "Waterfall"),
    ("losses", "Losses"),
    ("timeline", "One step"),
    ("ladder", "Below the peak"),
    ("kernels", "Kernels"),
    ("collectives", "Collectives"),
    ("pivots", "Ranks and steps"),
    ("flops", "FLOPs"),
    ("method", "Method"),
    ("downloads", "Downloads"),
)


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
        "hours": _hours,
        "tojson_attribute": lambda value: dumps(value, indent=None),
    }
    return environment.get_template("report.html").render(_context(document, store)) + "\n"


def _context(document: dict[str, Any], store: Store) -> dict[str, Any]:
    single_rank = len(document["run"]["ranks"]) == 1
    table = kernels(store, document)
    files, too_large = downloads(store, document)
    step = timeline(store, document)
    return {
        "document": document,
        "subject": subject(document),
        "sections": [pair for pair in _SECTIONS if step or pair[0] != "timeline"],
        "mfu_figure": mfu_figure(document),
        "mfu_reason": mfu_reason(document),
        "option_notes": option_notes(document),
        "other_definitions": other_definitions(document),
        "trust": trust(document),
        "whys": {rule.id: rule.why.strip().split("\n\n") for rule in rules().values()},
        "bars": bars(document),
        "scale": scale_of(bars(document)),
        "shares": printed_shares(document),
        "gains": any(row["recoverable_points"] is not None for row in document["losses"]),
        "cost": document["cost"]["gpu_hours_per_day"] is not None,
        "limits": limits(document),
        "composition": composition(document),
        "pivots": pivots(document),
        "absent_pivots": absent_pivots(document),
        "kernels": table,
        "has_kernel_figure": any(row["peak_frac"] is not None for row in table),
        "ladder": ladder_rows(document),
        "ladder_shapes": shape_rows(document),
        "ladder_legend": legend(document),
        "conventions": conventions(document),
        "components": components(document),
        "downloads": files,
        "too_large": too_large,
        "timeline": step,
        "timeline_json": dumps_for_script(step),
        "slices": {
            row["id"]: slice_of_loss(row["id"], single_rank=single_rank)
            for row in document["losses"]
        },
        "div_id": DIV_ID,
        "figures_json": dumps_for_script(_figures(document, table)),
        "plotly_gzip_base64": _plotly_gzip_base64(),
    }


def _figures(document: dict[str, Any], table: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the figures by the element that holds them."""
    drawn = {DIV_ID: waterfall_figure(document)}
    for pivot in pivots(document):
        if pivot["figure"]:
            drawn[f"figure-{pivot['id']}"] = composition_figure(document, pivot["figure"])
    if any(row["peak_frac"] is not None for row in table):
        drawn["figure-kernels"] = kernel_figure(table)
    return {
        name: {key: figure.to_plotly_json()[key] for key in ("data", "layout")}
        for name, figure in drawn.items()
    }


@cache
def _plotly_gzip_base64() -> str:
    """Return the partial bundle of plotly.js as it is packed in the wheel.

    It is packed once and for all: other versions of zlib would give other bytes. No text in it can
    end the script element.
    """
    bundle = resources.files("tracelens.report").joinpath("vendor", "plotly-basic.min.js.gz")
    return base64.b64encode(bundle.read_bytes()).decode("ascii")


def _hours(value: float) -> str:
    return f"{value:,.0f} GPU-h" if value >= 10 else f"{value:.1f} GPU-h"


def _points(value: float) -> str:
    return tenths_text(round(value * 10))
