"""``tracelens simulate``: traces with planted losses whose answers are known."""

import enum
from pathlib import Path
from typing import Annotated

import typer

from tracelens.errors import UsageError


class Formats(enum.StrEnum):
    """Which families of traces are written."""

    kineto = "kineto"
    nsys = "nsys"
    both = "both"


def simulate(
    scenario: Annotated[str | None, typer.Argument(help="Name of a scenario.")] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder to write to; made if absent.")
    ] = None,
    format: Annotated[Formats, typer.Option(help="Kind of trace.")] = Formats.both,
    seed: Annotated[int, typer.Option(help="Seed of the run.", min=0)] = 0,
    show_list: Annotated[bool, typer.Option("--list", help="List the scenarios.")] = False,
) -> None:
    """Write traces with planted losses and a truth file that says what was planted."""
    from tracelens import simulate as simulation

    if show_list:
        for name, planned in simulation.SCENARIOS.items():
            typer.echo(f"{name:16s} {planned.title}")
        return
    if scenario is None or out is None:
        raise UsageError("give a scenario and --out DIR", hint="tracelens simulate --list")
    if scenario not in simulation.SCENARIOS:
        raise UsageError(f"no scenario {scenario!r}", hint="tracelens simulate --list")
    run = simulation.simulate(scenario, seed=seed)
    for path in simulation.write(run, out, format.value):
        typer.echo(str(path))
