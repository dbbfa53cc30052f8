"""What ran in one representative step, in lanes, small enough to travel inside a page?"""

from collections.abc import Mapping
from importlib import resources
from typing import Any

from tracelens.report.plain_text import shorten
from tracelens.report.representative import representative_step
from tracelens.report.sections.waterfall import title
from tracelens.store import Store
from tracelens.taxonomy import GROUP_COLORS, group_of_leaf

MOST_INTERVALS = 100_000
_NAME_COLUMNS = 100
_WORST, _WORST_OF_A_KIND = 8, 2
_LANES = ("charged", "matmul", "compute", "opaque", "comm", "mem", "idle")
_TITLES = {
    "charged": "charged to",
    "matmul": "matmul, attention",
    "compute": "other compute",
    "opaque": "CUDA graphs",
    "mem": "copies",
    "idle": "idle, by cause",
}


def timeline(store: Store, document: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the step of median duration of the lowest rank.

    Returns:
        ``rank``, ``step``, ``total_ns``, ``offset_ns`` (start on the clock of the profiler's own
        ``viewer``, as text: it may exceed what a script can hold; null where not known),
        ``names``, ``colors``, ``left_out`` and ``lanes``. A lane has parallel lists, in the order
        of starts: ``gap`` (ns since the end of the one before, may be negative), ``dur`` (ns),
        ``name`` and ``color`` (indices), ``stream`` and ``correlation`` (empty for idle time).
        ``worst`` lists the longest intervals that are no useful work. ``None`` without a window.
    """
    chosen = representative_step(store)
    if chosen is None:
        return None
    single_rank = len(document["run"]["ranks"]) == 1
    sql = resources.files("tracelens.report").joinpath("timeline.sql").read_text("utf-8")
    span = [chosen.gpu, chosen.start_ns, chosen.end_ns]
    rows = store.records(sql, [*span, MOST_INTERVALS])
    total = store.scalar(f"SELECT count(*) FROM ({sql})", [*span, 1 << 40])
    lanes, names, colors = _packed(rows, chosen.start_ns, single_rank=single_rank)
    return {
        "rank": chosen.rank,
        "step": chosen.step,
        "total_ns": chosen.end_ns - chosen.start_ns,
        "offset_ns": None if chosen.zero_ns is None else str(chosen.start_ns - chosen.zero_ns),
        "viewer": chosen.viewer,
        "names": names,
        "colors": colors,
        "left_out": total - len(rows),
        "lanes": lanes,
        "worst": _worst(store, span),
    }


def _worst(store: Store, span: list[int]) -> list[dict[str, Any]]:
    """Return the longest losses, of each kind the two longest."""
    rows = store.records(
        "SELECT start_ns, end_ns, leaf FROM raw.segment "
        "WHERE gpu = $1 AND start_ns < $3 AND end_ns > $2 "
        "AND split_part(leaf, '.', 1) NOT IN ('flop', 'compute') "
        "AND end_ns - start_ns >= ($3 - $2) / 1000 "
        "QUALIFY row_number() OVER "
        f"(PARTITION BY leaf ORDER BY end_ns - start_ns DESC, start_ns) <= {_WORST_OF_A_KIND} "
        f"ORDER BY end_ns - start_ns DESC, start_ns LIMIT {_WORST}",
        span,
    )
    return [
        {
            "title": title(row["leaf"]),
            "start": row["start_ns"] - span[1],
            "dur": row["end_ns"] - row["start_ns"],
        }
        for row in rows
    ]


def _packed(
    rows: list[dict[str, Any]], start_ns: int, *, single_rank: bool
) -> tuple[list[dict[str, Any]], list[str], list[str]]:
    names: dict[str, int] = {}
    colors: dict[str, int] = {}
    lanes: dict[str, dict[str, Any]] = {}
    ends: dict[str, int] = {}
    for row in rows:
        key = row["lane"]
        lane = lanes.setdefault(key, _lane(key))
        name = title(row["leaf"]) if row["name"] is None else shorten(row["name"], _NAME_COLUMNS)
        color = GROUP_COLORS[group_of_leaf(row["leaf"], single_rank=single_rank)]
        begin = row["start_ns"] - start_ns
        lane["gap"].append(begin - ends.get(key, 0))
        lane["dur"].append(row["end_ns"] - row["start_ns"])
        lane["name"].append(names.setdefault(name, len(names)))
        lane["color"].append(colors.setdefault(color, len(colors)))
        if key != "idle":
            lane["stream"].append(row["stream"])
            lane["correlation"].append(row["correlation"])
        ends[key] = row["end_ns"] - start_ns
    order = sorted(lanes, key=lambda key: (_LANES.index(key.partition(" ")[0]), key))
    return [lanes[key] for key in order], list(names), list(colors)


def _lane(key: str) -> dict[str, Any]:
    kind, _, dimension = key.partition(" ")
    words = _TITLES.get(kind) or f"communication {dimension}"
    columns = ("gap", "dur", "name", "color", "stream", "correlation")
    return {"title": words, **{column: [] for column in columns}}
