"""``tracelens attribute --compat hta``: the figures of another tool, for comparison."""

import typer

from tracelens.errors import UsageError

_COLUMNS = ("idle_us", "compute_us", "non_compute_us", "kernel_us", "overlap_pct")


def print_compat(traces: list[str], tool: str, *, as_json: bool) -> None:
    """Print what another tool says of each file.

    Raises:
        UsageError: if the tool is not one whose figures are known.
    """
    if tool != "hta":
        raise UsageError(f"--compat {tool}: not known", hint="one of: hta")
    from tracelens.pipeline import compare_with_hta
    from tracelens.report import dumps

    found = compare_with_hta(traces)
    rows = [
        {"file": str(path), **(figures.to_dict() if figures else dict.fromkeys(_COLUMNS))}
        for path, figures in found.items()
    ]
    if as_json:
        typer.echo(dumps({"tool": "hta", "version": "0.5.0", "files": rows}))
        return
    typer.echo("".join(f"{name:>16}" for name in _COLUMNS) + "  file")
    for row in rows:
        cells = ("-" if row[name] is None else str(row[name]) for name in _COLUMNS)
        typer.echo("".join(f"{cell:>16}" for cell in cells) + f"  {row['file']}")
