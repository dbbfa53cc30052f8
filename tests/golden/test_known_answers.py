"""Real traces whose partition is known to the nanosecond, read from the folder of shared traces."""

import pytest

import tracelens

BUSY = ("matmul", "attention", "other_compute", "exposed_communication", "exposed_copy")
IDLE = ("launch_gap", "host", "pipeline_bubble", "idle_unknown")

# file: total, matmul, attention, other compute, communication, copies, idle of all kinds (ns)
KNOWN = {
    "traces/chrome/tracelens/h100/Falconsai_nsfw_image_detection__1016002.json.gz": (
        *(7559844, 833213, 122848, 264865, 0, 4384, 6334534),
    ),
    "traces/chrome/torchrec/v100_4rank_a2a/rank0.json": (
        *(3294949000, 70501000, 0, 48464000, 3036374000, 83000, 139527000),
    ),
    "traces/chrome/torchrec/v100_4rank_a2a/rank2.json": (
        *(3282373000, 77257000, 0, 44933000, 31718000, 116000, 3128349000),
    ),
    "traces/chrome/lightllm/h200_ep8_decode/rank0.json.gz": (
        *(106987231, 35978162, 1376389, 8508891, 56973942, 1276645, 2873202),
    ),
    "traces/nsight/h100_2gpu_window_2026.2.sqlite": (
        *(1938706183, 38781120, 0, 6048402, 0, 1880871430, 13005231),
    ),
    "quirks/00_base.json": (2640000, 900000, 0, 150000, 600000, 120000, 870000),
    # One step of the base trace, twice damaged or rewritten: the same GPU time comes out.
    "quirks/02_missing_args_kernel.json": (*(2640000, 900000, 0, 150000, 600000, 120000, 870000),),
    "quirks/12_no_distributedInfo.json": (2640000, 900000, 0, 150000, 600000, 120000, 870000),
    "quirks/15_bad_escape.json": (2640000, 900000, 0, 150000, 600000, 120000, 870000),
    "quirks/17_non_utf8.json": (2640000, 900000, 0, 150000, 600000, 120000, 870000),
    "quirks/19_bare_NA.json": (2640000, 900000, 0, 150000, 600000, 120000, 870000),
    "quirks/20_top_level_list.json": (2640000, 900000, 0, 150000, 600000, 120000, 870000),
    "quirks/22_gpu_only.json": (2640000, 900000, 0, 150000, 600000, 120000, 870000),
    "quirks/28_old_nccl_name.json": (2640000, 900000, 0, 150000, 600000, 120000, 870000),
    "quirks/32_gpu_user_annotation_step.json": (
        *(2640000, 900000, 0, 150000, 600000, 120000, 870000),
    ),
    "quirks/35_old_kineto_cats.json": (2640000, 900000, 0, 150000, 600000, 120000, 870000),
    "quirks/37_unsorted.json": (2640000, 900000, 0, 150000, 600000, 120000, 870000),
    "quirks/38_gz.json.gz": (2640000, 900000, 0, 150000, 600000, 120000, 870000),
    "quirks/43_trailing_comma.json": (2640000, 900000, 0, 150000, 600000, 120000, 870000),
}


@pytest.mark.parametrize("name", KNOWN)
def test_whole_trace(shared, name):
    with tracelens.attribute(shared / name, window="all") as run:
        answer = run.to_dict()
    groups = answer["time"]["groups"]
    found = (
        answer["window"]["total_ns"],
        *(groups[group] for group in BUSY),
        sum(groups[group] for group in IDLE),
    )
    assert found == KNOWN[name]


@pytest.mark.parametrize(
    "name", ["00_base", "10_epoch_us_ns_precision", "13_distinfo_after_events", "45_no_shapes"]
)
def test_steps_of_the_base_trace(shared, name):
    with tracelens.attribute(shared / "quirks" / f"{name}.json") as run:
        window = run.to_dict()["window"]
        steps = run.sql("SELECT step, dur_ns FROM step WHERE included ORDER BY step").to_pylist()
    assert window["source"] == "profiler_step"
    assert [row["dur_ns"] for row in steps] == [1000000, 1000000]
    assert window["total_ns"] == 2000000


def test_two_processes_with_one_correlation_number_space_each(shared):
    path = shared / "traces/nsight/h100_2gpu_nccl_2026.2.sqlite"
    with tracelens.attribute(path) as run:
        answer = run.to_dict()
        kernels = run.sql(
            "SELECT count(*) AS kernels, count(call_id) AS linked, count(DISTINCT gpu) AS devices "
            "FROM activity WHERE kind = 'kernel'"
        ).to_pylist()[0]
    assert kernels == {"kernels": 4010, "linked": 3986, "devices": 2}
    assert answer["quality"]["kernels_without_launch"] == 24
    assert answer["peak"]["flop_per_s"] is None
    assert answer["mfu"]["value"] is None
    assert answer["mfu"]["reason"]


def test_naming_the_device_mends_a_missing_peak(shared):
    path = shared / "traces/nsight/h100_2gpu_nccl_2026.2.sqlite"
    with tracelens.attribute(path, gpu="h100") as run:
        assert run.to_dict()["peak"]["flop_per_s"] == 989.4e12


def test_matmul_rate_of_the_base_trace(shared):
    with tracelens.attribute(shared / "quirks/00_base.json") as run:
        rows = run.sql(
            "SELECT DISTINCT executed_flop / dur_ns * 1e9 AS rate FROM activity "
            "WHERE class = 'gemm'"
        ).to_pylist()
    assert [row["rate"] for row in rows] == [pytest.approx(7.158e12, rel=1e-4)]


def test_both_exports_of_one_report_agree(shared):
    folder = shared / "traces/nsight"
    leaves = []
    for name in (
        "a100_linear_projection_2023.4.sqlite",
        "a100_linear_projection_2023.4.parquetdir",
    ):
        with tracelens.attribute(folder / name) as run:
            leaves.append(run.to_dict()["time"]["leaves"])
    assert leaves[0] == leaves[1]
    assert leaves[0]["flop.gemm"] == 185997118417
