"""The analysed run as a Python object: figures, tables, reports."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from tracelens.errors import UsageError
from tracelens.flops import FlopsOptions
from tracelens.ingest import ImportOptions
from tracelens.pipeline import Options, analyze
from tracelens.store import Store
from tracelens.views import VIEWS

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go
    import pyarrow as pa

_FLOPS_FIELDS = frozenset(FlopsOptions.__dataclass_fields__)
_READING_FIELDS = frozenset({"nsys", "with_stacks"})
_OWN_FIELDS = frozenset({"window", "rank_pattern"})


class Run:
    """An analysed run.

    Args:
        store: a store that the pipeline has filled.
    """

    def __init__(self, store: Store) -> None:
        from tracelens.report import document

        self._store = store
        self._document = document(store)

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Open a store that was kept with ``--store``.

        Raises:
            InputError: if it is no store of this version.
        """
        return cls(Store.open(Path(path)))

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
        """Return a plotly figure.

        Raises:
            UsageError: if there is no such figure.
        """
        from tracelens.report import waterfall_figure

        if name != "waterfall":
            raise UsageError(f"no figure {name!r}", hint="figures: waterfall")
        return waterfall_figure(self._document)

    def save_html(self, path: str | Path) -> None:
        """Write the self-contained report."""
        from tracelens.report import save_html

        save_html(self._document, self._store, Path(path))

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
    **options: Any,
) -> Run:
    """Attribute one run: the library form of ``tracelens attribute``.

    Args:
        traces: a file, folder or glob, or several; several files are the ranks of one run.
        store: file that keeps the database; in memory when left out.
        **options: as on the command line, with underscores: ``model``, ``seq_len``,
            ``tokens_per_step``, ``window``, ``gpu``, ``peak``, ``dtype``, ``convention``, ...

    Returns:
        The analysed run.

    Raises:
        TraceLensError: of the kind that says what is wrong and what to do.
    """
    paths = [traces] if isinstance(traces, str | Path) else list(traces)
    settings = options_from(options)
    database = new_store(store)
    try:
        analyze(paths, database, settings)
        return Run(database)
    except BaseException:
        database.close()
        if store is not None:
            Path(store).unlink(missing_ok=True)
        raise


def new_store(path: str | Path | None, max_memory: str | None = None) -> Store:
    """Create a store; an existing store is replaced, any other file is refused.

    Raises:
        UsageError: if the file exists and is no store, or its folder does not exist.
    """
    if path is None:
        return Store(max_memory=max_memory)
    target = Path(path)
    if target.exists():
        if not Store.is_store(target):
            raise UsageError(f"{target}: exists and is not a TraceLens store; not overwritten")
        target.unlink()
    if not target.parent.is_dir():
        raise UsageError(f"{target}: the folder does not exist")
    return Store(target, max_memory=max_memory)


def options_from(values: Mapping[str, Any]) -> Options:
    """Sort keyword options into the stages that they belong to.

    Raises:
        UsageError: if an option does not exist.
    """
    unknown = set(values) - _FLOPS_FIELDS - _READING_FIELDS - _OWN_FIELDS
    if unknown:
        known = sorted(_FLOPS_FIELDS | _READING_FIELDS | _OWN_FIELDS)
        raise UsageError(
            f"unknown option: {', '.join(sorted(unknown))}", hint=f"options: {', '.join(known)}"
        )
    given = {name: value for name, value in values.items() if value is not None}
    return Options(
        **{name: given[name] for name in _OWN_FIELDS & set(given)},
        reading=ImportOptions(**{name: given[name] for name in _READING_FIELDS & set(given)}),
        flops=FlopsOptions(**{name: given[name] for name in _FLOPS_FIELDS & set(given)}),
    )
