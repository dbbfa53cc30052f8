"""``tracelens simulate``: traces with planted losses whose answers are known."""

import enum
from pathlib import Path
from typing import Annotated

import typer

from tracelens.cli.output import show
from tracelens.errors import UsageError, writing


class Formats(enum.StrEnum):
    """Which families of traces are written."""

    kineto = "kineto"
    nsys = "nsys"
    both = "both"


class KinetoDialect(enum.StrEnum):
    """Which generation of PyTorch's profiler writes Kineto traces."""

    ns = "ns"
    epoch = "epoch"
    us = "us"


class NsysVersion(enum.StrEnum):
    """Which release of Nsight Systems exports."""

    v2022_4 = "2022.4"
    v2023_4 = "2023.4"
    v2025_5 = "2025.5"
    v2026_2 = "2026.2"


_DIALECT_HELP = (
    "Kineto traces as PyTorch 2.6 and later (ns), a nightly of 2024 with nanoseconds since the"
    " epoch (epoch), or PyTorch 1.12 to 2.3 with whole microseconds (us) wrote them."
)


def simulate(
    scenario: Annotated[str | None, typer.Argument(help="Name of a scenario.")] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder to write to; made if absent.")
    ] = None,
    format: Annotated[Formats, typer.Option(help="Kind of trace.")] = Formats.both,
    seed: Annotated[int, typer.Option(help="Seed of the run.", min=0)] = 0,
    dialect: Annotated[KinetoDialect, typer.Option(help=_DIALECT_HELP)] = KinetoDialect.ns,
    nsys_version: Annotated[
        NsysVersion, typer.Option(help="Release of Nsight Systems whose tables are written.")
    ] = NsysVersion.v2025_5,
    show_list: Annotated[bool, typer.Option("--list", help="List the scenarios.")] = False,
) -> None:
    """Write traces with planted losses and a truth file that says what was planted."""
    from tracelens import simulate as simulation

    if show_list:
        width = max(map(len, simulation.SCENARIOS))
        for name, planned in simulation.SCENARIOS.items():
            show(f"{name:{width}s} {planned.title}")
        return
    if scenario is None or out is None:
        raise UsageError("give a scenario and --out DIR", hint="tracelens simulate --list")
    if scenario not in simulation.SCENARIOS:
        raise UsageError(f"no scenario {scenario!r}", hint="tracelens simulate --list")
    run = simulation.simulate(scenario, seed=seed)
    written_as = simulation.Dialect(dialect.value, nsys_version.value)
    with writing(out):
        written = simulation.write(run, out, format.value, written_as)
    for path in written:
        show(str(path))
