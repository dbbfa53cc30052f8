"""What does the waterfall look like as a Plotly figure?"""

import html
import textwrap
from typing import TYPE_CHECKING

from tracelens.report.bars import Bar, bars, scale_of
from tracelens.report.rounding import tenths_text

if TYPE_CHECKING:
    from typing import Any

    from plotly.graph_objects import Figure

DIV_ID = "tracelens-waterfall"
"""Fixed, so that equal answers give equal bytes."""

_ROW_PIXELS = 34
_MARGIN_PIXELS = 76
_LABEL_COLUMNS = 34
_LINE = "rgba(128,136,146,0.45)"
_GRID = "rgba(128,136,146,0.16)"


def waterfall_figure(document: "dict[str, Any]") -> "Figure":
    """Draw the waterfall: one horizontal bar an item, from the whole to the result.

    Colors are those of the taxonomy; the background is transparent, so that a page in light or dark
    can hold it.
    """
    from plotly.graph_objects import Figure

    drawn = bars(document)
    whole = round(scale_of(drawn) / 10)
    figure = Figure(layout={"template": "none"})
    figure.add_bar(
        orientation="h",
        y=list(range(len(drawn))),
        x=[abs(bar.tenths) / 10 for bar in drawn],
        base=[0 if bar.is_end else min(bar.level, bar.level - bar.tenths) / 10 for bar in drawn],
        marker={"color": [bar.color for bar in drawn], "line": {"width": 0}},
        text=[_points(bar) for bar in drawn],
        textposition="outside",
        cliponaxis=False,
        customdata=[[bar.item, html.escape(bar.label), _breakdown(bar)] for bar in drawn],
        hovertemplate="<b>%{customdata[1]}</b>  %{text} points%{customdata[2]}<extra></extra>",
    )
    figure.update_layout(
        height=_ROW_PIXELS * len(drawn) + _MARGIN_PIXELS,
        margin={"l": 8, "r": 48, "t": 8, "b": 52},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": "system-ui, sans-serif", "size": 13},
        bargap=0.34,
        showlegend=False,
        hoverlabel={"align": "left"},
        xaxis={
            "range": [0, 1.08 * whole],
            "tickvals": [whole * part / 5 for part in range(6)],
            "ticksuffix": " ",
            "gridcolor": _GRID,
            "zeroline": False,
            "fixedrange": True,
            "title": {"text": _unit(document), "font": {"size": 12}, "standoff": 12},
        },
        yaxis={
            "autorange": "reversed",
            "showgrid": False,
            "zeroline": False,
            "tickvals": list(range(len(drawn))),
            "ticktext": [_tick(bar.label) for bar in drawn],
            "automargin": True,
            "fixedrange": True,
            "ticks": "outside",
            "ticklen": 10,
            "tickcolor": "rgba(0,0,0,0)",
        },
        shapes=_connectors(drawn),
    )
    return figure


def _tick(label: str) -> str:
    """Break a long label: the bars need the width."""
    return "<br>".join(html.escape(line) for line in textwrap.wrap(label, _LABEL_COLUMNS))


def _points(bar: Bar) -> str:
    return tenths_text(bar.tenths, signed=not bar.is_end).replace("-", "−")


def _breakdown(bar: Bar) -> str:
    return "".join(
        f"<br>{tenths_text(tenths, signed=True)}  {html.escape(label)}".replace("-", "−", 1)
        for _, label, tenths in bar.parts
    )


def _unit(document: "dict[str, Any]") -> str:
    known = document["waterfall"] and document["waterfall"][-1]["id"] == "mfu"
    return "points of peak × time" if known else "percent of GPU time"


def _connectors(drawn: list[Bar]) -> "list[dict[str, Any]]":
    """Join neighboring bars at the level they share."""
    return [
        {
            "type": "line",
            "x0": bar.level / 10,
            "x1": bar.level / 10,
            "y0": row + 0.33,
            "y1": row + 0.67,
            "line": {"color": _LINE, "width": 1},
        }
        for row, bar in enumerate(drawn[:-1])
    ]
