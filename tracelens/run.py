"""The analysed run as a Python object: figures, tables, reports."""

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from tracelens.errors import UsageError, writing
from tracelens.flops import FlopsOptions
from tracelens.ingest import ImportOptions
from tracelens.pipeline import Options, analyze
from tracelens.store import Store
from tracelens.views import VIEWS

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go
    import pyarrow as pa

_FLOPS_FIELDS = frozenset(FlopsOptions.__dataclass_fields__) - {"from_log"}
_READING_FIELDS = frozenset({"nsys", "with_stacks"})
_OWN_FIELDS = frozenset({"window", "rank_pattern", "gpu_hour_price"})
_TEXT_FIELDS = {"window", "rank_pattern"} | {"convention", "dtype", "gpu"}
_ALIASES = {"sm_clock": "sm_clock_mhz"}
"""Options of the command line whose field carries its unit."""
_HEAD_BYTES = 256


class Run:
    """An analysed run.

    Args:
        store: a store that the pipeline has filled.
        answer: what ``to_dict`` returns, where it is known already.
    """

    def __init__(self, store: Store, answer: dict[str, Any] | None = None) -> None:
        from tracelens.report import document

        self._store = store
        self._document = document(store) if answer is None else answer

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Open a store that was kept with ``--store``.

        Raises:
            InputError: if it is no store of this version.
        """
        store = Store.open(Path(path))
        with store.guarded():
            return cls(store)

    @property
    def mfu(self) -> float | None:
        """Model FLOPs utilization, 0 to 1, or ``None`` where it cannot be known."""
        value: float | None = self._document["mfu"]["value"]
        return value

    def waterfall(self) -> list[dict[str, Any]]:
        """Return the steps from 100 % of peak down to the MFU, in points."""
        rows: list[dict[str, Any]] = self._document["waterfall"]
        return rows

    def losses(self) -> list[dict[str, Any]]:
        """Return the losses, the largest first, with evidence."""
        rows: list[dict[str, Any]] = self._document["losses"]
        return rows

    def to_dict(self) -> dict[str, Any]:
        """Return what ``tracelens attribute --json`` prints."""
        return self._document

    def sql(self, query: str) -> "pa.Table":
        """Run one SELECT over the public views.

        Raises:
            UsageError: if the query fails or is not a single SELECT.
        """
        return self._store.user_query(query)

    def to_pandas(self, view: str) -> "pd.DataFrame":
        """Return a public view as a DataFrame.

        Raises:
            UsageError: if there is no such view.
        """
        if view not in VIEWS:
            raise UsageError(f"no view {view!r}", hint=f"views: {', '.join(VIEWS)}")
        frame: pd.DataFrame = self._store.user_query(f"SELECT * FROM {view}").to_pandas()
        return frame

    def figure(self, name: str = "waterfall") -> "go.Figure":
        """Return a Plotly figure: ``waterfall``, ``steps``, ``ranks`` or ``kernels``.

        Raises:
            UsageError: if there is no such figure.
        """
        from tracelens.report import draw

        return draw(name, self._document, self._store)

    def save_html(self, path: str | Path) -> None:
        """Write the self-contained report.

        Raises:
            UsageError: if the file cannot be written, or is another thing than a page.
        """
        from tracelens.report import save_html

        page = Path(path)
        check_page(page)
        with writing(page):
            save_html(self._document, self._store, page)

    def save_perfetto(self, path: str | Path) -> None:
        """Write one labelled step, of every rank, for ui.perfetto.dev.

        Raises:
            UsageError: if the file cannot be written, or is another thing than such an export.
        """
        from tracelens.report import save_perfetto

        target = Path(path)
        check_perfetto(target)
        with writing(target):
            save_perfetto(self._document, self._store, target)

    def render(self, *, all_rows: bool = False, color: bool = False, width: int = 100) -> str:
        """Return the report as text for a terminal."""
        from tracelens.report import render

        return render(self._document, all_rows=all_rows, color=color, width=width)

    def close(self) -> None:
        """Close the database."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return self.render()

    def _repr_html_(self) -> str:
        html: str = self.figure().to_html(include_plotlyjs=True, full_html=False)
        return html


