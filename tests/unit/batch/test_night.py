"""What a batch keeps, skips and tries again, with an attribution that is only a stand-in."""

import os

import pyarrow.parquet as pq
import pytest

from tracelens.batch import Lake, run_batch
from tracelens.errors import AbstainedError, ExternalToolError, InputError, UsageError


def is_trace(path):
    return path.is_file() and path.suffix == ".json"


def answer(total_ns=100):
    return {
        "tracelens_version": "9",
        "run": {
            "started_at": "2026-01-02",
            "world_size": 8,
            "ranks": [0, 1],
            "devices": ["B", "A"],
        },
        "mfu": {"value": 0.4, "low": None, "hfu": 0.5, "reason": None},
        "window": {"total_ns": total_ns},
        "time": {"leaves": {"flop.gemm": total_ns - 30, "idle.unknown": 30}},
    }


class Attribution:
    """Answers by the content of the first file; counts what it was asked."""

    def __init__(self):
        self.asked = []

    def __call__(self, files, options):
        self.asked.append((files[0].parent.name, dict(options)))
        word = files[0].read_text()
        errors = {
            "cpu": AbstainedError("no GPU work", hint="record CUDA"),
            "bad": InputError("not a trace"),
            "tool": ExternalToolError("nsys is missing"),
            "bug": ZeroDivisionError("oops"),
        }
        if word in errors:
            raise errors[word]
        return answer()


@pytest.fixture
def night(tmp_path):
    folder = tmp_path / "night"
    folder.mkdir()
    return folder


def add(night, run, content="ok"):
    (night / run).mkdir(exist_ok=True)
    (night / run / "t.json").write_text(content)


def go(night, attribution, options=None, **more):
    return run_batch(
        [night],
        night.parent / "lake",
        options or {},
        attribute=attribution,
        recognize=is_trace,
        **more,
    )


def table(night, part):
    return pq.read_table(night.parent / "lake" / part).sort_by("run_id").to_pylist()


def test_a_run_becomes_a_row_and_its_leaves(night):
    add(night, "a")
    report = go(night, Attribution(), {"seq_len": 128})
    (row,) = table(night, "runs")
    assert report.count("ok") == 1
    assert row["run_id"] == report.done[0].run_id
    assert {name: row[name] for name in row if name not in {"run_id", "key", "attributed_at"}} == {
        "name": "night/a",
        "paths": [str(night / "a" / "t.json")],
        "status": "ok",
        "exit_code": 0,
        "message": "",
        "started_at": "2026-01-02",
        "tracelens_version": "9",
        "world_size": 8,
        "ranks": 2,
        "device": "A, B",
        "mfu": 0.4,
        "mfu_low": None,
        "hfu": 0.5,
        "mfu_reason": None,
        "total_ns": 100,
    }
    assert table(night, "leaves") == [
        {"run_id": row["run_id"], "leaf": "flop.gemm", "dur_ns": 70},
        {"run_id": row["run_id"], "leaf": "idle.unknown", "dur_ns": 30},
    ]


def test_failures_are_recorded_and_stop_nothing(night):
    for run, content in (("1", "bug"), ("2", "bad"), ("3", "cpu"), ("4", "tool"), ("5", "ok")):
        add(night, run, content)
    seen = []
    report = go(night, Attribution(), progress=seen.append)
    assert [(row.name, row.status, row.exit_code, row.message) for row in report.done] == [
        ("night/1", "failed", 1, "bug: ZeroDivisionError: oops"),
        ("night/2", "failed", 6, "not a trace"),
        ("night/3", "abstained", 4, "no GPU work (record CUDA)"),
        ("night/4", "failed", 7, "nsys is missing"),
        ("night/5", "ok", 0, ""),
    ]
    assert tuple(seen) == report.done
    assert [report.count(status) for status in ("ok", "failed", "abstained")] == [1, 3, 1]
    assert len(table(night, "runs")) == 5
    assert len(table(night, "leaves")) == 2
    assert [row.total_ns for row in report.done] == [None, None, None, None, 100]


def test_unchanged_runs_are_skipped_and_mendable_failures_tried_again(night):
    for run, content in (("1", "bug"), ("2", "bad"), ("3", "cpu"), ("4", "tool"), ("5", "ok")):
        add(night, run, content)
    go(night, Attribution())
    again = Attribution()
    report = go(night, again)
    assert [name for name, _ in again.asked] == ["1", "4"]
    assert [row.name for row in report.skipped] == ["night/2", "night/3", "night/5"]


