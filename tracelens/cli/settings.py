"""Options that several commands share, and the file that can hold them."""

import functools
import inspect
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, cast, get_args

import typer

from tracelens.errors import UsageError

_TAKES: dict[Any, tuple[tuple[type, ...], str]] = {
    bool: ((bool,), "true or false"),
    int: ((int,), "a whole number"),
    float: ((int, float), "a number"),
}
_TEXT = ((str, int, float), "text")


def read_config(context: typer.Context, config: Path | None) -> Path | None:
    """Let a TOML file speak for the options that the command line leaves out.

    Raises:
        UsageError: if the file cannot be read, names an option that the command does not have, or
            holds a value of another kind.
    """
    if config is not None:
        options = _options_of(context)
        context.default_map = {}
        for key, value in _table(config).items():
            name = options.get(key.replace("_", "-"))
            if name is None:
                known = ", ".join(sorted(options))
                raise UsageError(f"{config}: unknown option {key!r}", hint=f"options: {known}")
            kind = _kind_of(context, name)
            context.default_map[name] = _checked(f"{config}: {key}", kind, value)
    return config


def _options_of(context: typer.Context) -> dict[str, str]:
    """Return the options of a command as they are spelled, with the parameter that takes each."""
    return {
        flag.removeprefix("--"): str(option.name)
        for option in context.command.params
        for flag in option.opts
        if flag.startswith("--") and flag not in {"--config", "--help"}
    }


def _kind_of(context: typer.Context, name: str) -> Any:
    parameters = inspect.signature(cast("Any", context.command.callback)).parameters
    annotation = get_args(parameters[name].annotation)[0]
    kinds = [kind for kind in get_args(annotation) if kind is not type(None)]
    return kinds[0] if kinds else annotation


def _checked(where: str, kind: Any, value: Any) -> Any:
    """Return a value as the command line would give it."""
    types, name = _TAKES.get(kind, _TEXT)
    if not isinstance(value, types) or (isinstance(value, bool) and kind is not bool):
        raise UsageError(f"{where} must be {name}, not {value!r}")
    return value if kind in _TAKES else str(value)


def _table(config: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(config.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{config}: cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{config}: not TOML: {error}") from error


Traces = Annotated[
    list[str],
    typer.Argument(
        metavar="TRACE...",
        help="File, folder or glob: .nsys-rep, Nsight .sqlite or .parquetdir, PyTorch .json(.gz). "
        "Several files are the ranks of one run.",
        show_default=False,
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        help="Model: a preset, a config.json, Megatron arguments, a torchtitan TOML, or a list "
        "of layers (JSON).",
        show_default=False,
    ),
]
Log = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Training log of Megatron, Megatron-Bridge, NeMo or torchtitan: model, batch, speed.",
        show_default=False,
    ),
]
SeqLen = Annotated[int | None, typer.Option(help="Sequence length in tokens.", min=1)]
TokensPerStep = Annotated[
    int | None, typer.Option(help="Tokens per optimizer step, whole job.", min=1)
]
MicroBatch = Annotated[int | None, typer.Option(help="Sequences per micro-batch, per GPU.", min=1)]
GlobalBatch = Annotated[
    int | None, typer.Option(help="Sequences per optimizer step, whole job.", min=1)
]
ModelFlops = Annotated[
    float | None, typer.Option(help="Model FLOP per optimizer step, whole job.", min=0)
]
Convention = Annotated[
    str | None, typer.Option(help="FLOPs convention: causal (default), full, megatron, palm, ...")
]
WorldSize = Annotated[
    int | None, typer.Option(help="GPUs of the whole job, where the trace does not say.", min=1)
]
Gpu = Annotated[
    str | None, typer.Option(help="Device, where the trace does not name it, e.g. h100.")
]
Peak = Annotated[
    str | None,
    typer.Option(help="100 % is: nominal (default), clock, measured, or a number of TFLOP/s."),
]
Dtype = Annotated[
    str | None, typer.Option(help="Rate against the peak of this dtype; default: as executed.")
]
SmClock = Annotated[
    int | None, typer.Option(help="SM clock in MHz: what it lost, or --peak clock.", min=1)
]
ClockLog = Annotated[
    str | None, typer.Option(help="CSV of nvidia-smi or DCGM with the SM clock of every GPU.")
]
Window = Annotated[
    str | None,
    typer.Option(help="What is analysed: auto (default), all, steps:A-B, nvtx:NAME, ns:A-B."),
]
RankPattern = Annotated[
    str | None, typer.Option(help="Regular expression; its one group is the rank in the path.")
]
GpuHourPrice = Annotated[
    float | None,
    typer.Option(help="Price of a GPU-hour: losses also in GPU-hours and money a day.", min=0),
]
Nsys = Annotated[str | None, typer.Option(help="The nsys program that exports .nsys-rep files.")]
WithStacks = Annotated[bool, typer.Option("--with-stacks", help="Read Python frames too.")]
MaxMemory = Annotated[str | None, typer.Option(help="Memory limit of the database, e.g. 4GB.")]
Config = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="TOML file with any of these options, same names.",
        show_default=False,
        callback=read_config,
        is_eager=True,
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress, no report.")]

ANALYSIS: dict[str, Any] = {
    "log": Log,
    "model": Model,
    "seq_len": SeqLen,
    "tokens_per_step": TokensPerStep,
    "micro_batch_size": MicroBatch,
    "global_batch_size": GlobalBatch,
    "model_flops_per_step": ModelFlops,
    "convention": Convention,
    "world_size": WorldSize,
    "gpu": Gpu,
    "peak": Peak,
    "dtype": Dtype,
    "sm_clock": SmClock,
    "clock_log": ClockLog,
    "window": Window,
    "rank_pattern": RankPattern,
    "gpu_hour_price": GpuHourPrice,
    "nsys": Nsys,
    "with_stacks": WithStacks,
    "max_memory": MaxMemory,
}
"""What may be said about an analysis, by any command that runs one."""


def takes_analysis(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of an analysis, and a file that can hold any option.

    Those that were given reach its parameter ``options``.
    """

    @functools.wraps(command)
    def wrapped(**values: Any) -> None:
        del values["config"]  # it has spoken through the other options
        chosen = {name: values.pop(name) for name in ANALYSIS}
        # By identity: 0 is an answer, and equals False.
        given = {
            name: value
            for name, value in chosen.items()
            if value is not None and value is not False
        }
        command(**values, options=given)

    own = inspect.signature(command)
    parameters = [item for item in own.parameters.values() if item.name != "options"]
    parameters += [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=False if kind is WithStacks else None,
            annotation=kind,
        )
        for name, kind in {**ANALYSIS, "config": Config}.items()
    ]
    wrapped.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    wrapped.__annotations__ = {item.name: item.annotation for item in parameters}
    return wrapped