def attribute(
    traces: str | Path | Sequence[str | Path],
    *,
    store: str | Path | None = None,
    max_memory: str | None = None,
    **options: Any,
) -> Run:
    """Attribute one run: the library form of ``tracelens attribute``.

    Args:
        traces: a file, folder or glob, or several; several files are the ranks of one run.
        store: file that keeps the database; in memory when left out.
        max_memory: memory limit of the database, e.g. ``"4GB"``.
        **options: as on the command line, with underscores: ``model``, ``seq_len``,
            ``tokens_per_step``, ``window``, ``gpu``, ``peak``, ``dtype``, ``convention``, ...

    Returns:
        The analysed run.

    Raises:
        TraceLensError: of the kind that says what is wrong and what to do.
    """
    paths = [traces] if isinstance(traces, str | Path) else list(traces)
    kept = None if store is None else Path(store)
    return analyzed(paths, options_from(options), store=kept, max_memory=max_memory)


def analyzed(
    traces: Sequence[str | Path],
    options: Options,
    *,
    store: Path | None = None,
    max_memory: str | None = None,
) -> Run:
    """Run an analysis; a store is built beside the one it replaces, which a failure leaves alone.

    Raises:
        TraceLensError: of the kind that says what is wrong and what to do.
    """
    if store is None:
        return _filled(traces, options, Store(max_memory=max_memory))
    target = _target_of_store(store)
    if options.reading.cache_dir is None:
        reading = replace(options.reading, cache_dir=target.parent)
        options = replace(options, reading=reading)
    # A folder of its own also takes what DuckDB writes beside a database.
    with writing(store):
        folder = Path(tempfile.mkdtemp(prefix=".tracelens-", dir=target.parent))
    try:
        part = folder / "store"
        run = _filled(traces, options, Store(part, max_memory=max_memory))
        run.close()
        with writing(store):
            part.replace(target)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return Run(Store.open(target), run.to_dict())


def _filled(traces: Sequence[str | Path], options: Options, store: Store) -> Run:
    try:
        with store.guarded():
            analyze(traces, store, options)
            return Run(store)
    except BaseException:
        store.close()
        raise


def _target_of_store(path: Path) -> Path:
    """Return where a store goes; an existing store is replaced, any other file is refused."""
    with writing(path):
        _check_folder(path)
        if path.exists() and not Store.is_store(path):
            raise UsageError(f"{path}: exists and is not a TraceLens store; not overwritten")
        return path.resolve()


def check_page(path: Path) -> None:
    """Refuse a place for a report where it cannot be written or would destroy another file.

    Raises:
        UsageError: with the reason.
    """
    _check_replaces(path, (b"<!doctype html", b"<html"), "an HTML page")


def check_perfetto(path: Path) -> None:
    """Refuse a place for a Perfetto export as ``check_page`` does: above all, a trace.

    Raises:
        UsageError: with the reason.
    """
    from tracelens.report.perfetto import MARK

    _check_replaces(path, (MARK.lower().encode(),), "a Perfetto export of TraceLens")


def _check_replaces(path: Path, starts: tuple[bytes, ...], kind: str) -> None:
    with writing(path):
        _check_folder(path)
        if path.is_file():
            with path.open("rb") as file:
                start = file.read(_HEAD_BYTES).lstrip().lower()
            if start and not start.startswith(starts):
                raise UsageError(f"{path}: exists and is not {kind}; not overwritten")


def _check_folder(path: Path) -> None:
    if not path.parent.is_dir():
        raise UsageError(f"{path}: the folder does not exist")
    if path.is_dir():
        raise UsageError(f"{path}: is a folder", hint="name a file in it")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise UsageError(f"{path}: cannot be written: no permission")


def options_from(values: Mapping[str, Any]) -> Options:
    """Sort keyword options into the stages that they belong to.

    Raises:
        UsageError: if an option does not exist, or holds no text where text is needed.
    """
    given = {_ALIASES.get(name, name): item for name, item in values.items() if item is not None}
    known = _FLOPS_FIELDS | _READING_FIELDS | _OWN_FIELDS
    unknown = set(given) - known
    if unknown:
        raise UsageError(
            f"unknown option: {', '.join(sorted(unknown))}",
            hint=f"options: {', '.join(sorted(known))}",
        )
    for name in sorted(_TEXT_FIELDS & set(given)):
        if not isinstance(given[name], str):
            raise UsageError(f"{name} must be text, not {given[name]!r}")
    return Options(
        **{name: given[name] for name in _OWN_FIELDS & set(given)},
        reading=ImportOptions(**{name: given[name] for name in _READING_FIELDS & set(given)}),
        flops=FlopsOptions(**{name: given[name] for name in _FLOPS_FIELDS & set(given)}).with_log(),
    )
