"""What do the other figures look like: steps, ranks and kernels, in the colors of the waterfall?"""

import html
from typing import TYPE_CHECKING, Any

from tracelens.report.page_rows import HeatTable, heat_rows
from tracelens.report.plain_text import shorten

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_GRID = "rgba(128,136,146,0.22)"
_NAME_COLUMNS = 70
_CLASS_COLORS = {
    "gemm": "matmul",
    "conv": "matmul",
    "attention": "attention",
}
_MIN_MARKER, _MAX_MARKER = 7, 34


def composition_figure(document: dict[str, Any], table: str) -> "Figure":
    """Draw ``per_step`` or ``per_rank`` as stacked bars, in ms by group.

    With several ranks the bars of steps are those of the rank on which the run took longest.
    """
    from plotly.graph_objects import Figure

    rows = _rows_of(heat_rows(document, table), table)
    figure = Figure(layout={"template": "none"})
    for index in range(len(rows.groups)):
        shares = [row.shares[index] for row in rows.rows]
        figure.add_bar(
            name=shares[0].title,
            x=[str(row.step if table == "per_step" else row.rank) for row in rows.rows],
            y=[share.ns / 1e6 for share in shares],
            marker={"color": shares[0].color, "line": {"width": 0}},
            customdata=[[round(100 * share.frac, 2)] for share in shares],
            hovertemplate="%{fullData.name}: %{y:.3f} ms, %{customdata[0]} %<extra></extra>",
        )
    figure.update_layout(
        **_layout("step" if table == "per_step" else "rank", "ms"), barmode="stack"
    )
    figure.update_layout(xaxis={"type": "category"}, legend={"traceorder": "normal"})
    return figure


def kernel_figure(rows: list[dict[str, Any]]) -> "Figure":
    """Draw kernels with known rates: time owned against fraction of peak, area by time to gain."""
    from plotly.graph_objects import Figure

    from tracelens.taxonomy import GROUP_COLORS, GROUP_TITLES

    known = [row for row in rows if row["peak_frac"] is not None and row["owned_ns"]]
    lost = [max(0.0, row["owned_ns"] * (1 - row["peak_frac"])) for row in known]
    most = max(lost, default=0.0) or 1.0
    figure = Figure(layout={"template": "none"})
    for group in dict.fromkeys(_CLASS_COLORS.get(row["class"], "other_compute") for row in known):
        own = [
            (row, ns)
            for row, ns in zip(known, lost, strict=True)
            if _CLASS_COLORS.get(row["class"], "other_compute") == group
        ]
        figure.add_scatter(
            mode="markers",
            name=GROUP_TITLES[group],
            x=[row["owned_ns"] / 1e6 for row, _ in own],
            y=[100 * row["peak_frac"] for row, _ in own],
            marker={
                "color": GROUP_COLORS[group],
                "opacity": 0.8,
                "size": [
                    _MIN_MARKER + (_MAX_MARKER - _MIN_MARKER) * (ns / most) ** 0.5 for _, ns in own
                ],
            },
            text=[html.escape(shorten(row["name"], _NAME_COLUMNS)) for row, _ in own],
            hovertemplate="<b>%{text}</b><br>%{x:.3f} ms owned, %{y:.1f} % of peak<extra></extra>",
        )
    figure.update_layout(**_layout("time owned, ms", "% of peak"))
    figure.update_layout(yaxis={"range": [0, 105]}, xaxis={"rangemode": "tozero"})
    return figure


def _rows_of(table: HeatTable, name: str) -> HeatTable:
    """Keep one rank where the bars are steps: the one with the most time."""
    if name != "per_step":
        return table
    totals: dict[int, int] = {}
    for row in table.rows:
        totals[row.rank] = totals.get(row.rank, 0) + row.total_ns
    slowest = max(totals, key=lambda rank: (totals[rank], -rank), default=None)
    return table._replace(rows=tuple(row for row in table.rows if row.rank == slowest))


def _layout(x_title: str, y_title: str) -> dict[str, Any]:
    axis = {"gridcolor": _GRID, "zeroline": False, "fixedrange": True, "automargin": True}
    return {
        "height": 300,
        "margin": {"l": 56, "r": 12, "t": 8, "b": 44},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": "system-ui, sans-serif", "size": 12},
        "hoverlabel": {"align": "left"},
        "showlegend": True,
        "bargap": 0.25,
        "xaxis": {**axis, "title": {"text": x_title}},
        "yaxis": {**axis, "title": {"text": y_title}},
    }
