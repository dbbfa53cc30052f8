from typing import Any

import pytest

from tracelens.errors import UsageError
from tracelens.flops import (
    FlopsOptions,
    assign_flops,
    close_account,
    find_recompute,
    flops_per_token,
)
from tracelens.store import Store

H100 = 989.4e12
SIZE = 4096
MM = {"input_dims": [[SIZE, SIZE]] * 2, "input_types": ["c10::BFloat16"] * 2}
MM_FLOP = 2.0 * SIZE**3
STEP_US = 1000
CAPACITY = H100 * 2e-3  # two steps of 1 ms on one GPU
ENGINE = "autograd::engine::evaluate_function: MmBackward0"


def _trained(run: Any, *, shapes: bool = True, world_size: int | None = None, **gpu: Any) -> Store:
    """Two steps of 1 ms: 600 us of matmul in each (one forward, two backward), 400 us of idle."""
    run.process(world_size)
    run.gpu(**gpu)
    record = MM if shapes else {}
    for step in (0, 1):
        begin = step * STEP_US
        run.step(step, begin, begin + STEP_US)
        forward = run.op("aten::mm", begin, begin + 10, **record)
        run.op(ENGINE, begin + 20, begin + 60)
        backward = [run.op("aten::mm", begin + at, begin + at + 10, **record) for at in (30, 45)]
        for place, op in enumerate([forward, *backward]):
            start = begin + 200 * place
            kernel = run.kernel("gemm", start, start + 200, op=op, step=step, dtype="bf16")
            run.segment("flop.gemm", start, start + 200, activity_id=kernel, step=step)
        run.segment("host.dispatch", begin + 600, begin + STEP_US, step=step)
    store: Store = run.done()
    return store


def _closed(store: Store, **options: Any) -> dict[str, Any]:
    assign_flops(store)
    find_recompute(store)
    close_account(store, FlopsOptions(**options))
    sections = ("flops", "peak", "mfu", "waterfall", "workload", "capacity")
    return {name: store.result(name) for name in sections}


def _notes(store: Store) -> str:
    return "\n".join(
        f"{row[0]}: {row[1]}" for row in store.rows("SELECT severity, text FROM raw.note")
    )


def test_shapes_alone_give_mfu(run: Any) -> None:
    found = _closed(_trained(run, world_size=1))
    assert found["flops"]["model_flop"] == found["flops"]["executed_flop"] == 6 * MM_FLOP
    assert found["flops"]["source"] == "shapes"
    assert found["flops"]["convention"] == "causal"
    assert found["flops"]["reconciliation"] == {
        "recompute": 0.0,
        "optimizer": 0.0,
        "attention_backward_recompute": 0.0,
        "masked_not_executed": 0.0,
        "padding": None,
        "unshaped": 0.0,
        "unshaped_time_frac": 0.0,
        "residual": 0.0,
        "residual_points": 0.0,
    }
    assert found["peak"] | {"source": ""} == {
        "flop_per_s": H100,
        "kind": "nominal",
        "dtype": "bf16",
        "mix": {"bf16": 1.0},
        "mix_of": "flop",
        "bf16_flop_per_s": H100,
        "device": "H100-SXM5-80GB",
        "source": "",
        "reason": None,
    }
    mfu = 6 * MM_FLOP / CAPACITY
    assert found["mfu"] == {
        "value": pytest.approx(mfu),
        "low": None,
        "scope": "job",
        "hfu": pytest.approx(mfu),
        "all_recorded": pytest.approx(6 * MM_FLOP / (H100 * 1.6e-3)),
        "against_bf16": pytest.approx(mfu),
        "per_convention": {"causal": pytest.approx(mfu)},
        "reason": None,
    }
    assert found["capacity"]["ok"] is True
    assert found["capacity"]["residual_rel"] < 1e-12
    assert found["workload"]["step_time_ns"] == 1_000_000
    assert found["workload"]["dtypes"] == ["bf16"]
    points = {item["id"]: item["points"] for item in found["waterfall"]}
    assert points["idle"] == pytest.approx(-40.0)
    assert points["below_peak"] == pytest.approx(-60.0 + 100 * mfu)
    assert points["mfu"] == pytest.approx(100 * mfu)


