"""What does the log of a training job say: model, mesh, batch, speed, and the MFU it claims?

Read are the logs of Megatron-LM, Megatron-Bridge, NeMo and torchtitan, by the fields of their lines
(``training.py`` and ``train_utils.py``; ``metrics.py``). Anything else in a file is passed over;
nothing is evaluated.
"""

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from statistics import median
from typing import Any

from tracelens.errors import InputError, UsageError
from tracelens.flops.megatron import job_of_arguments, read_arguments, shape_of_arguments
from tracelens.flops.presets import Model, load_model
from tracelens.flops.torchtitan import preset_of_torchtitan

_LONGEST_LINE = 1 << 16
_MOST_BYTES = 1 << 32
_MOST_STEPS = 100_000
_MOST_ARGUMENT_LINES = 20_000
_MOST_WARM_UP = 10
_ANSI = re.compile(r"\x1b\[[0-9;]{0,16}m")
_NUMBER = r"\s*([0-9][0-9,]{0,20}(?:\.[0-9]{1,20})?)"
_FIELDS = {
    "step": (
        rf"\bstep:{_NUMBER}\s+loss:",
        rf"\biteration{_NUMBER}\s*/",
        rf"\bglobal_step[:=]{_NUMBER}",
    ),
    "ms": (rf"elapsed time per iteration \(ms\):{_NUMBER}",),
    "s": (rf"train_step_timing in s[:=]{_NUMBER}", rf"\bStep Time ?:{_NUMBER}s"),
    "tera": (
        rf"throughput per GPU \(TFLOP/s/GPU\):{_NUMBER}",
        rf"GPU utilization:{_NUMBER}\s?MODEL_TFLOP/s/GPU",
        rf"\|{_NUMBER} ?MODEL_TFLOP/s/GPU",
        rf"\b(?i:TFLOPS_per_GPU|tflops_per_sec_per_gpu)[:=]{_NUMBER}",
        rf"\b(?i:tflops):{_NUMBER}",
    ),
    "percent": (rf"\bmfu:{_NUMBER}%",),
    "rate": (rf"\btps:{_NUMBER}",),
    "batch": (rf"global[ _]batch[ _]size:{_NUMBER}",),
}
_PATTERNS = {
    name: tuple(re.compile(pattern) for pattern in patterns) for name, patterns in _FIELDS.items()
}
_PEAK = re.compile(r"Peak FLOPS used for computing MFU: ([0-9.]{1,20}e\+?[0-9]{1,2})")
_MESH = re.compile(r"Building device mesh with parallelism: (.{1,300})")
_DEGREE = re.compile(r"\b(pp|dp_replicate|dp_shard|cp|tp|ep)=([0-9]{1,6})\b")
_MODEL = re.compile(r"\bModel (\S{1,60}) (\S{1,60}) size: ([0-9,]{1,25}) total parameters")
_TRAINER = re.compile(
    r"local batch size ([0-9]{1,9}), global batch size ([0-9]{1,9}).{0,100}?"
    r"sequence length ([0-9]{1,9})"
)
_WORLD = re.compile(r"using world size: ([0-9]{1,7})\b(.{0,400})")
_WORLD_DEGREE = re.compile(
    r"\b(data|context|tensor-model|pipeline-model)-parallel[ -]size: ([0-9]{1,6})"
)
_SHORT = {"data": "dp", "context": "cp", "tensor-model": "tp", "pipeline-model": "pp"}
_PROFILED = re.compile(r"Dumping (?:profiler )?traces at step ([0-9]{1,9})")
_ARGUMENT = re.compile(r"\.{2} ?\S|--[a-z]|^\s*[a-z][a-z0-9_]+: +\S")


@dataclass(frozen=True)
class LoggedStep:
    """One line of progress; what it does not say is ``None``."""

    step: int | None
    time_ns: int | None
    flop_per_s_per_gpu: float | None
    mfu: float | None
    tokens_per_s_per_gpu: float | None


