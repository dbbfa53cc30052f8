"""Does the Perfetto export say what the account says, at the times that the trace has?"""

import json
from collections import Counter
from decimal import ROUND_DOWN, Decimal
from itertools import pairwise
from pathlib import Path

import pytest

import tracelens
from tracelens.errors import UsageError
from tracelens.run import Run

SAMPLES = Path(__file__).parents[3] / "sample_traces"
FILES = {
    "one rank, Kineto": ("single_gpu.json.gz",),
    "one rank, Nsight": ("single_gpu.sqlite",),
    "two ranks": ("data_parallel/rank0.json.gz", "data_parallel/rank1.json.gz"),
}


@pytest.fixture(scope="module", params=FILES, name="run")
def _run(request):
    with tracelens.attribute([SAMPLES / name for name in FILES[request.param]]) as found:
        yield found


@pytest.fixture(scope="module", name="events")
def _events(run, tmp_path_factory):
    return exported(run, tmp_path_factory.mktemp("perfetto") / "step.json")["traceEvents"]


def exported(run: Run, path: Path) -> dict:
    run.save_perfetto(path)
    return json.loads(path.read_text("ascii"), parse_float=Decimal)


def tracks(events) -> dict:
    return {
        (row["pid"], row["tid"]): row["args"]["name"]
        for row in events
        if row["name"] == "thread_name"
    }


def test_each_rank_is_charged_what_its_step_is(run, events):
    names = tracks(events)
    ranks = {
        row["pid"]: int(row["args"]["name"].removeprefix("rank "))
        for row in events
        if row["name"] == "process_name"
    }
    assert sorted(ranks.values()) == run.to_dict()["run"]["ranks"]
    charged: Counter[tuple[int, str]] = Counter()
    for row in events:
        if row["ph"] == "X" and names[row["pid"], row["tid"]] == "charged to":
            charged[ranks[row["pid"]], row["args"]["leaf"]] += int(1000 * row["dur"])
    steps = {
        row["step"]: row["leaves"]
        for row in run.to_dict()["time"]["per_step"]
        if row["rank"] == min(ranks.values())
    }
    shown = {leaf: ns for (rank, leaf), ns in charged.items() if rank == min(ranks.values())}
    assert shown in [{leaf: ns for leaf, ns in leaves.items() if ns} for leaves in steps.values()]
    step = next(step for step, leaves in steps.items() if leaves.items() >= shown.items())
    for row in run.to_dict()["time"]["per_step"]:
        if row["step"] == step:
            assert {leaf: ns for leaf, ns in row["leaves"].items() if ns} == {
                leaf: ns for (rank, leaf), ns in charged.items() if rank == row["rank"]
            }


def test_charges_tile_the_step(events):
    names = tracks(events)
    by_process: dict[int, list] = {}
    for row in events:
        if row["ph"] == "X" and names[row["pid"], row["tid"]] == "charged to":
            by_process.setdefault(row["pid"], []).append((row["ts"], row["ts"] + row["dur"]))
    assert by_process
    for spans in by_process.values():
        assert all(end == start for (_, end), (start, _) in pairwise(spans))


def test_kernels_stand_where_the_trace_has_them(run, events):
    """Times count from the beginning of the recording, which is marked."""
    names = tracks(events)
    shown = Counter(
        (row["name"], int(1000 * row["dur"]))
        for row in events
        if row["ph"] == "X" and names[row["pid"], row["tid"]].startswith("stream")
    )
    stored = Counter(map(tuple, run.sql("SELECT name, dur_ns FROM activity").to_pandas().values))
    assert shown
    assert not shown - stored
    assert {row["ts"] for row in events if row["name"] == "recording begins"} == {0}


def test_evidence_is_marked_where_the_viewer_shows_it(run, events):
    marks = [row for row in events if row["ph"] == "i" and "loss" in row["args"]]
    assert marks
    if len(run.to_dict()["run"]["ranks"]) > 1:
        return  # the viewer shows each file alone, from its own beginning
    evidence = [
        (loss["id"], item["text"], item["viewer_time"].split()[0])
        for loss in run.losses()
        for item in loss["evidence"]
    ]
    for mark in marks:
        cut = mark["ts"].quantize(Decimal(1), ROUND_DOWN).scaleb(-6)
        assert (mark["args"]["loss"], mark["args"]["evidence"], f"{cut:f}") in evidence


def test_equal_runs_give_equal_bytes(run, tmp_path):
    exported(run, tmp_path / "a.json")
    exported(run, tmp_path / "b.json")
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


def test_an_earlier_export_is_replaced_and_a_trace_is_not(run, tmp_path):
    path = tmp_path / "step.json"
    exported(run, path)
    exported(run, path)
    trace = tmp_path / "trace.json"
    trace.write_text('{"traceEvents": []}')
    with pytest.raises(UsageError, match="not overwritten"):
        run.save_perfetto(trace)
    assert trace.read_text() == '{"traceEvents": []}'