def test_recompute_is_executed_but_not_the_models(run: Any) -> None:
    store = _trained(run, world_size=1)
    again = run.op("aten::mm", 22, 28, sequence=3, fwd_thread=0, **MM)
    kernel = run.kernel("gemm", 700, 800, op=again, step=0, dtype="bf16")
    store.execute("DELETE FROM raw.segment WHERE leaf = 'host.dispatch' AND start_ns = 600000")
    run.segment("host.dispatch", 600, 700)
    run.segment("flop.recompute.gemm", 700, 800, activity_id=kernel)
    run.segment("host.dispatch", 800, 1000)
    found = _closed(store)
    assert found["flops"]["model_flop"] == 6 * MM_FLOP
    assert found["flops"]["executed_flop"] == 7 * MM_FLOP
    assert found["flops"]["reconciliation"]["recompute"] == MM_FLOP
    assert found["mfu"]["hfu"] / found["mfu"]["value"] == pytest.approx(7 / 6)
    points = {item["id"]: item for item in found["waterfall"]}
    assert points["recompute_flop"]["points"] == pytest.approx(-100 * MM_FLOP / CAPACITY)
    below = {child["id"]: child["points"] for child in points["below_peak"]["children"]}
    assert below["recompute"] == pytest.approx(-5.0 + 100 * MM_FLOP / CAPACITY)


def test_the_users_figure_comes_first_and_is_of_the_whole_job(run: Any) -> None:
    found = _closed(_trained(run, world_size=8), model_flops_per_step=8 * 2 * MM_FLOP)
    assert found["flops"]["source"] == "user"
    assert found["flops"]["convention"] is None
    assert found["flops"]["model_flop"] == 4 * MM_FLOP
    assert found["mfu"]["value"] == pytest.approx(4 * MM_FLOP / CAPACITY)
    assert found["mfu"]["scope"] == "rank"
    assert found["mfu"]["per_convention"] is None
    residual = found["flops"]["reconciliation"]
    assert residual["residual"] == pytest.approx(2 * MM_FLOP)
    assert residual["residual_points"] == pytest.approx(100 * 2 * MM_FLOP / CAPACITY)
    notes = _notes(run.store)
    assert "spread evenly over 8 GPUs, 1 recorded" in notes
    assert "warning: FLOPs do not reconcile: +13.9 points" in notes


def test_a_configuration_gives_every_convention(run: Any) -> None:
    shape = {"layers": 2, "hidden": 512, "heads": 8, "ffn": 2048, "vocab": 32000}
    options = {"model": shape, "seq_len": 1024, "global_batch_size": 16, "convention": "full"}
    found = _closed(_trained(run, world_size=4), **options)
    tokens = 16 * 1024 * 2 / 4
    expected = tokens * flops_per_token(shape, seq_len=1024, convention="full")
    causal = tokens * flops_per_token(shape, seq_len=1024)
    assert found["flops"]["source"] == "config"
    assert found["flops"]["convention"] == "full"
    assert found["flops"]["model_flop"] == pytest.approx(expected)
    assert found["flops"]["per_convention"]["causal"] == pytest.approx(causal)
    credit = found["flops"]["reconciliation"]["masked_not_executed"]
    assert credit == pytest.approx(expected - causal)
    assert found["flops"]["reconciliation"]["residual"] == pytest.approx(6 * MM_FLOP - causal)
    assert found["mfu"]["per_convention"]["causal"] == pytest.approx(causal / CAPACITY)
    assert found["workload"] == {
        "parameters": 2 * (4 * 512**2 + 3 * 512 * 2048 + 2 * 512) + 2 * 32000 * 512 + 512,
        "tokens_per_step_global": 16 * 1024,
        "sequences_global": 16,
        "micro_batches": None,
        "mesh": None,
        "dtypes": ["bf16"],
        "source": {
            "parameters": "option",
            "tokens_per_step_global": "option",
            "sequences_global": "option",
            "world_size": "trace",
        },
        "step_time_ns": 1_000_000,
        "tokens_per_s_per_gpu": pytest.approx(16 * 1024 / 4 / 1e-3),
        "world_size": 4,
        "option_notes": [],
    }


