"""What does a notebook get from a run: frames, figures, a picture of itself?"""

import pytest

import tracelens
from tracelens.errors import UsageError
from tracelens.report.gallery import FIGURES
from tracelens.views import VIEWS


@pytest.fixture(scope="module", name="run")
def _run(samples):
    traces = [samples / "data_parallel" / f"rank{rank}.json.gz" for rank in (0, 1)]
    with tracelens.attribute(traces) as found:
        yield found


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_is_a_frame(run, view):
    frame = run.to_pandas(view)
    counted = run.sql(f"SELECT count(*) AS n FROM {view}").to_pydict()["n"]
    assert [len(frame)] == counted
    times = [name for name in frame.columns if name.endswith("_ns")]
    whole = frame[times].dropna(axis="columns", how="any")
    assert all(str(kind).startswith(("int", "Int")) for kind in whole.dtypes)


@pytest.mark.parametrize("name", FIGURES)
def test_figures_are_plotly_objects_with_something_in_them(run, name):
    figure = run.figure(name)
    assert type(figure).__module__.startswith("plotly.")
    assert any(len(trace.x) for trace in figure.data)


def test_bars_of_ranks_are_as_long_as_their_windows(run):
    bars = run.figure("ranks").data
    for rank in run.to_dict()["run"]["ranks"]:
        shown = sum(y for bar in bars for x, y in zip(bar.x, bar.y, strict=True) if x == str(rank))
        [window] = [row for row in run.to_dict()["window"]["per_rank"] if row["rank"] == rank]
        assert shown == pytest.approx(window["duration_ns"] / 1e6, rel=1e-12)


def test_what_does_not_exist_is_named(run):
    with pytest.raises(UsageError, match="no figure 'pie'") as caught:
        run.figure("pie")
    assert "waterfall" in caught.value.hint
    with pytest.raises(UsageError, match="no view 'pies'"):
        run.to_pandas("pies")


def test_a_run_draws_itself(run):
    assert "plotly" in run._repr_html_().lower()
    assert repr(run) == run.render()
