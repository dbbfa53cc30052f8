"""What may a user say about the model, the job and the device?"""

from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Self

from tracelens.errors import UsageError
from tracelens.flops.conventions import DEFAULT_CONVENTION, find_convention
from tracelens.flops.dtypes import required_dtype
from tracelens.flops.peaks import check_device
from tracelens.flops.presets import ModelLike
from tracelens.flops.traininglog import TrainingLog, read_log

_LIMIT = 1e30
_OF_THE_LOG = ("model", "seq_len", "global_batch_size", "micro_batch_size", "world_size")
_KINDS = ("nominal", "clock", "measured")


@dataclass(frozen=True)
class FlopsOptions:
    """Options of the FLOPs account; all of them may be left out.

    Attributes:
        model: preset name, path of a configuration, mapping or shape.
        seq_len: tokens a sequence.
        tokens_per_step: tokens of one optimizer step of the whole job.
        micro_batch_size: sequences of one micro-batch of one replica.
        global_batch_size: sequences of one optimizer step of the whole job.
        model_flops_per_step: model FLOPs of one optimizer step of the whole job.
        convention: the way of counting.
        gpu: device, when the trace does not name it or names it wrongly.
        peak: ``nominal``, ``clock``, ``measured`` or a number of TFLOP/s of one GPU.
        dtype: ``auto``, or the format whose peak is 100 %.
        sm_clock_mhz: clock that the SMs ran at: with ``peak="clock"`` it sets the denominator,
            with ``peak="nominal"`` what the clock lost.
        clock_log: log of nvidia-smi or DCGM that says the clock of every GPU instead.
        world_size: GPUs of the whole job, when the trace does not say.
        log: a training log, which speaks for options that are left out.
        from_log: names of the options that the log spoke for.
    """

    model: ModelLike | None = None
    seq_len: int | None = None
    tokens_per_step: int | None = None
    micro_batch_size: int | None = None
    global_batch_size: int | None = None
    model_flops_per_step: float | None = None
    convention: str = DEFAULT_CONVENTION
    gpu: str | None = None
    peak: str | float = "nominal"
    dtype: str = "auto"
    sm_clock_mhz: float | None = None
    clock_log: str | Path | None = None
    world_size: int | None = None
    log: TrainingLog | str | Path | None = None
    from_log: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        find_convention(self.convention)
        if self.gpu is not None and self.user_peak is None:
            check_device(self.gpu)
        if self.dtype != "auto":
            required_dtype(self.dtype)
        for name in (
            "seq_len",
            "tokens_per_step",
            "micro_batch_size",
            "global_batch_size",
            "model_flops_per_step",
            "sm_clock_mhz",
            "world_size",
        ):
            value = getattr(self, name)
            if value is not None and not _is_positive(value):
                raise UsageError(
                    f"{name.replace('_', ' ')} must be a sensible number above 0, not {value}"
                )
        kind = self.peak_kind
        if self.sm_clock_mhz is not None and self.clock_log is not None:
            raise UsageError("--sm-clock and --clock-log both say the clock", hint="give one")
        has_clock = self.sm_clock_mhz is not None or self.clock_log is not None
        if kind == "clock" and not has_clock:
            raise UsageError(
                "--peak clock needs the clock", hint="give --sm-clock MHZ or --clock-log FILE"
            )
        if has_clock and kind not in {"clock", "nominal"}:
            option = "--sm-clock" if self.clock_log is None else "--clock-log"
            raise UsageError(
                f"{option} says nothing of --peak {self.peak}",
                hint="give it with --peak nominal (a loss) or --peak clock (the denominator)",
            )

    def with_log(self) -> Self:
        """Return the same options, with what the training log says in place of those left out.

        Raises:
            InputError: if the file is no training log.
        """
        if self.log is None:
            return self
        log = self.log if isinstance(self.log, TrainingLog) else read_log(Path(self.log))
        said = {name: getattr(log, name) for name in _OF_THE_LOG}
        if self.tokens_per_step is not None:
            said.pop("global_batch_size")
        found = {
            name: value
            for name, value in said.items()
            if value is not None and getattr(self, name) is None
        }
        return replace(self, log=log, from_log=frozenset(found), **found)

    @property
    def training_log(self) -> TrainingLog | None:
        """The log, once it was read."""
        return self.log if isinstance(self.log, TrainingLog) else None

    @property
    def peak_kind(self) -> str:
        """``nominal``, ``clock``, ``measured`` or ``user``."""
        return "user" if self.user_peak is not None else str(self.peak)

    @property
    def user_peak(self) -> float | None:
        """Peak in FLOP/s that the user gave as a number of TFLOP/s.

        Raises:
            UsageError: if it is neither a kind nor a number above 0.
        """
        if self.peak in _KINDS:
            return None
        try:
            tera = float(self.peak)
        except ValueError:
            tera = 0.0
        if not (isfinite(tera) and 0 < tera < 1e9):
            raise UsageError(
                f"peak {self.peak!r}", hint=f"one of {', '.join(_KINDS)}, or a number of TFLOP/s"
            )
        return tera * 1e12

    @property
    def tokens(self) -> int | None:
        """Tokens of one optimizer step of the whole job, as far as the options give them."""
        if self.tokens_per_step is not None:
            return self.tokens_per_step
        if self.global_batch_size is not None and self.seq_len is not None:
            return self.global_batch_size * self.seq_len
        return None


def _is_positive(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return isfinite(value) and 0 < value < _LIMIT
