from pathlib import Path
from typing import Any

import pytest

from tracelens.errors import InputError
from tracelens.flops import FlopsOptions, assign_flops, close_account, flops_per_token, load_model
from tracelens.flops.logcompare import Account, compare
from tracelens.flops.traininglog import TrainingLog, read_log

PEAK = 989.4e12
TITAN_FLOP = flops_per_token("Llama-3-8B", seq_len=8192, convention="torchtitan")


def _titan(rate: float = 6667.0, *, flop: float = TITAN_FLOP, steps: int = 12) -> str:
    tera = rate * flop / 1e12
    head = (
        "[titan] 2025-11-25 19:44:58,838 - root - INFO - Building device mesh with parallelism: "
        "pp=1, dp_replicate=1, dp_shard=8, cp=1, tp=1, ep=1, etp=1\n"
        "[titan] - root - INFO - \x1b[34mModel llama3 8B \x1b[31msize: 8,030,261,248 total "
        "parameters\x1b[39m\n"
        "[titan] - root - INFO - Peak FLOPS used for computing MFU: 9.890e+14\n"
        "[titan] - root - INFO - Trainer is initialized with local batch size 2, global batch "
        "size 16, gradient accumulation steps 1, sequence length 8192, total steps 1000\n"
    )
    lines = [
        f"[rank0]:[titan] 2025-11-25 19:45:01,441 - root - INFO - \x1b[31mstep: {step:2}  "
        f"\x1b[32mloss:  8.0277  \x1b[38;2;180;60;0mgrad_norm:  1.4604  \x1b[38;2;54;234;195m"
        f"memory: 63.1GiB(79.86%)  \x1b[34mtps: {rate:,.0f}  \x1b[36mtflops: {tera:.2f}  "
        f"\x1b[35mmfu: {100 * tera / 989:.2f}%\x1b[39m\n"
        for step in range(1, steps + 1)
    ]
    lines[0] = lines[0].replace(f"{rate:,.0f}", "512")
    lines.insert(9, "[titan] - root - INFO - Dumping profiler traces at step 10\n")
    return head + "".join(lines)


MEGATRON = """using world size: 16, data-parallel size: 4, context-parallel size: 1, \
tensor-model-parallel size: 2, pipeline-model-parallel size: 2
------------------------ arguments ------------------------
  add_bias_linear ................................. False
  ffn_hidden_size ................................. 14336
  global_batch_size ............................... 128
  group_query_attention ........................... True
  hidden_size ..................................... 4096
  micro_batch_size ................................ 1
  num_attention_heads ............................. 32
  num_layers ...................................... 32
  num_query_groups ................................ 8
  padded_vocab_size ............................... 128256
  position_embedding_type ......................... rope
  seq_length ...................................... 8192
  swiglu .......................................... True
  untie_embeddings_and_output_weights ............. True
-------------------- end of arguments ---------------------
"""


def _megatron(ms: float, tera: float, steps: int = 10) -> str:
    lines = [
        f" [2025-05-27 15:23:07] iteration {step:8d}/   24000 | consumed samples: {step * 128:12d} "
        f"| elapsed time per iteration (ms): {ms + (step == 1) * 2e5:.1f} | throughput per GPU "
        f"(TFLOP/s/GPU): {tera:.1f} | learning rate: 1.5E-06 | global batch size:   128 | lm loss: "
        f"1.192634E+01 | loss scale: 1.0 | grad norm: 5.960 | number of nan iterations:   0 |\n"
        for step in range(1, steps + 1)
    ]
    return MEGATRON + "".join(lines)


def _read(tmp_path: Path, text: str) -> TrainingLog:
    path = tmp_path / "train.log"
    path.write_text(text)
    return read_log(path)


def test_torchtitan(tmp_path: Path) -> None:
    log = _read(tmp_path, _titan())
    assert (log.program, log.world_size, log.peak_flop_per_s) == ("torchtitan", 8, 9.89e14)
    assert (log.seq_len, log.global_batch_size, log.micro_batch_size) == (8192, 16, 2)
    assert log.mesh == {"pp": 1, "dp_replicate": 1, "dp_shard": 8, "cp": 1, "tp": 1, "ep": 1}
    assert log.model == load_model("Llama-3-8B")
    assert log.parameters == 8_030_261_248
    assert [step.step for step in log.steps] == [*range(1, 10), 11, 12]  # 10 was profiled
    assert log.tokens_per_s_per_gpu == 6667
    assert log.mfu == pytest.approx(0.3904, abs=1e-4)
    assert log.step_time_ns == round(16 * 8192 / (6667 * 8) * 1e9)
    assert log.flop_per_token == pytest.approx(TITAN_FLOP, rel=1e-4)