@pytest.mark.parametrize(
    ("recorded", "option", "size", "source"),
    [
        (None, None, None, None),
        (8, None, 8, "trace"),
        (None, 4, 4, "option"),
        (8, 4, 4, "option"),
    ],
)
def test_the_size_of_the_job_is_told_with_its_source(
    run: Any, recorded: int | None, option: int | None, size: int | None, source: str | None
) -> None:
    workload = _closed(_trained(run, world_size=recorded), world_size=option)["workload"]
    assert workload["world_size"] == size
    assert workload["source"].get("world_size") == source


def test_a_job_is_not_smaller_than_what_was_recorded(run: Any) -> None:
    store = _trained(run)
    run.gpu(1)
    run.step(0, 0, STEP_US, gpu=1)
    run.segment("idle.unknown", 0, STEP_US, gpu=1)
    workload = _closed(store, world_size=1)["workload"]
    assert (workload["world_size"], workload["source"]["world_size"]) == (2, "trace")
    assert workload["option_notes"] == ["job of 1 GPUs, but 2 were recorded: taken as 2"]


SHAPES_ARE_EXACT = (
    "shapes count the exact mask; others take --model, --seq-len and --tokens-per-step"
)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, []),
        ({"convention": "causal"}, []),
        ({"convention": "exact"}, []),
        ({"convention": "full"}, [f"--convention full has no effect: {SHAPES_ARE_EXACT}"]),
        (
            {"model": "gpt2"},
            [
                "model FLOPs by formula also need --seq-len and --tokens-per-step or "
                "--global-batch-size"
            ],
        ),
        (
            {"seq_len": 1024, "tokens_per_step": 8192},
            [
                "no MFU by formula from --seq-len and --tokens-per-step: "
                "it takes --model, --seq-len and --tokens-per-step"
            ],
        ),
        (
            {"micro_batch_size": 4},
            ["--micro-batch-size has no effect: nothing is derived from it"],
        ),
        (
            {"model_flops_per_step": 1e12, "model": "gpt2", "convention": "palm"},
            [
                "--convention palm has no effect: the FLOPs of a step were given",
                "no MFU by formula from --model: the FLOPs of a step were given",
            ],
        ),
        ({"model_flops_per_step": 1e12, "tokens_per_step": 8192}, []),
        ({"model": "gpt2", "seq_len": 1024, "tokens_per_step": 8192, "convention": "full"}, []),
    ],
)
def test_an_option_without_effect_is_told(
    run: Any, options: dict[str, Any], expected: list[str]
) -> None:
    found = _closed(_trained(run, world_size=1), **options)
    assert found["workload"]["option_notes"] == expected
    for text in expected:
        assert f"info: {text}" in _notes(run.store)


def test_without_flops_a_convention_needs_a_model(run: Any) -> None:
    found = _closed(_trained(run, world_size=1, shapes=False), convention="megatron")
    assert found["workload"]["option_notes"] == [
        "--convention megatron has no effect: it takes --model, --seq-len and --tokens-per-step"
    ]


def test_a_reason_of_both_sides_is_given_once(run: Any) -> None:
    run.process(1)
    run.gpu()
    run.step(0, 0, STEP_US)
    run.segment("compute.norm", 0, STEP_US, step=0)
    run.kernel("optimizer", 0, STEP_US, step=0)
    assert _closed(run.done())["mfu"]["reason"] == "no FLOP-bearing kernel in the window"