def test_a_changed_file_or_option_is_attributed_again(night):
    add(night, "a")
    add(night, "b")
    go(night, Attribution())
    (night / "a" / "t.json").write_text("longer")
    again = Attribution()
    go(night, again)
    assert [name for name, _ in again.asked] == ["a"]
    os.utime(night / "b" / "t.json", ns=(5, 5))
    again = Attribution()
    go(night, again)
    assert [name for name, _ in again.asked] == ["b"]
    again = Attribution()
    go(night, again, {"seq_len": 5})
    assert again.asked == [("a", {"seq_len": 5}), ("b", {"seq_len": 5})]
    assert len(table(night, "runs")) == 2


def test_a_new_rank_in_a_folder_changes_the_run(night):
    add(night, "a")
    first = go(night, Attribution())
    (night / "a" / "u.json").write_text("ok")
    second = go(night, Attribution())
    assert len(second.done) == 1
    assert first.done[0].name == second.done[0].name


def test_an_interrupted_batch_resumes(night):
    for run in ("a", "b", "c"):
        add(night, run)

    def interrupted(files, options):
        if files[0].parent.name == "b":
            raise KeyboardInterrupt
        return answer()

    with pytest.raises(KeyboardInterrupt):
        go(night, interrupted)
    again = Attribution()
    report = go(night, again)
    assert [name for name, _ in again.asked] == ["b", "c"]
    assert [row.name for row in report.skipped] == ["night/a"]


def test_a_failure_replaces_the_figures_of_an_earlier_night(night):
    add(night, "a", "ok")
    go(night, Attribution())
    (night / "a" / "t.json").write_text("bad")
    go(night, Attribution())
    (row,) = table(night, "runs")
    assert (row["status"], row["mfu"], row["total_ns"]) == ("failed", None, None)
    assert table(night, "leaves") == []


def test_a_damaged_row_counts_as_not_done(night):
    add(night, "a")
    report = go(night, Attribution())
    path = night.parent / "lake" / "runs" / f"{report.done[0].run_id}.parquet"
    path.write_bytes(b"PAR1 cut short")
    assert Lake(night.parent / "lake").get(report.done[0].run_id) is None
    assert len(go(night, Attribution()).done) == 1
    assert len(table(night, "runs")) == 1


def test_nothing_but_whole_files_is_left_behind(night):
    add(night, "a")
    go(night, Attribution())
    lake = night.parent / "lake"
    assert {path.suffix for path in lake.rglob("*") if path.is_file()} == {".parquet"}


def test_a_lake_below_the_traces_is_not_a_run(night):
    add(night, "a")
    lake = night / "lake"
    for _ in range(2):
        report = run_batch(
            [night], lake, {}, attribute=Attribution(), recognize=lambda path: path.is_file()
        )
    assert report.done == ()
    assert [row.name for row in report.skipped] == ["night/a"]


def test_a_lake_that_cannot_be_made_is_a_usage_error(night):
    add(night, "a")
    (night.parent / "lake").write_text("a file")
    with pytest.raises(UsageError, match="cannot be used as a lake"):
        go(night, Attribution())


def test_text_that_is_no_text_does_not_stop_the_night(night):
    add(night, "a")

    def odd(files, options):
        return {**answer(), "run": {**answer()["run"], "devices": ["H\ud800"]}}

    (row,) = go(night, odd).done
    assert (row.status, row.device) == ("ok", "H?")


def test_an_answer_without_figures_is_a_recorded_bug(night):
    add(night, "a")
    (row,) = go(night, lambda files, options: {}).done
    assert (row.status, row.exit_code, row.message) == ("failed", 1, "bug: KeyError: 'run'")


def test_the_summary_counts_each_end_apart(night):
    for run, content in (("1", "bug"), ("2", "bad"), ("3", "cpu"), ("4", "ok")):
        add(night, run, content)
    assert go(night, Attribution()).summary == "1 attributed, 1 abstained, 2 failed, 0 unchanged"
    again = go(night, Attribution())
    assert again.summary == "0 attributed, 0 abstained, 1 failed, 3 unchanged"


def refusing(message, *, at):
    def attribute(files, options):
        if files[0].parent.name == at:
            raise UsageError(message)
        return answer()

    return attribute


def test_a_refused_option_ends_the_night_before_it_begins(night):
    add(night, "a")
    add(night, "b")
    with pytest.raises(UsageError, match="not understood"):
        go(night, refusing("--window x: not understood", at="a"))
    assert list((night.parent / "lake" / "runs").iterdir()) == []


@pytest.mark.parametrize(
    ("message", "at"), [("--window step:9: no such step", "b"), ("rank 0 twice", "a")]
)
def test_what_only_one_trace_refuses_is_its_failure(night, message, at):
    add(night, "a")
    add(night, "b")
    report = go(night, refusing(message, at=at))
    assert report.summary == "1 attributed, 0 abstained, 1 failed, 0 unchanged"
    (row,) = [row for row in report.done if row.status == "failed"]
    assert (row.name, row.exit_code, row.message) == (f"night/{at}", 2, message)
