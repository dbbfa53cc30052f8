"""What does ui.perfetto.dev show of the labelled step, beside the trace that it came from?

The Chrome-trace format that Perfetto reads: one process a rank, one track with what every
nanosecond is charged to, one with waits and bubbles alone, one a stream; the evidence of the losses
as instants. Times count from where the trace itself begins, so that both windows show the same
figures. With several ranks they count from the start of the earliest file.
"""

from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from tracelens.report.json_text import dumps
from tracelens.report.representative import StepSpan, representative_step, same_step
from tracelens.report.sections.waterfall import title
from tracelens.store import Store
from tracelens.taxonomy import group_of_leaf

MARK = '{"otherData":{"writer":"TraceLens"'
"""How the file begins: nothing else may be overwritten by one."""

_CHARGED, _WAITS, _FIRST_STREAM = 1, 2, 3
_NS_PER_US = 1000
_WAITING = ("pp.bubble.",)


def save_perfetto(document: Mapping[str, Any], store: Store, path: Path) -> bool:
    """Write the representative step of every rank that has it.

    Args:
        document: the answer.
        store: where segments and activities come from.
        path: file to write; its folder must exist.

    Returns:
        Whether there was a step to write; the file is valid without one.
    """
    chosen = representative_step(store)
    with path.open("w", encoding="ascii", newline="\n") as file:
        file.write(f'{MARK},"step":{chosen.step if chosen else "null"}}},\n')
        file.write('"displayTimeUnit":"ns",\n"traceEvents":[\n')
        events = _events(document, store, same_step(store, chosen.step)) if chosen else iter(())
        separator = ""
        for event in events:
            file.write(f"{separator}{event}")
            separator = ",\n"
        file.write("\n]}\n")
    return chosen is not None


def _events(document: Mapping[str, Any], store: Store, spans: list[StepSpan]) -> Iterator[str]:
    zero_ns = min(span.start_ns if span.zero_ns is None else span.zero_ns for span in spans)
    single_rank = len(document["run"]["ranks"]) == 1
    for process, span in enumerate(spans, start=1):
        track = _Track(process, zero_ns)
        yield track.names(_CHARGED, "charged to", f"rank {span.rank}")
        yield track.names(_WAITS, "waits and bubbles")
        # An event where the recording begins: Perfetto counts its times from the first one.
        yield track.instant(zero_ns, "recording begins", {})
        yield from _segments(store, span, track, single_rank=single_rank)
        yield from _activities(store, span, track)
        yield from _evidence(document, span, track)


class _Track:
    """The events of one process, as text."""

    def __init__(self, process: int, zero_ns: int) -> None:
        self._process, self._zero_ns = process, zero_ns

    def names(self, thread: int, name: str, process_name: str | None = None) -> str:
        own = {"ph": "M", "pid": self._process, "tid": thread}
        rows = [
            {**own, "name": "thread_name", "args": {"name": name}},
            {**own, "name": "thread_sort_index", "args": {"sort_index": thread}},
        ]
        if process_name is not None:
            rows.append({**own, "name": "process_name", "args": {"name": process_name}})
        return ",\n".join(dumps(row, indent=None) for row in rows)

    def slice(
        self, thread: int, start_ns: int, end_ns: int, name: str, category: str, args: Any
    ) -> str:
        return (
            f'{{"ph":"X","pid":{self._process},"tid":{thread},"ts":{self._us(start_ns)},'
            f'"dur":{_decimal_us(end_ns - start_ns)},"name":{dumps(name)},'
            f'"cat":{dumps(category)},"args":{_args(args)}}}'
        )

    def instant(self, at_ns: int, name: str, args: Any) -> str:
        return (
            f'{{"ph":"i","s":"t","pid":{self._process},"tid":{_CHARGED},"ts":{self._us(at_ns)},'
            f'"name":{dumps(name)},"cat":"evidence","args":{_args(args)}}}'
        )

    def _us(self, at_ns: int) -> str:
        return _decimal_us(at_ns - self._zero_ns)


def _decimal_us(ns: int) -> str:
    """Return microseconds as exact decimal text: a float would not hold a nanosecond."""
    whole, rest = divmod(abs(ns), _NS_PER_US)
    return f"{'-' if ns < 0 else ''}{whole}.{rest:03d}"


def _args(values: Mapping[str, Any]) -> str:
    return dumps({name: value for name, value in values.items() if value is not None}, indent=None)


def _segments(store: Store, span: StepSpan, track: _Track, *, single_rank: bool) -> Iterator[str]:
    for row in _rows(store, "perfetto_segments.sql", span):
        leaf = row["leaf"]
        args = {
            "leaf": leaf,
            "dur_ns": row["end_ns"] - row["start_ns"],
            "activity": row["name"],
            "stream": row["stream"],
            "correlation": row["correlation"],
            "detail": row["detail"],
        }
        group = group_of_leaf(leaf, single_rank=single_rank)
        at = (row["start_ns"], row["end_ns"], title(leaf), group, args)
        yield track.slice(_CHARGED, *at)
        if leaf.endswith(".wait") or leaf.startswith(_WAITING):
            yield track.slice(_WAITS, *at)


def _activities(store: Store, span: StepSpan, track: _Track) -> Iterator[str]:
    threads: dict[Any, int] = {}
    for row in _rows(store, "perfetto_activities.sql", span):
        stream = row["stream"]
        if stream not in threads:
            threads[stream] = _FIRST_STREAM + len(threads)
            words = "no stream" if stream is None else f"stream {stream}"
            yield track.names(threads[stream], words)
        dur_ns, flop = row["end_ns"] - row["start_ns"], row["executed_flop"]
        args = {
            "class": row["class"],
            "dimension": row["dimension"],
            "correlation": row["correlation"],
            "executed_flop": flop,
            "tflop_per_s": round(flop / dur_ns / _NS_PER_US, 3) if flop else None,
            "recompute": row["recompute_rule"],
        }
        at = (row["start_ns"], row["end_ns"], row["name"], row["class"] or row["kind"], args)
        yield track.slice(threads[stream], *at)


def _evidence(document: Mapping[str, Any], span: StepSpan, track: _Track) -> Iterator[str]:
    for loss in document["losses"]:
        for item in loss["evidence"]:
            inside = span.start_ns <= item["start_ns"] < span.end_ns
            if item["rank"] == span.rank and inside:
                args = {
                    "loss": loss["id"],
                    "share_points": loss["share_points"],
                    "confidence": loss["confidence"],
                    "evidence": item["text"],
                    "advice": loss["advice"],
                }
                yield track.instant(item["start_ns"], loss["label"], args)


def _rows(store: Store, query: str, span: StepSpan) -> Iterator[dict[str, Any]]:
    """Return rows a batch at a time: a step may hold a hundred thousand kernels."""
    sql = resources.files("tracelens.report").joinpath(query).read_text("utf-8")
    for batch in store.arrow(sql, [span.gpu, span.start_ns, span.end_ns]).to_batches():
        yield from batch.to_pylist()
