import json
import subprocess
import sys

import pytest

from tracelens.report import document, dumps
from tracelens.store import Store

MS = 1_000_000
TOP_LEVEL = [
    "schema",
    "tracelens_version",
    "inputs",
    "run",
    "workload",
    "window",
    "time",
    "flops",
    "peak",
    "mfu",
    "waterfall",
    "losses",
    "advice",
    "health",
    "ladder",
    "collectives",
    "stragglers",
    "pipeline",
    "identities",
    "quality",
    "cost",
]


def test_every_field_of_the_contract_is_there_in_order(example):
    answer = document(example)

    assert list(answer) == TOP_LEVEL
    assert answer["schema"] == "tracelens.attribution/1"
    assert list(answer["inputs"][0]) == ["path", "format", "sha256", "bytes", "rank", "producer"]
    assert set(answer["run"]) == {
        "id",
        "name",
        "started_at",
        "world_size",
        "ranks",
        "devices",
        "clock_alignment",
    }
    assert set(answer["time"]) == {
        "leaves",
        "groups",
        "per_rank",
        "per_step",
        "hidden",
        "by_phase",
        "by_module",
    }
    assert set(answer["losses"][0]) == {
        "id",
        "label",
        "share_points",
        "low_points",
        "high_points",
        "recoverable_points",
        "tag",
        "confidence",
        "evidence",
        "advice",
        "gpu_hours_per_day",
        "money_per_day",
    }
    assert set(answer["losses"][0]["evidence"][0]) == {
        "text",
        "rank",
        "start_ns",
        "end_ns",
        "name",
        "process",
        "stream",
        "correlation",
        "viewer_time",
    }


def test_time_of_the_worked_example(example):
    time = document(example)["time"]

    # Two ranks and three steps of the milliseconds in the worked example.
    assert time["groups"] == {
        "matmul": 6 * 500 * MS,
        "attention": 6 * 80 * MS,
        "other_compute": 6 * 135 * MS,
        "recompute": 6 * 60 * MS,
        "exposed_communication": 6 * 95 * MS,
        "exposed_copy": 6 * 5 * MS,
        "launch_gap": 6 * 60 * MS,
        "host": 6 * 50 * MS,
        "pipeline_bubble": 0,
        "opaque": 0,
        "idle_unknown": 6 * 15 * MS,
    }
    assert sum(time["leaves"].values()) == 6000 * MS
    assert all(time["leaves"].values())
    assert all(type(ns) is int for ns in time["leaves"].values())
    assert [row["rank"] for row in time["per_rank"]] == [0, 1]
    assert time["per_rank"][1]["leaves"]["host.gc"] == 15 * MS
    assert [(row["rank"], row["step"]) for row in time["per_step"]] == [
        (rank, step) for rank in (0, 1) for step in (3, 4, 5)
    ]
    assert all(sum(row["leaves"].values()) == 1000 * MS for row in time["per_step"])
    assert time["hidden"] == {"comm.dp": {"flop.gemm": 14 * MS}}


def test_losses_of_the_worked_example(example):
    answer = document(example)
    losses = {row["id"]: row for row in answer["losses"]}
    points = {loss: round(row["share_points"], 9) for loss, row in losses.items()}

    assert points == {
        "below_peak.gemm": 13.5,
        "comm.dp.transfer": 7.0,
        "compute.elementwise": 6.0,
        "below_peak.attention": 4.5,
        "recompute_flop": 4.2,
        "host.dispatch": 4.0,
        "compute.norm": 3.0,
        "comm.dp.wait": 2.5,
        "host.dataloader": 2.5,
        "host.sync": 2.0,
        "below_peak.recompute": 1.8,
        "compute.optimizer": 1.8,
        "compute.copy.fsdp": 1.5,
        "gap.kernel": 1.5,
        "idle.unknown": 1.5,
        "compute.softmax": 0.6,
        "attention_backward_recompute": 0.5,
        "gap.launch_latency": 0.5,
        "host.gc": 0.5,
        "mem.h2d": 0.5,
        "compute.loss": 0.4,
        "compute.other": 0.2,
    }
    assert list(points) == sorted(points, key=lambda loss: (-points[loss], loss))
    # 100 % = MFU + losses − the credit for FLOPs that the convention counts and nobody executes.
    assert sum(points.values()) == pytest.approx(100 - 42.5 + 3.0)
    assert losses["below_peak.gemm"]["tag"] == "D"
    assert losses["host.sync"]["tag"] == "M"
    assert losses["host.sync"]["low_points"] == losses["host.sync"]["share_points"]
    assert losses["host.sync"]["recoverable_points"] is None
    assert losses["host.gc"]["advice"] is None, "below one point"
    assert losses["host.sync"]["advice"] == (
        "remove or defer .item(), .cpu(), synchronize() (the GPU runs dry behind host waits)"
    )