def test_megatron(tmp_path: Path) -> None:
    rate = 128 * 8192 / 10.5432 / 16
    flop = flops_per_token("Llama-3-8B", seq_len=8192, convention="megatron")
    log = _read(tmp_path, _megatron(10543.2, rate * flop / 1e12))
    assert (log.program, log.world_size) == ("megatron", 16)
    assert log.mesh == {"dp": 4, "cp": 1, "tp": 2, "pp": 2}
    assert log.model == load_model("Llama-3-8B")
    assert log.step_time_ns == 10_543_200_000
    assert log.tokens_per_step == 128 * 8192
    assert log.flop_per_token == pytest.approx(flop, rel=1e-3)
    assert log.mfu is None


def test_megatron_bridge_prints_two_lines_a_step(tmp_path: Path) -> None:
    lines = (
        "ain_fp8_mx/0 Step Time : 9.09s GPU utilization: 663.5MODEL_TFLOP/s/GPU\n\n"
        "ain_fp8_mx/0  [2025-12-22 15:18:33] iteration       50/      50 | consumed samples: "
        "       25600 | elapsed time per iteration (ms): 9089.0 | learning rate: 3.000000E-05 | "
        "global batch size:   512 | lm loss: 8.114214E+00 |\n"
    )
    log = _read(tmp_path, lines * 3)
    assert (log.program, len(log.steps), log.global_batch_size) == ("bridge", 3, 512)
    assert log.step_time_ns == 9_089_000_000
    assert log.flop_per_s_per_gpu == 663.5e12
    assert log.model is None
    assert log.model_reason == "it describes no model"


@pytest.mark.parametrize(
    "line",
    [
        "Training epoch 0, iteration 1/249 | lr: 3.922e-06 | global_batch_size: 8 | global_step: 1 "
        "| reduced_train_loss: 1.653 | train_step_timing in s: 2.505 | TFLOPS_per_GPU: 410.5\n",
        "Epoch 0: : 1%| 1/100 [00:02<10:48, reduced_train_loss=0.0172, global_step=1.00, "
        "consumed_samples=16.0, tflops_per_sec_per_gpu=410.5, train_step_timing in s=2.505]\r",
    ],
)
def test_nemo(line: str, tmp_path: Path) -> None:
    log = _read(tmp_path, line * 3)
    assert (log.program, log.steps[0].step) == ("nemo", 1)
    assert (log.step_time_ns, log.flop_per_s_per_gpu) == (2_505_000_000, 410.5e12)