def test_a_configuration_without_shapes_leaves_one_bar(run: Any) -> None:
    found = _closed(_trained(run, shapes=False), model="gpt2", seq_len=1024, tokens_per_step=8192)
    assert found["flops"]["executed_flop"] is None
    assert found["mfu"]["hfu"] is None
    assert found["mfu"]["value"] == pytest.approx(
        2 * 8192 * flops_per_token("gpt2", seq_len=1024) / CAPACITY
    )
    assert found["peak"]["mix_of"] == "time"
    assert [item["id"] for item in found["waterfall"]] == ["peak", "idle", "below_peak", "mfu"]
    assert "size of the job not recorded: taken as the 1 GPU(s) given" in _notes(run.store)


def test_a_model_without_tokens_says_what_is_missing(run: Any) -> None:
    found = _closed(_trained(run, shapes=False), model="gpt2")
    assert found["mfu"]["value"] is None
    assert found["mfu"]["reason"] == (
        "no shapes: record with record_shapes=True or give --model, --seq-len and --tokens-per-step"
    )
    assert "also need --seq-len and --tokens-per-step or --global-batch-size" in _notes(run.store)
    assert found["waterfall"][-1]["id"] == "flop_bearing"
    assert found["waterfall"][-1]["points"] == pytest.approx(60.0)


def test_some_kernels_without_shapes_give_a_lower_bound(run: Any) -> None:
    store = _trained(run, world_size=1)
    store.execute("UPDATE raw.op SET input_dims = NULL WHERE start_ns = 0")
    found = _closed(store)
    assert found["mfu"]["value"] is None
    assert found["mfu"]["low"] == pytest.approx(5 * MM_FLOP / CAPACITY)
    assert found["mfu"]["reason"].startswith("16.7 % of FLOP-bearing time has no shapes: record")
    assert found["mfu"]["hfu"] is None
    assert found["flops"]["model_flop"] is None
    assert found["flops"]["reconciliation"]["unshaped_time_frac"] == pytest.approx(1 / 6)


def test_generation_is_not_training(run: Any) -> None:
    store = _trained(run, world_size=1)
    store.execute("DELETE FROM raw.host_label")
    found = _closed(store, model_flops_per_step=1e15)
    assert found["mfu"]["value"] is None
    assert found["mfu"]["low"] is None
    assert found["mfu"]["reason"] == (
        "no backward pass and no optimizer in the trace: MFU is a figure of training"
    )
    assert found["mfu"]["hfu"] == pytest.approx(6 * MM_FLOP / CAPACITY)
    assert found["waterfall"][-1]["id"] == "flop_bearing"


def test_an_optimizer_kernel_shows_training(run: Any) -> None:
    store = _trained(run, world_size=1)
    store.execute("DELETE FROM raw.host_label")
    run.kernel("optimizer", 5000, 5001)
    assert _closed(run.done())["mfu"]["value"] == pytest.approx(6 * MM_FLOP / CAPACITY)


def test_kernel_names_alone_need_the_users_word(run: Any) -> None:
    run.process(1)
    run.gpu()
    run.step(0, 0, STEP_US)
    kernel = run.kernel("gemm", 0, STEP_US, step=0, dtype="bf16", name="nvjet")
    run.segment("flop.gemm", 0, STEP_US, activity_id=kernel)
    store = run.done()
    assert _closed(store)["mfu"]["reason"].startswith("no shapes: record with")
    close_account(store, FlopsOptions(model_flops_per_step=H100 * 1e-3 / 2))
    assert store.result("mfu")["value"] == pytest.approx(0.5)


def test_steps_without_numbers_have_no_flops_per_step(run: Any) -> None:
    store = _trained(run, world_size=1)
    store.execute("DELETE FROM raw.step")
    store.execute("DELETE FROM raw.activity_step")
    run.step(None, 0, 2 * STEP_US)
    found = _closed(store, model_flops_per_step=1e15)
    assert found["flops"]["source"] == "shapes"
    assert found["flops"]["model_flop"] == 6 * MM_FLOP
    assert found["workload"]["step_time_ns"] is None
    assert "the window is not made of steps" in _notes(store)