def test_run_and_window(example):
    answer = document(example)

    assert answer["run"]["name"] == "llama3-8b"
    assert answer["run"]["world_size"] == 8
    assert answer["run"]["ranks"] == [0, 1]
    assert answer["run"]["devices"] == ["NVIDIA H100 80GB HBM3"]
    assert answer["window"]["total_ns"] == 6000 * MS
    assert answer["window"]["steps"] == [3, 4, 5]
    assert answer["window"]["per_rank"][1]["duration_ns"] == 3000 * MS
    assert answer["window"]["per_rank"][1]["steps"] == 3
    assert answer["workload"]["step_time_ns"] == 1000 * MS
    assert answer["inputs"][1]["rank"] == 1


def test_quality_counts_what_was_not_used(example):
    quality = document(example)["quality"]

    assert quality["events_read"] == 2000
    assert quality["events_dropped"] == [{"reason": "cut", "count": 3, "first_offset": 99}]
    # 2 ms a step of kernels without a class, of 875 ms busy.
    assert quality["unclassified_frac"] == pytest.approx(2 / 875)
    assert quality["kernels_without_launch"] == 0
    assert quality["truncated"] is False
    assert quality["notes"][0] == "recorded with shapes"
    assert (
        "time.by_module is null: no frame of nn.Module, user range or compiled region lies around "
        "a launch" in quality["notes"]
    )


def test_every_null_of_the_contract_has_a_note(make_store):
    answer = document(make_store(ranks=1, sections={}))
    notes = [note for note in answer["quality"]["notes"] if " null: " in note]
    named = {path for note in notes for path in note.partition(" null: ")[0].split(", ")}
    named = {path.removesuffix(" is").removesuffix(" are") for path in named}

    unexplained = set(nulls(answer)) - named

    # Their own reason stands beside them, or they are null where something better is known.
    assert unexplained == {
        "window.source",
        "window.confidence",
        "window.note",
        "mfu.value",
        "mfu.low",
        "mfu.scope",
        "peak.flop_per_s",
        "peak.kind",
        "peak.dtype",
        "peak.mix",
        "peak.bf16_flop_per_s",
        "peak.device",
        "peak.source",
        "losses[].advice",
        "identities.capacity.ok",
        "identities.capacity.residual_rel",
        "identities.splits.ok",
    }


def nulls(value, path=""):
    """Paths of all nulls, without the position in lists."""
    if value is None:
        yield path.removeprefix(".")
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from nulls(item, f"{path}.{name}")
    elif isinstance(value, list):
        for item in value:
            yield from nulls(item, f"{path}[]")


def test_what_is_known_has_no_note(example):
    notes = "\n".join(document(example)["quality"]["notes"])

    for field in ("mfu.hfu", "workload.parameters", "run.world_size", "padding", "wait_ns"):
        assert field not in notes
    assert (
        "cost.gpu_hours_per_day, cost.money_per_day, losses[].gpu_hours_per_day, "
        "losses[].money_per_day are null: it takes --gpu-hour-price\n"
    ) in notes


def test_the_flops_stage_tells_the_size_of_the_job(make_store):
    store = make_store()
    store.put_result("workload", {"world_size": 64, "source": {"world_size": "option"}})

    assert document(store)["run"]["world_size"] == 64


@pytest.mark.parametrize(
    "started_at", ["2026-01-02T03:04:05+00:00", "2026-01-02T03:04:05.423518993Z"]
)
def test_one_form_of_the_start(make_store, started_at):
    store = make_store(ranks=1)
    store.execute("UPDATE raw.input SET started_at = ?", [started_at])

    assert document(store)["run"]["started_at"] == "2026-01-02T03:04:05Z"