@pytest.mark.parametrize(
    "text",
    ["", "nothing here\n", "\x00\xff" * 100, "step: x loss: nan tps: mfu: %\n", "a" * 200_000],
)
def test_text_that_is_no_log(text: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no line reports a step") as error:
        _read(tmp_path, text)
    assert "Megatron" in error.value.hint


def test_missing_log(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.log: No such file"):
        FlopsOptions(log=tmp_path / "none.log").with_log()


def test_hostile_numbers_are_no_figures(tmp_path: Path) -> None:
    line = "iteration 1/2 | elapsed time per iteration (ms): %s | global batch size: 8 |\n"
    log = _read(tmp_path, "".join(line % text for text in ("0", "0.0", "1,000.5", "1,000.5")))
    assert [step.time_ns for step in log.steps] == [None, None, 1_000_500_000, 1_000_500_000]
    assert log.step_time_ns == 1_000_500_000
    assert _read(tmp_path, "tps: 7\ntps: 9\ntps: 0 loss\n").tokens_per_s_per_gpu == 9


def test_options_win_over_the_log(tmp_path: Path) -> None:
    log = _read(tmp_path, _titan())
    found = FlopsOptions(log=log, seq_len=4096).with_log()
    assert (found.seq_len, found.global_batch_size, found.world_size) == (4096, 16, 8)
    assert found.from_log == {"model", "global_batch_size", "micro_batch_size", "world_size"}
    tokens = FlopsOptions(log=log, tokens_per_step=77).with_log()
    assert (tokens.tokens, tokens.global_batch_size) == (77, None)


# --- against the account -----------------------------------------------------------------------


def _own(log: TrainingLog, **change: Any) -> Account:
    step_ns = round((log.step_time_ns or 0) * 1.05)
    flop = flops_per_token("Llama-3-8B", seq_len=8192)
    rate = (log.tokens_per_step or 0) / (step_ns / 1e9) / (log.world_size or 1)
    values: dict[str, Any] = {
        "mfu": rate * flop / PEAK,
        "peak_flop_per_s": PEAK,
        "flop_per_token": flop,
        "step_time_ns": step_ns,
        "model": load_model("Llama-3-8B"),
        "seq_len": 8192,
    }
    return Account(**(values | change))


def test_the_difference_is_explained_by_factors(tmp_path: Path) -> None:
    log = _read(tmp_path, _titan())
    found = compare(log, _own(log))
    assert found.warnings == []
    assert found.fields["convention"] == "torchtitan"
    assert found.fields["dilation"] == pytest.approx(1.05, rel=1e-6)
    factors = found.fields["factors"]
    assert factors["convention"] == pytest.approx(57.91444992 / 51.471187968, rel=1e-4)
    assert factors["peak"] == pytest.approx(989.4 / 989, rel=1e-9)
    product = factors["convention"] * factors["peak"] * factors["time"]
    assert product == pytest.approx(0.3904 / _own(log).mfu, rel=1e-3)
    assert found.notes == [
        "log says MFU 39.0 %, this account 33.0 %: x1.182 = FLOPs a token by torchtitan x1.125, "
        "its peak x1.000, steps without profiler x1.050"
    ]


def test_a_count_that_no_convention_explains_is_a_warning(tmp_path: Path) -> None:
    log = _read(tmp_path, _titan(flop=1.02 * TITAN_FLOP))
    found = compare(log, _own(log))
    assert found.fields["convention"] is None
    assert len(found.warnings) == 1
    assert found.warnings[0].startswith(
        "log counts 59.07 GFLOP a token: no convention within 1 %, nearest flopcounter-flash, off "
        "by -1.6 %"
    )


def test_other_tokens_are_another_job(tmp_path: Path) -> None:
    log = _read(tmp_path, _titan())
    found = compare(log, _own(log, mfu=0.20))
    assert any("is it the same job?" in text for text in found.warnings)


def test_another_model_is_said(tmp_path: Path) -> None:
    log = _read(tmp_path, _titan())
    found = compare(log, _own(log, model=load_model("Llama-3-70B")))
    assert any(
        "8,030,261,248 parameters, the model has 70,553,706,496" in t for t in found.warnings
    )


def test_a_log_that_contradicts_itself(tmp_path: Path) -> None:
    text = _titan().replace("9.890e+14", "3.120e+14")
    found = compare(_read(tmp_path, text), _own(_read(tmp_path, text)))
    assert any(
        "log contradicts itself: MFU 39.0 %, but 386.1 of 312.0" in t for t in found.warnings
    )


def test_the_log_fills_the_account(run: Any, tmp_path: Path) -> None:
    run.process(8)
    run.gpu()
    run.step(0, 0, 2_600_000)
    op = run.op("aten::mm", 0, 10, input_dims=[[4096, 4096]] * 2)
    run.op("MmBackward0", 20, 30)
    kernel = run.kernel("gemm", 0, 1_000_000, op=op, step=0, dtype="bf16")
    run.segment("flop.gemm", 0, 1_000_000, activity_id=kernel, step=0)
    run.segment("host.dispatch", 1_000_000, 2_600_000, step=0)
    store = run.done()
    assign_flops(store)
    path = tmp_path / "train.log"
    path.write_text(_titan())
    close_account(store, FlopsOptions(log=path))
    workload = store.result("workload")
    assert workload["tokens_per_step_global"] == 16 * 8192
    assert workload["parameters"] == 8_030_261_248
    assert workload["mesh"]["dp_shard"] == 8
    assert workload["source"] == {
        "parameters": "log",
        "tokens_per_step_global": "log",
        "sequences_global": "log",
        "world_size": "log",
        "mesh": "log",
    }
    assert workload["log"]["dilation"] == pytest.approx(2.6 / (16 * 8192 / (6667 * 8)), rel=1e-9)
    flop = 16 * 8192 / 8 * flops_per_token("Llama-3-8B", seq_len=8192)
    assert store.result("mfu")["value"] == pytest.approx(flop / (PEAK * 2.6))
    notes = [text for (text,) in store.rows("SELECT text FROM raw.note")]
    assert any(text.startswith("log says MFU 39.0 %, this account 32.8 %") for text in notes)