def test_flops_count_in_the_step_that_launched_them(run: Any) -> None:
    store = _trained(run, world_size=1)
    run.kernel("gemm", 100, 110, op=run.op("aten::mm", 5000, 5010, **MM), step=7, dtype="bf16")
    late = run.op("aten::mm", 70, 80, **MM)
    run.kernel("gemm", 9000, 9010, op=late, step=1, dtype="bf16")
    unlaunched = run.op("aten::mm", 82, 90, **MM)
    run.kernel("gemm", 150, 151, op=unlaunched, dtype="bf16")
    run.kernel("gemm", 9500, 9501, op=unlaunched, dtype="bf16")
    found = _closed(store)
    # Launched in step 7: no. Launched in step 1, ran later: yes. Launch unknown: by time; both
    # share one operator, half of it each.
    assert found["flops"]["executed_flop"] == 7.5 * MM_FLOP


# --- the denominator ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gpu", "options", "reason"),
    [
        ({"name": None}, {}, "device not named in the trace: give --gpu"),
        (
            {"name": "NVIDIA PG509-210", "num_sms": 108},
            {},
            "no peak known for 'NVIDIA PG509-210' with 108 SMs: give --gpu or --peak TFLOP/s",
        ),
        (
            {},
            {"gpu": "NVIDIA H100 80GB HBM3 MIG 1g.10gb"},
            "no peak known for --gpu NVIDIA H100 80GB HBM3 MIG 1g.10gb: give --peak TFLOP/s",
        ),
        (
            {"name": "Tesla V100-SXM2-32GB", "num_sms": 80},
            {},
            "V100-SXM2 has no nominal bf16 peak: give --peak or --dtype",
        ),
        ({}, {"peak": "measured", "dtype": "fp16"}, "H100-SXM5-80GB has no measured fp16 peak"),
    ],
)
def test_no_peak_is_said_and_not_guessed(
    run: Any, gpu: dict[str, Any], options: dict[str, Any], reason: str
) -> None:
    found = _closed(_trained(run, world_size=1, **gpu), **options)
    assert found["peak"]["flop_per_s"] is None
    assert found["mfu"]["value"] is None
    assert found["mfu"]["reason"].startswith(reason)
    assert found["capacity"] == {"ok": None, "residual_rel": None}
    assert found["waterfall"][-1]["id"] == "flop_bearing"


@pytest.mark.parametrize(
    ("options", "peak", "kind", "dtype"),
    [
        ({}, H100, "nominal", "bf16"),
        ({"gpu": "a100"}, 312e12, "nominal", "bf16"),
        ({"dtype": "fp8"}, 1978.9e12, "nominal", "fp8"),
        ({"peak": "measured"}, 794.5e12, "measured", "bf16"),
        ({"peak": "clock", "sm_clock_mhz": 1755}, H100 * 1755 / 1830, "clock", "bf16"),
        ({"peak": "800"}, 800e12, "user", "bf16"),
        ({"peak": 123.5, "gpu": "unheard of"}, 123.5e12, "user", "bf16"),
    ],
)
def test_named_denominators(
    run: Any, options: dict[str, Any], peak: float, kind: str, dtype: str
) -> None:
    found = _closed(_trained(run, world_size=1), **options)
    assert found["peak"]["flop_per_s"] == pytest.approx(peak)
    assert (found["peak"]["kind"], found["peak"]["dtype"]) == (kind, dtype)
    assert found["mfu"]["value"] == pytest.approx(6 * MM_FLOP / (peak * 2e-3))


def test_slices_scale_the_peak(run: Any) -> None:
    found = _closed(_trained(run, world_size=1, num_sms=66))
    assert found["peak"]["flop_per_s"] == pytest.approx(H100 / 2)
    assert "the trace shows 66 multiprocessors" in _notes(run.store)