def test_kernels_without_launch_are_counted(example):
    example.execute("UPDATE raw.link SET call_id = NULL WHERE activity_id = 0")
    example.execute("DELETE FROM raw.link WHERE activity_id = 1")

    assert document(example)["quality"]["kernels_without_launch"] == 2


def test_without_other_stages_fields_are_null_and_say_why(make_store):
    answer = document(make_store(ranks=1, sections={}))

    assert list(answer) == TOP_LEVEL
    assert answer["mfu"]["value"] is None
    assert answer["mfu"]["reason"] == (
        "FLOPs of the model, or the peak of the device, are not known"
    )
    assert answer["flops"]["source"] == "none"
    assert answer["flops"]["reconciliation"]["residual_points"] is None
    assert answer["collectives"] is None
    assert "collectives is null: communication was not analyzed" in answer["quality"]["notes"]
    assert answer["window"]["steps"] == [3, 4, 5]
    assert answer["window"]["source"] is None
    assert answer["cost"] == {"gpu_hours_per_day": None, "money_per_day": None}
    assert answer["waterfall"] == []


def test_a_lost_segment_breaks_the_identity_to_the_nanosecond(example):
    example.execute("UPDATE raw.segment SET end_ns = end_ns - 7 WHERE activity_id = 0")

    check = document(example)["identities"]["time"]

    assert check == {"ok": False, "residual_ns": -7}


def test_identities_of_the_stages_are_kept(example):
    assert document(example)["identities"] == {
        "time": {"ok": True, "residual_ns": 0},
        "capacity": {"ok": True, "residual_rel": 0.0},
        "splits": {"ok": True},
    }


def test_one_rank_rolls_pipeline_communication_into_the_bubble(make_store):
    for ranks, expected in ((1, 75 * MS), (2, 0)):
        store = make_store(ranks=ranks)
        store.execute(
            "UPDATE raw.segment SET leaf = 'comm.pp.undivided' WHERE leaf = 'comm.dp.wait'"
        )

        answer = document(store)
        assert answer["time"]["groups"]["pipeline_bubble"] == expected
        assert any(note.startswith("comm.*.undivided: ") for note in answer["quality"]["notes"])


def test_an_empty_store_gives_a_valid_document():
    with Store() as store:
        answer = document(store)

    assert list(answer) == TOP_LEVEL
    assert answer["window"]["total_ns"] == 0
    assert answer["losses"] == []
    assert answer["quality"]["unclassified_frac"] is None


def test_equal_stores_give_equal_bytes(make_store):
    first, second = make_store(), make_store()

    assert dumps(document(first)) == dumps(document(second))
    assert json.loads(dumps(document(first))) == document(first)


def test_the_run_id_depends_on_content_only(make_store):
    store, moved, changed = make_store(), make_store(), make_store()
    moved.execute("UPDATE raw.input SET path = 'elsewhere/' || path")
    changed.execute("UPDATE raw.input SET sha256 = 'f' WHERE input = 0")

    assert document(moved)["run"]["id"] == document(store)["run"]["id"]
    assert document(changed)["run"]["id"] != document(store)["run"]["id"]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("a/resnet.pt.trace.json.gz", "resnet"),
        ("a/job.v2.nsys-rep", "job.v2"),
        (".json", ".json"),
    ],
)
def test_a_single_file_names_the_run(make_store, path, name):
    store = make_store(ranks=1)
    store.execute("UPDATE raw.input SET path = ?", [path])

    assert document(store)["run"]["name"] == name


def test_importing_the_package_loads_no_drawing_library():
    code = "import sys, tracelens.report; print({'plotly', 'jinja2'} & set(sys.modules))"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "set()\n"


def test_a_window_without_steps_has_no_step_time(make_store):
    store = make_store(ranks=1, sections={})
    store.execute("UPDATE raw.step SET step = NULL")
    store.execute("UPDATE raw.segment SET step = NULL")

    answer = document(store)

    assert answer["window"]["steps"] == []
    assert answer["window"]["excluded_steps"] == []
    assert answer["workload"]["step_time_ns"] is None
    assert answer["window"]["per_rank"][0]["steps"] is None
    assert [(row["rank"], row["step"]) for row in answer["time"]["per_step"]] == [(0, None)]
    assert sum(answer["time"]["per_step"][0]["leaves"].values()) == 3000 * MS
