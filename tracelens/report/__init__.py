"""The answer as data, as text for a terminal, as a page and as a figure; nothing else draws.

Importing this package loads neither plotly nor jinja2: the functions that draw import them.
"""

from tracelens.report.document import document
from tracelens.report.figure import waterfall_figure
from tracelens.report.gallery import draw
from tracelens.report.html import save_html
from tracelens.report.json_text import dumps
from tracelens.report.perfetto import save_perfetto
from tracelens.report.rows_text import table_text
from tracelens.report.terminal import render

__all__ = [
    "document",
    "draw",
    "dumps",
    "render",
    "save_html",
    "save_perfetto",
    "table_text",
    "waterfall_figure",
]
