"""Options that several commands share, and the file that can hold them."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from tracelens.errors import UsageError

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
    typer.Option(help="Model: a preset name or a Hugging Face config.json.", show_default=False),
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
SmClock = Annotated[int | None, typer.Option(help="SM clock in MHz, for --peak clock.", min=1)]
Window = Annotated[
    str | None,
    typer.Option(help="What is analysed: auto (default), all, steps:A-B, nvtx:NAME, ns:A-B."),
]
RankPattern = Annotated[
    str | None, typer.Option(help="Regular expression; its one group is the rank in the path.")
]
Nsys = Annotated[str | None, typer.Option(help="The nsys program that exports .nsys-rep files.")]
WithStacks = Annotated[bool, typer.Option("--with-stacks", help="Read Python frames too.")]
MaxMemory = Annotated[str | None, typer.Option(help="Memory limit of the database, e.g. 4GB.")]
Config = Annotated[
    Path | None,
    typer.Option(help="TOML file with any of these options, same names.", show_default=False),
]


def merged(config: Path | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """Fill options that were not given on the command line from a TOML file.

    Raises:
        UsageError: if the file cannot be read or names an option that does not exist.
    """
    values = dict(given)
    if config is None:
        return values
    try:
        table = tomllib.loads(config.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{config}: cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{config}: not TOML: {error}") from error
    for key, value in table.items():
        name = key.replace("-", "_")
        if name not in values:
            known = ", ".join(sorted(item.replace("_", "-") for item in values))
            raise UsageError(f"{config}: unknown option {key!r}", hint=f"options: {known}")
        if values[name] in (None, False):
            values[name] = value
    return values
