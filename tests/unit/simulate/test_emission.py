"""Do both emitters write what the profilers write, and the same run?"""

import gzip
import json
import re
import sqlite3
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from tracelens.simulate import Run, simulate, truth_text, write
from tracelens.simulate.nsight import _short_name

GPU_CATS = {"kernel", "gpu_memcpy", "gpu_memset"}


@pytest.fixture(scope="module")
def run() -> Run:
    return simulate("data_parallel")


@pytest.fixture(scope="module")
def folder(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("simulated")
    write(run, out, "both")
    return out


def kineto(folder: Path, rank: int) -> dict:  # type: ignore[type-arg]
    return json.loads(
        gzip.decompress((folder / f"rank{rank}.json.gz").read_bytes()), parse_float=str
    )


def nanoseconds(text: str) -> int:
    whole, fraction = text.split(".")
    assert len(fraction) == 3
    return int(whole) * 1_000 + int(fraction)


def gpu_rows(document: dict) -> list[tuple[int, int, int, int]]:  # type: ignore[type-arg]
    """Start, end, stream, correlation of everything on the GPU."""
    return sorted(
        (
            nanoseconds(event["ts"]),
            nanoseconds(event["ts"]) + nanoseconds(event["dur"]),
            event["args"]["stream"],
            event["args"]["correlation"],
        )
        for event in document["traceEvents"]
        if event.get("cat") in GPU_CATS
    )


def test_kineto_text_has_three_decimals_everywhere(folder: Path) -> None:
    text = gzip.decompress((folder / "rank0.json.gz").read_bytes()).decode()
    times = re.findall(r'"(?:ts|dur)": ([^,}]+)', text)
    assert len(times) > 3_000
    assert all(re.fullmatch(r"\d+\.\d{3}", time) for time in times)


def test_kineto_header(folder: Path) -> None:
    document = kineto(folder, 2)
    assert document["schemaVersion"] == 1
    assert document["displayTimeUnit"] == "ms"
    assert document["record_shapes"] == 1
    assert document["baseTimeNanoseconds"] == 1751410836000000000
    assert [device["numSms"] for device in document["deviceProperties"]] == [132] * 4
    info = document["distributedInfo"]
    assert (info["rank"], info["world_size"], info["backend"]) == (2, 4, "nccl")
    assert [group["pg_desc"] for group in info["pg_config"]] == ["default_pg", "mesh_dp"]


def test_kineto_links(folder: Path) -> None:
    events = kineto(folder, 0)["traceEvents"]
    calls = {
        event["args"]["correlation"]: event
        for event in events
        if event.get("cat") in {"cuda_runtime", "cuda_driver"}
    }
    ops = {
        event["args"]["External id"]: event
        for event in events
        if event.get("cat") in {"cpu_op", "user_annotation"}
    }
    flows = Counter((event["ph"], event["id"]) for event in events if event.get("cat") == "ac2g")
    gpu = [event for event in events if event.get("cat") in GPU_CATS]
    assert len(gpu) == len({event["args"]["correlation"] for event in gpu}) > 300
    for event in gpu:
        correlation = event["args"]["correlation"]
        call, op = calls[correlation], ops[event["args"]["External id"]]
        assert flows["s", correlation] == flows["f", correlation] == 1
        assert call["args"]["External id"] == event["args"]["External id"]
        assert (op["pid"], op["tid"]) == (call["pid"], call["tid"])
        assert nanoseconds(op["ts"]) <= nanoseconds(call["ts"])
        assert nanoseconds(call["ts"]) < nanoseconds(event["ts"])


def test_kineto_operators(folder: Path) -> None:
    events = kineto(folder, 0)["traceEvents"]
    ops = [event for event in events if event.get("cat") == "cpu_op"]
    multiply = [event for event in ops if event["name"] == "aten::mm"]
    assert len(multiply) == 4 * 3 * (3 * 4 + 1)  # steps, passes, matmuls of three layers and head
    for event in multiply:
        (m, k), (inner, n) = event["args"]["Input Dims"]
        assert k == inner
        assert m * n > 0
        assert event["args"]["Input type"] == ["c10::BFloat16"] * 2
    forward = {
        event["args"]["Sequence number"] for event in ops if event["args"].get("Fwd thread id") == 0
    }
    backward = [
        event for event in ops if event["name"].startswith("autograd::engine::evaluate_function: ")
    ]
    numbered = [event for event in backward if "Sequence number" in event["args"]]
    assert len(numbered) > 100
    assert {event["args"]["Sequence number"] for event in numbered} <= forward
    assert {event["tid"] for event in backward} != {event["pid"] for event in backward}
    indices = [event["args"]["Ev Idx"] for event in events if "Ev Idx" in event.get("args", {})]
    assert indices == list(range(len(indices)))


def test_kineto_ranges_nest(folder: Path) -> None:
    by_thread: dict[int, list[tuple[int, int]]] = {}
    for event in kineto(folder, 0)["traceEvents"]:
        if event.get("cat") in {"cpu_op", "user_annotation"}:
            start = nanoseconds(event["ts"])
            by_thread.setdefault(event["tid"], []).append((start, -nanoseconds(event["dur"])))
    for spans in by_thread.values():
        stack: list[int] = []
        for start, negative_dur in sorted(spans):
            while stack and stack[-1] <= start:
                stack.pop()
            assert not stack or start - negative_dur <= stack[-1]
            stack.append(start - negative_dur)


def test_kineto_collectives(folder: Path) -> None:
    events = kineto(folder, 1)["traceEvents"]
    on_kernels = [e for e in events if e.get("cat") == "kernel" and "Collective name" in e["args"]]
    on_ops = [event for event in events if event["name"] == "record_param_comms"]
    assert len(on_kernels) == len(on_ops) == 4 * 4  # steps, buckets
    for event in [*on_kernels, *on_ops]:
        args = event["args"]
        assert args["Collective name"] == "allreduce"
        assert args["Process Group Ranks"] == "[0, 1, 2, 3]"
        assert args["Process Group Description"] == "mesh_dp"
        assert args["dtype"] == "BFloat16"
    waits = [event for event in events if event["name"] == "Stream Wait Event"]
    records = {
        event["args"]["correlation"] for event in events if event["name"] == "cudaEventRecord"
    }
    assert {event["args"]["wait_on_cuda_event_record_corr_id"] for event in waits} <= records
    assert {(e["args"]["stream"], e["args"]["wait_on_stream"]) for e in waits} == {(23, 7), (7, 23)}


def test_step_marks_and_their_copies(folder: Path) -> None:
    events = kineto(folder, 0)["traceEvents"]
    for cat in ("user_annotation", "gpu_user_annotation"):
        names = [event["name"] for event in events if event.get("cat") == cat]
        assert [name for name in names if "Profiler" in name] == [
            f"ProfilerStep#{step}" for step in range(10, 14)
        ]


@pytest.fixture
def database(folder: Path) -> sqlite3.Connection:
    return sqlite3.connect(folder / "data_parallel.sqlite")


def test_both_families_tell_the_same_times(
    run: Run, folder: Path, database: sqlite3.Connection
) -> None:
    clock = json.loads(truth_text(run))["clock"]
    for timeline in run.timelines:
        rows = database.execute(
            """
            SELECT start, "end", streamId, correlationId FROM CUPTI_ACTIVITY_KIND_KERNEL
            WHERE (globalPid >> 24) & 0xFFFFFF = ?1 AND deviceId = ?2
            UNION ALL
            SELECT start, "end", streamId, correlationId FROM CUPTI_ACTIVITY_KIND_MEMCPY
            WHERE (globalPid >> 24) & 0xFFFFFF = ?1 AND deviceId = ?2
            """,
            (timeline.pid, timeline.rank),
        ).fetchall()
        shift = clock["kineto_ns"] - clock["nsys_ns"]
        shifted = sorted((start + shift, end + shift, *rest) for start, end, *rest in rows)
        assert shifted == gpu_rows(kineto(folder, timeline.rank))
    (utc_ns,) = database.execute("SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME").fetchone()
    assert utc_ns + clock["nsys_ns"] == clock["epoch_ns"]


def test_busy_and_idle_sums_equal_the_truth(run: Run, folder: Path) -> None:
    """The union of what the file holds, inside the window, against the truth's leaves."""
    clock = json.loads(truth_text(run))["clock"]["kineto_ns"]
    for truth in run.truths:
        low, high = (time_ns + clock for time_ns in truth.window)
        busy_ns, reached = 0, low
        for start, end, _, _ in gpu_rows(kineto(folder, truth.rank)):
            start, end = max(start, reached), min(end, high)  # noqa: PLW2901
            if end > start:
                busy_ns += end - start
                reached = end
        idle_ns = sum(
            item.end_ns - item.start_ns
            for item in truth.intervals
            if item.leaf.startswith(("host.", "gap."))
        )
        assert busy_ns + idle_ns == high - low


def test_nsight_ids_are_packed(run: Run, database: sqlite3.Connection) -> None:
    rows = database.execute("SELECT DISTINCT globalTid FROM CUPTI_ACTIVITY_KIND_RUNTIME").fetchall()
    unpacked = {((tid >> 24) & 0xFFFFFF, tid & 0xFFFFFF) for (tid,) in rows}
    assert unpacked == {
        (timeline.pid, tid) for timeline in run.timelines for tid in timeline.threads.values()
    }
    devices = database.execute("SELECT gpuId, cudaId, pid FROM TARGET_INFO_CUDA_DEVICE").fetchall()
    assert devices == [(line.rank, line.rank, line.pid) for line in run.timelines]
    assert database.execute("SELECT DISTINCT name, smCount FROM TARGET_INFO_GPU").fetchall() == [
        ("NVIDIA H100 80GB HBM3", 132)
    ]


def test_nsight_ranges(database: sqlite3.Connection) -> None:
    texts = [text for (text,) in database.execute("SELECT text FROM NVTX_EVENTS") if text]
    multiply = [text for text in texts if text.startswith("aten::mm")]
    assert all(
        re.fullmatch(
            r"aten::mm(, seq = \d+)?, op_id = \d+, sizes = \[\[\d+, \d+\], \[\d+, \d+\]\]", text
        )
        for text in multiply
    )
    assert len(multiply) == 4 * 4 * 39
    assert Counter(text for text in texts if text.startswith("step "))["step 12"] == 4
    nccl = database.execute(
        "SELECT value, jsonText FROM NVTX_EVENTS JOIN StringIds ON id = textId"
        " WHERE domainId = 1 AND eventType = 59"
    ).fetchall()
    assert {name for name, _ in nccl} == {"ncclAllReduce"}
    assert len(nccl) == 4 * 4 * 4
    assert all(json.loads(payload)["Message size [bytes]"] > 0 for _, payload in nccl)


def test_nsight_names(database: sqlite3.Connection) -> None:
    names = dict(
        database.execute(
            "SELECT DISTINCT short.value, full.value FROM CUPTI_ACTIVITY_KIND_KERNEL"
            " JOIN StringIds AS short ON short.id = shortName"
            " JOIN StringIds AS full ON full.id = demangledName"
        ).fetchall()
    )
    assert "ncclDevKernel_AllReduce_Sum_bf16_RING_LL" in names
    assert "nvjet_tst_256x128_64x4_1x2_h_bz_coopA_TNT" in names
    assert "flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel" in names
    assert not [name for name in names.values() if "(anonymous namespace)" in name]


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("void at::native::<unnamed>::softmax<(int)4>(int, T2)", "softmax"),
        ("nvjet_tst_96x64", "nvjet_tst_96x64"),
        ("void flash::fwd<Traits<(int)1>>(flash::Params)", "fwd"),
    ],
)
def test_short_names(name: str, short: str) -> None:
    assert _short_name(name) == short


def test_matmuls_run_at_a_plausible_share_of_peak(run: Run) -> None:
    for activity in run.timelines[0].activities:
        if activity.work.shape.leaf == "flop.gemm":
            share = activity.work.flop.executed / (activity.work.dur_ns * 989_400)
            assert 0.55 <= share <= 0.75


def test_durations_in_files_do_not_overlap_on_a_stream(folder: Path) -> None:
    rows = gpu_rows(kineto(folder, 3))
    for stream in (7, 23):
        spans = [(start, end) for start, end, where, _ in rows if where == stream]
        assert all(first[1] < second[0] for first, second in pairwise(spans))


def test_formats_are_chosen(tmp_path: Path) -> None:
    run = simulate("S01")
    names = {form: [path.name for path in write(run, tmp_path / form, form)] for form in FORMATS}
    assert names == {
        "kineto": ["S01.json.gz", "S01.truth.json"],
        "nsys": ["S01.sqlite", "S01.truth.json"],
        "both": ["S01.json.gz", "S01.sqlite", "S01.truth.json"],
    }


FORMATS = ("kineto", "nsys", "both")