def test_narrow_formats_mix_harmonically_and_wide_ones_do_not_count(run: Any) -> None:
    store = _trained(run, world_size=1)
    store.execute("UPDATE raw.activity_class SET dtype = 'fp8' WHERE activity_id IN (0, 3)")
    store.execute("UPDATE raw.activity_class SET dtype = 'tf32' WHERE activity_id = 1")
    found = _closed(store)
    assert found["peak"]["mix"] == pytest.approx({"bf16": 0.5, "fp8": 1 / 3, "tf32": 1 / 6})
    mixed = 5 / (3 / H100 + 2 / 1978.9e12)
    assert found["peak"]["flop_per_s"] == pytest.approx(mixed)
    assert found["peak"]["dtype"] == "bf16+fp8"
    assert found["mfu"]["value"] == pytest.approx(6 * MM_FLOP / (mixed * 2e-3))
    assert found["mfu"]["against_bf16"] == pytest.approx(6 * MM_FLOP / CAPACITY)


def test_a_job_in_32_bits_is_rated_at_its_own_peak(run: Any) -> None:
    store = _trained(run, world_size=1)
    store.execute("UPDATE raw.activity_class SET dtype = NULL")
    store.execute('UPDATE raw.op SET input_types = \'["float", "float"]\'')
    found = _closed(store)
    assert found["peak"]["flop_per_s"] == 494.7e12
    assert "rated at the TF32 peak" in _notes(store)


def test_formats_nobody_knows(run: Any) -> None:
    store = _trained(run, world_size=1)
    store.execute("UPDATE raw.activity_class SET dtype = NULL")
    store.execute("UPDATE raw.op SET input_types = NULL")
    found = _closed(store)
    assert found["peak"]["reason"].startswith("the number format of most matmul time is not known")
    assert found["mfu"]["value"] is None


def test_above_100_percent_is_an_alarm(run: Any) -> None:
    found = _closed(_trained(run, world_size=1), peak=100.0)
    assert found["mfu"]["value"] == pytest.approx(6 * MM_FLOP / (100e12 * 2e-3))
    assert "warning: MFU of 412.3 %" in _notes(run.store)


def test_kernels_faster_than_their_peak_are_an_alarm(run: Any) -> None:
    store = _trained(run, world_size=1)
    run.kernel("gemm", 100, 101, op=run.op("aten::mm", 90, 95, **MM), step=0, dtype="bf16")
    _closed(store)
    assert "1 of 7 FLOP-bearing kernels ran faster than the peak" in _notes(store)


def test_two_kinds_of_gpu_are_averaged_over_their_time(run: Any) -> None:
    store = _trained(run, world_size=2)
    run.gpu(1, "NVIDIA A100-SXM4-80GB", num_sms=108)
    run.step(0, 0, STEP_US, gpu=1)
    run.segment("idle.unknown", 0, STEP_US, gpu=1)
    found = _closed(store)
    assert found["peak"]["flop_per_s"] == pytest.approx((2 * H100 + 312e12) / 3)
    assert found["mfu"]["scope"] == "job"
    assert "2 kinds of GPU" in _notes(store)


def test_an_empty_run_writes_nothing(run: Any) -> None:
    close_account(run.done(), FlopsOptions())
    assert run.store.result("mfu") is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"peak": "fast"}, "peak 'fast'"),
        ({"peak": -1}, "peak -1"),
        ({"peak": "nan"}, "peak 'nan'"),
        ({"peak": "clock"}, "--peak clock needs the clock"),
        ({"sm_clock_mhz": 1500, "peak": "measured"}, "--sm-clock says nothing of --peak measured"),
        ({"convention": "mine"}, "unknown convention 'mine'"),
        ({"dtype": "bf17"}, "unknown dtype 'bf17'"),
        ({"seq_len": 0}, "seq len must be a sensible number above 0"),
        ({"tokens_per_step": "many"}, "tokens per step must be a sensible number"),
        ({"model_flops_per_step": float("inf")}, "model flops per step must be a sensible"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        FlopsOptions(**options)
