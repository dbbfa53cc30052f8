"""The figures of HolisticTraceAnalysis on its own traces: frozen (release 0.5.0), and live."""

import json
import math
import subprocess
import sys

import pytest

from tracelens.classify.hta import hta_class
from tracelens.classify.table import Table
from tracelens.cli.app import app
from tracelens.errors import InputError, UsageError
from tracelens.pipeline import compare_with_hta

FOLDER = "traces/chrome/holistictraceanalysis"
# file: idle, compute, first start to last end (µs), communication under computation (%)
FROZEN = {
    "nccl_parser_config/nccl_data.json.gz": (338781, 75169, 435586, 14.31),
    "ns_resolution_trace/rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz": (
        *(10113, 372150, 384634, None),
    ),
    "timeline_analysis/sampled_rank-0.json.gz": (321378, 106252, 600058, 11.81),
    "trace_filter/sampled_rank-1.json.gz": (328671, 135548, 600674, 20.05),
}


def figures(path):
    (found,) = compare_with_hta([path]).values()
    return found


@pytest.mark.parametrize("name", FROZEN)
def test_frozen_figures(shared, name):
    found = figures(shared / FOLDER / name)
    idle, compute, kernel, overlap = FROZEN[name]
    assert (found.idle_us, found.compute_us, found.kernel_us) == (idle, compute, kernel)
    assert found.non_compute_us == kernel - compute - idle
    assert found.overlap_pct == overlap


def trace(tmp_path, events):
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}), encoding="utf-8")
    return path


def event(name, ts, dur, *, cat="kernel", **args):
    return {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, "args": args}


def test_synchronization_is_work_and_a_host_event_with_a_stream_is_computation(tmp_path):
    path = trace(
        tmp_path,
        [
            event("gemm", 0, 10, stream=7, correlation=1),
            event("Stream Sync", 10, 20, cat="cuda_sync", stream=7, correlation=2),
            event("record_param_comms", 40, 5, cat="cpu_op", stream=0),
            event("Context Sync", 50, 100, cat="cuda_sync", stream=-1, correlation=3),
        ],
    )
    found = figures(path)
    assert (found.kernel_us, found.idle_us, found.compute_us) == (45, 10, 15)
    assert found.non_compute_us == 20


def test_fractions_are_rounded_inwards_only_where_a_start_has_them(tmp_path):
    path = trace(tmp_path, [event("a", 0, 10.9, stream=7), event("b", 20, 1.5, stream=7)])
    assert (figures(path).kernel_us, figures(path).compute_us) == (21, 12)
    path = trace(tmp_path, [event("a", 0.1, 10.7, stream=7), event("b", 20, 1.5, stream=7)])
    # 1 to 10 and 20 to 21.
    assert (figures(path).kernel_us, figures(path).compute_us) == (20, 10)


def test_what_the_last_of_several_steps_launched_is_left_out(tmp_path):
    events = [
        event("ProfilerStep#1", 0, 100, cat="user_annotation"),
        event("cudaLaunchKernel", 10, 5, cat="cuda_runtime", correlation=1),
        event("gemm", 20, 30, stream=7, correlation=1),
        event("gemm", 60, 30, stream=7, correlation=9),  # its launch is not in the file
    ]
    later = [
        event("ProfilerStep#2", 100, 100, cat="user_annotation"),
        event("cudaLaunchKernel", 100, 5, cat="cuda_runtime", correlation=2),
        event("gemm", 120, 30, stream=7, correlation=2),
    ]
    assert figures(trace(tmp_path, events)).compute_us == 60  # one step: nothing is left out
    assert figures(trace(tmp_path, events + later)).compute_us == 30


def test_communication_under_computation_is_overlap(tmp_path):
    path = trace(
        tmp_path,
        [
            event("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 0, 30, stream=8),
            event("gemm", 10, 10, stream=7),
            event("gemm", 25, 50, stream=7),
        ],
    )
    assert figures(path).overlap_pct == 50.0


def test_every_class_rule_matches_its_examples():
    for rule in Table.load("hta.toml", "rule", "class").rules:
        assert [text for text in rule.examples if hta_class(text) != rule.value] == []
        assert [text for text in rule.near_misses if hta_class(text) == rule.value] == []


def test_command_prints_the_figures(shared, capsys):
    path = str(shared / FOLDER / "timeline_analysis/sampled_rank-0.json.gz")
    app(["attribute", path, "--compat", "hta", "--json"], standalone_mode=False)
    (row,) = json.loads(capsys.readouterr().out)["files"]
    assert (row["idle_us"], row["overlap_pct"]) == (321378, 11.81)
    app(["attribute", path, "--compat", "hta"], standalone_mode=False)
    heading, line = capsys.readouterr().out.splitlines()
    assert line.split() == ["321378", "106252", "172428", "600058", "11.81", path]
    assert len(heading) >= 5 * 16


@pytest.mark.parametrize("more", [["--compat", "xprof"], ["--compat", "hta", "--html", "x.html"]])
def test_what_has_no_figures_is_refused(tmp_path, more):
    path = trace(tmp_path, [event("gemm", 0, 1, stream=7)])
    with pytest.raises(UsageError, match="--compat"):
        app(["attribute", str(path), *more], standalone_mode=False)


@pytest.mark.parametrize("name", ["folder", "sqlite", "absent"])
def test_what_is_no_chrome_trace_is_refused(tmp_path, name):
    path = tmp_path / name
    if name == "folder":
        path.mkdir()
    elif name == "sqlite":
        path.write_bytes(b"SQLite format 3\0" + bytes(200))
    with pytest.raises(InputError):
        compare_with_hta([path])


@pytest.mark.parametrize("text", ["1e400", "NaN", "null", '"x"', "-", "9" * 30, "{}"])
def test_nonsense_times_are_passed_over(tmp_path, text):
    path = tmp_path / "trace.json"
    good = json.dumps(event("gemm", 0, 5, stream=7))
    bad = good.replace('"ts": 0', f'"ts": {text}')
    path.write_text('{"traceEvents": [' + f"{bad}, {good}]}}", encoding="utf-8")
    assert figures(path).compute_us == 5


def test_file_without_gpu_events_has_no_figures(tmp_path):
    assert figures(trace(tmp_path, [event("aten::mm", 0, 5, cat="cpu_op")])) is None


LIVE = """
import json, logging, sys
logging.disable()
from hta.trace_analysis import TraceAnalysis
analysis = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir="/")
time = analysis.get_temporal_breakdown(visualize=False).iloc[0]
overlap = analysis.get_comm_comp_overlap(visualize=False).iloc[0]
print(json.dumps([float(time[name]) for name in sys.argv[2:]] + [float(overlap.iloc[1])]))
"""
COLUMNS = ("idle_time(us)", "compute_time(us)", "non_compute_time(us)", "kernel_time(us)")


@pytest.mark.parametrize("name", FROZEN)
def test_live_figures(shared, name):
    pytest.importorskip("hta", reason="HolisticTraceAnalysis is not installed (extra: hta)")
    path = shared / FOLDER / name
    # A process of its own: HTA warns, forks and prints.
    done = subprocess.run(
        [sys.executable, "-c", LIVE, str(path), *COLUMNS],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    *times, overlap = json.loads(done.stdout.splitlines()[-1])
    found = figures(path)
    assert times == [found.idle_us, found.compute_us, found.non_compute_us, found.kernel_us]
    assert (None if math.isnan(overlap) else overlap) == found.overlap_pct
