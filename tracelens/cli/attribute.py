"""``tracelens attribute``: the main job."""

import dataclasses
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from tracelens.cli import settings
from tracelens.cli.progress import Progress
from tracelens.errors import UsageError


def attribute(
    traces: settings.Traces,
    model: settings.Model = None,
    seq_len: settings.SeqLen = None,
    tokens_per_step: settings.TokensPerStep = None,
    micro_batch_size: settings.MicroBatch = None,
    global_batch_size: settings.GlobalBatch = None,
    model_flops_per_step: settings.ModelFlops = None,
    convention: settings.Convention = None,
    world_size: settings.WorldSize = None,
    gpu: settings.Gpu = None,
    peak: settings.Peak = None,
    dtype: settings.Dtype = None,
    sm_clock: settings.SmClock = None,
    window: settings.Window = None,
    rank_pattern: settings.RankPattern = None,
    nsys: settings.Nsys = None,
    with_stacks: settings.WithStacks = False,
    config: settings.Config = None,
    json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the self-contained HTML report.")
    ] = None,
    store: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Keep the database for tracelens sql.")
    ] = None,
    all_rows: Annotated[bool, typer.Option("--all", help="Show every loss.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress, no report.")] = False,
    no_color: Annotated[bool, typer.Option("--no-color", help="Plain text.")] = False,
    max_memory: settings.MaxMemory = None,
) -> None:
    """Attribute every nanosecond of every GPU and close the account from peak to MFU."""
    values = settings.merged(
        config,
        {
            "model": model,
            "seq_len": seq_len,
            "tokens_per_step": tokens_per_step,
            "micro_batch_size": micro_batch_size,
            "global_batch_size": global_batch_size,
            "model_flops_per_step": model_flops_per_step,
            "convention": convention,
            "world_size": world_size,
            "gpu": gpu,
            "peak": peak,
            "dtype": dtype,
            "sm_clock": sm_clock,
            "window": window,
            "rank_pattern": rank_pattern,
            "nsys": nsys,
            "with_stacks": with_stacks,
            "max_memory": max_memory,
        },
    )
    _check_target(html)
    run = analyzed(traces, values, store, quiet=quiet)
    with run:
        if html is not None:
            run.save_html(html)
        if json:
            from tracelens.report import dumps

            typer.echo(dumps(run.to_dict()))
        elif not quiet:
            typer.echo(run.render(all_rows=all_rows, color=_color(no_color), width=100))


def analyzed(traces: list[str], values: dict[str, Any], store: Path | None, *, quiet: bool) -> Any:
    """Run the analysis with progress on stderr and return the run."""
    from tracelens.pipeline import analyze
    from tracelens.run import Run, new_store, options_from

    progress = Progress(quiet=quiet)
    given = dict(values)
    max_memory = given.pop("max_memory", None)
    options = options_from({"sm_clock_mhz": given.pop("sm_clock", None), **given})
    reading = dataclasses.replace(
        options.reading,
        progress=progress.reading,
        cache_dir=store.parent if store else None,
    )
    options = dataclasses.replace(options, reading=reading, on_stage=progress.stage)
    database = new_store(store, max_memory)
    try:
        analyze(traces, database, options)
        return Run(database)
    except BaseException:
        # Half a store would look like an answer.
        database.close()
        if store is not None:
            store.unlink(missing_ok=True)
        raise
    finally:
        progress.clear()


def _check_target(path: Path | None) -> None:
    if path is not None and not path.parent.is_dir():
        raise UsageError(f"{path}: the folder does not exist")


def _color(no_color: bool) -> bool:
    return not no_color and sys.stdout.isatty() and "NO_COLOR" not in os.environ
