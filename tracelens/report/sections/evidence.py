"""Which instances show a loss best, and where does the profiler's own viewer show them?"""

from collections import defaultdict
from collections.abc import Mapping
from importlib import resources
from typing import Any

from tracelens.report.plain_text import shorten
from tracelens.report.rounding import tera_text, two_digits
from tracelens.store import Store
from tracelens.units import NS_PER_S, format_duration

_NAME_COLUMNS = 60
_SHORT_NAME_COLUMNS = 20  # idle time: the launch that came late has to fit the line too
_NS_PER_MICROSECOND = 1000

# The pieces of a leaf that one activity owns, or ended, are one instance. Structs compare field by
# field, so the aggregate keeps the same instances in whatever order the rows are scanned. Of a
# kernel below peak the time lost counts, not the time it took.
_LARGEST = """
WITH instance AS (
    SELECT gpu, leaf, activity_id, max(call_id) AS call_id, arg_max(detail, end_ns) AS detail,
        sum(end_ns - start_ns)::BIGINT AS dur_ns, min(start_ns) AS start_ns, max(end_ns) AS end_ns
    FROM raw.segment
    GROUP BY gpu, leaf, activity_id, CASE WHEN activity_id IS NULL THEN start_ns END
), scored AS (
    SELECT i.*, CASE
        WHEN leaf NOT LIKE 'flop.%' OR $1::DOUBLE IS NULL THEN dur_ns
        WHEN f.executed_flop IS NULL THEN 0
        ELSE greatest(dur_ns - f.executed_flop / $1::DOUBLE * 1e9, 0)::BIGINT
        END AS lost_ns
    FROM instance AS i LEFT JOIN raw.activity_flop AS f
        ON f.activity_id = i.activity_id AND i.leaf LIKE 'flop.%'
), best AS (
    SELECT leaf, unnest(max({'lost': lost_ns, 'dur': dur_ns, 'start': -start_ns, 'gpu': gpu,
        'end': end_ns, 'activity': activity_id, 'call': call_id, 'detail': detail}, 3)) AS top
    FROM scored GROUP BY leaf
)
SELECT b.leaf, g.rank, -b.top.start AS start_ns, b.top."end" AS end_ns, b.top.dur AS dur_ns,
    n.name, a.process, a.stream, a.correlation, b.top.detail AS detail,
    cn.name AS call_name, c.start_ns AS call_start_ns, f.executed_flop,
    i.viewer_zero_ns, i.format
FROM best AS b
JOIN raw.gpu AS g ON g.gpu = b.top.gpu
JOIN raw.input AS i ON i.input = g.input
LEFT JOIN raw.activity AS a ON a.activity_id = b.top.activity
LEFT JOIN raw.name AS n ON n.name_id = a.name_id
LEFT JOIN raw.host_call AS c ON c.call_id = b.top.call
LEFT JOIN raw.name AS cn ON cn.name_id = c.name_id
LEFT JOIN raw.activity_flop AS f ON f.activity_id = b.top.activity
ORDER BY b.leaf, b.top.lost DESC, dur_ns DESC, start_ns, g.rank
"""

_FLOP_LEAVES = {
    "below_peak.gemm": ("flop.gemm",),
    "below_peak.conv": ("flop.conv",),
    "below_peak.attention": ("flop.attn",),
    "below_peak.recompute": ("flop.recompute.gemm", "flop.recompute.attn", "flop.recompute"),
    "recompute_flop": ("flop.recompute.gemm", "flop.recompute.attn", "flop.recompute"),
    "attention_backward_recompute": ("flop.attn",),
}
_NOWHERE = frozenset(
    {"residual", "convention_credit", "padding", "ineff.unshaped", "ineff.window_edge"}
)
"""Differences between two counts: no instance shows them."""
_ANY_FLOP_LEAF = ("flop.gemm", "flop.conv", "flop.attn", "flop.recompute")


def largest(store: Store, peak_flop_per_s: float | None) -> dict[str, list[dict[str, Any]]]:
    """Return the largest instances of every leaf, as evidence, largest first."""
    steps = resources.files("tracelens.report.sections").joinpath("ladder_evidence.sql")
    rows = store.records(_LARGEST, [peak_flop_per_s]) + store.records(steps.read_text("utf-8"))
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        first = not found[row["leaf"]]
        found[row["leaf"]].append(_evidence(row, peak_flop_per_s, first=first))
    return dict(found)