@dataclass
class TrainingLog:
    """What a log says.

    Attributes:
        path: the file.
        program: megatron, bridge, nemo or torchtitan.
        model: the model, where the log describes one that is understood.
        model_reason: why there is none.
        parameters: total parameters that the program printed.
        seq_len: tokens a sequence.
        global_batch_size: sequences a step of the whole job.
        micro_batch_size: sequences of a micro-batch.
        world_size: GPUs of the job.
        mesh: degrees of parallelism.
        peak_flop_per_s: the peak that the program divides by.
        steps: progress, without the profiled steps that the log names.
    """

    path: Path
    program: str = ""
    model: Model | None = None
    model_reason: str | None = None
    parameters: int | None = None
    seq_len: int | None = None
    global_batch_size: int | None = None
    micro_batch_size: int | None = None
    world_size: int | None = None
    mesh: dict[str, int] = field(default_factory=dict)
    peak_flop_per_s: float | None = None
    steps: list[LoggedStep] = field(default_factory=list)

    @property
    def steady(self) -> list[LoggedStep]:
        """Progress after warm-up: a fifth of it, at most ten lines, is left out."""
        return self.steps[min(_MOST_WARM_UP, -(-len(self.steps) // 5)) :] or self.steps

    @property
    def step_time_ns(self) -> int | None:
        """Median time of a step; from the throughput where no time is printed."""
        times = [step.time_ns for step in self.steady if step.time_ns]
        if times:
            return round(median(times))
        rate = self.tokens_per_s_per_gpu
        tokens = self.tokens_per_step
        if not rate or not tokens or not self.world_size:
            return None
        return round(tokens / (rate * self.world_size) * 1e9)

    @property
    def tokens_per_step(self) -> int | None:
        """Tokens of one step of the whole job."""
        if not self.seq_len or not self.global_batch_size:
            return None
        return self.seq_len * self.global_batch_size

    @property
    def tokens_per_s_per_gpu(self) -> float | None:
        """Median printed throughput."""
        return _median(step.tokens_per_s_per_gpu for step in self.steady)

    @property
    def flop_per_s_per_gpu(self) -> float | None:
        """Median of the FLOP/s that the program claims."""
        return _median(step.flop_per_s_per_gpu for step in self.steady)

    @property
    def mfu(self) -> float | None:
        """Median of the MFU that the program claims."""
        return _median(step.mfu for step in self.steady)

    @property
    def flop_per_token(self) -> float | None:
        """FLOPs a token that the program must have counted to claim its FLOP/s."""
        claimed, rate = self.flop_per_s_per_gpu, self.tokens_per_s_per_gpu
        step_ns, tokens = self.step_time_ns, self.tokens_per_step
        if rate is None and step_ns and tokens and self.world_size:
            rate = tokens / (step_ns / 1e9) / self.world_size
        return claimed / rate if claimed and rate else None


def read_log(path: Path) -> TrainingLog:
    """Read a training log.

    Raises:
        InputError: if the file cannot be read or no line of it reports progress.
    """
    log = TrainingLog(path)
    reader = _Reader(log)
    try:
        for line in _lines(path):
            reader.take(line)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or 'cannot be read'}") from error
    reader.finish()
    if not log.steps:
        raise InputError(
            f"{path}: no training log: no line reports a step",
            hint="--log reads the logs of Megatron-LM, Megatron-Bridge, NeMo and torchtitan",
        )
    return log


def _lines(path: Path) -> Iterator[str]:
    """Lines without colours, cut at a length that no line of progress has."""
    read = 0
    with path.open("rb") as file:
        while read < _MOST_BYTES and (line := file.readline(_LONGEST_LINE)):
            read += len(line)
            yield from _ANSI.sub("", line.decode("utf-8", errors="replace")).split("\r")


class _Reader:
    """Gathers what the lines say."""

    def __init__(self, log: TrainingLog) -> None:
        self._log = log
        self._steps: deque[LoggedStep] = deque(maxlen=_MOST_STEPS)
        self._arguments: deque[str] = deque(maxlen=_MOST_ARGUMENT_LINES)
        self._profiled: set[int] = set()
        self._pending: float | None = None
        self._titan: tuple[str, str] | None = None

    def take(self, line: str) -> None:
        """Read one line."""
        numbers = {name: _number(name, line) for name in ("ms", "s", "tera", "percent", "rate")}
        if any(value is not None for value in numbers.values()):
            self._progress(line, numbers)
            return
        self._setting(line)
        if _ARGUMENT.search(line):
            self._arguments.append(line.rstrip("\n"))

    def finish(self) -> None:
        """Put together what was gathered."""
        log = self._log
        log.steps = [step for step in self._steps if step.step not in self._profiled]
        arguments = read_arguments("\n".join(self._arguments))
        for name, value in job_of_arguments(arguments).items():
            if name == "mesh":
                log.mesh = value | log.mesh
            elif getattr(log, name) is None:
                setattr(log, name, value)
        if log.world_size is None and log.program == "torchtitan" and log.mesh:
            log.world_size = _product(log.mesh)
        self._find_model(arguments)

    def _find_model(self, arguments: dict[str, str]) -> None:
        try:
            if self._titan is not None:
                self._log.model = load_model(preset_of_torchtitan(*self._titan))
            elif "num_layers" in arguments:
                self._log.model = shape_of_arguments(arguments)
            else:
                self._log.model_reason = "it describes no model"
        except UsageError as error:
            self._log.model_reason = str(error)

    def _progress(self, line: str, numbers: dict[str, Decimal | None]) -> None:
        log, ms, seconds = self._log, numbers["ms"], numbers["s"]
        if ms is None and seconds is not None and "Step Time" in line:
            log.program = "bridge"  # the line of the iteration follows, with a finer time
            self._pending = _positive(numbers["tera"])
            return
        batch, step = _number("batch", line), _number("step", line)
        if batch:
            log.global_batch_size = int(batch)
        if numbers["rate"] is not None:
            log.program = "torchtitan"
        elif seconds is not None:
            log.program = "nemo"
        else:
            log.program = log.program or "megatron"
        time_ns = ms * 1_000_000 if ms is not None else (seconds or 0) * 1_000_000_000
        tera = _positive(numbers["tera"]) or self._pending
        percent = _positive(numbers["percent"])
        self._pending = None
        self._steps.append(
            LoggedStep(
                None if step is None else int(step),
                round(time_ns) or None,
                None if tera is None else tera * 1e12,
                None if percent is None else percent / 100,
                _positive(numbers["rate"]),
            )
        )

    def _setting(self, line: str) -> None:
        log = self._log
        if match := _PEAK.search(line):
            log.peak_flop_per_s = _float(match[1])
        elif match := _MESH.search(line):
            log.mesh = {name: int(degree) for name, degree in _DEGREE.findall(match[1])}
        elif match := _MODEL.search(line):
            self._titan = (match[1], match[2])
            log.parameters = int(match[3].replace(",", "") or 0) or None
        elif match := _TRAINER.search(line):
            log.micro_batch_size, log.global_batch_size, log.seq_len = map(int, match.groups())
        elif match := _WORLD.search(line):
            log.world_size = int(match[1])
            degrees = _WORLD_DEGREE.findall(match[2])
            log.mesh |= {_SHORT[name]: int(size) for name, size in degrees if int(size)}
        elif match := _PROFILED.search(line):
            self._profiled.add(int(match[1]))


def _number(name: str, line: str) -> Decimal | None:
    for pattern in _PATTERNS[name]:
        if match := pattern.search(line):
            return Decimal(match[1].replace(",", ""))
    return None


def _positive(value: Decimal | None) -> float | None:
    return float(value) if value else None


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _product(mesh: dict[str, int]) -> int:
    size = 1
    for name in ("pp", "dp_replicate", "dp_shard", "cp", "tp"):
        size *= mesh.get(name, 1)
    return size


def _median(values: Any) -> float | None:
    known = [value for value in values if value]
    return float(median(known)) if known else None