def evidence_of(loss: str, by_leaf: Mapping[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return the evidence of a loss: of its leaf, or of the FLOP-bearing leaves behind it."""
    if loss in by_leaf:
        return by_leaf[loss]
    if loss in _NOWHERE:
        return []
    head = ".".join(loss.split(".")[:2])
    for leaf in _FLOP_LEAVES.get(head, ()) or _ANY_FLOP_LEAF:
        if leaf in by_leaf:
            return by_leaf[leaf]
    return []


def viewer_time(at_ns: int, zero_ns: int | None, trace_format: str | None) -> str | None:
    """Return a time as the profiler's own viewer shows it, cut (not rounded) to a microsecond."""
    if zero_ns is None:
        return None
    viewer = "nsys-ui" if (trace_format or "").startswith("nsys") else "Perfetto"
    sign = "-" if at_ns < zero_ns else ""
    seconds, rest_ns = divmod(abs(at_ns - zero_ns), NS_PER_S)
    return f"{sign}{seconds}.{rest_ns // _NS_PER_MICROSECOND:06d} s in {viewer}"


def _evidence(
    row: Mapping[str, Any], peak_flop_per_s: float | None, *, first: bool
) -> dict[str, Any]:
    return {
        "text": _text(row, peak_flop_per_s, first=first),
        "rank": row["rank"],
        "start_ns": row["start_ns"],
        "end_ns": row["end_ns"],
        "name": row["name"],
        "process": row["process"],
        "stream": row["stream"],
        "correlation": row["correlation"],
        "viewer_time": viewer_time(row["start_ns"], row["viewer_zero_ns"], row["format"]),
    }


def _text(row: Mapping[str, Any], peak_flop_per_s: float | None, *, first: bool) -> str:
    root = row["leaf"].partition(".")[0]
    if root == "ineff":
        return _step_text(row, peak_flop_per_s, first=first)
    head = f"{'largest' if first else 'next'}: {format_duration(row['dur_ns'])} on rank "
    head += str(row["rank"])
    if root in {"gap", "host", "idle"}:
        return head + _end_of_idle(row)
    if not row["name"]:
        return head
    name = shorten(row["name"], _NAME_COLUMNS)
    if root in {"comm", "mem"}:
        return f"{head}, exposed {name}"
    rate = _rate(row, peak_flop_per_s)
    return f"{head}, {rate} in {name}" if rate else f"{head}, {name}"


def _step_text(row: Mapping[str, Any], peak_flop_per_s: float | None, *, first: bool) -> str:
    head = f"{'largest' if first else 'next'}: {format_duration(row['lost_ns'])} of "
    head += f"{format_duration(row['dur_ns'])} on rank {row['rank']}"
    sizes = [str(row[size]) for size in ("m", "n", "k") if row[size]]
    product = f" {'×'.join(sizes)}" if sizes else ""
    if product and row["batch"] != 1:
        product += f" ×{row['batch']}"
    name = shorten(row["name"], _NAME_COLUMNS - len(product))
    return f"{head}, {_rate(row, peak_flop_per_s)} in {name}{product}"


def _end_of_idle(row: Mapping[str, Any]) -> str:
    name = shorten(row["name"], _SHORT_NAME_COLUMNS) if row["name"] else None
    text = f", ended by {name}" if name else ", nothing followed in the window"
    if row["call_name"]:
        text += f", launched by {shorten(row['call_name'], _SHORT_NAME_COLUMNS)}"
        late_ns = row["call_start_ns"] - row["start_ns"]
        text += f" {format_duration(late_ns)} late" if late_ns > 0 else ""
    return text + (f" ({shorten(row['detail'], _NAME_COLUMNS)})" if row["detail"] else "")


def _rate(row: Mapping[str, Any], peak_flop_per_s: float | None) -> str:
    is_flop = row["leaf"].startswith(("flop.", "ineff."))
    if not is_flop or not row["executed_flop"] or not row["dur_ns"]:
        return ""
    flop_per_s = row["executed_flop"] * NS_PER_S / row["dur_ns"]
    share = f" ({_percent(flop_per_s / peak_flop_per_s)} of peak)" if peak_flop_per_s else ""
    return f"{tera_text(flop_per_s)} TFLOP/s{share}"


def _percent(fraction: float) -> str:
    points = 100 * fraction
    return f"{points:.0f} %" if points >= 1 else f"{two_digits(points)} %"
