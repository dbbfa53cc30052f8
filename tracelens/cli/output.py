"""How an answer leaves the program: text for people, or data for other programs."""

from pathlib import Path

import typer

from tracelens.errors import writing

_STDOUT = Path("standard output")


def show(text: str) -> None:
    """Print text for people, in the encoding that their terminal takes."""
    with writing(_STDOUT):
        typer.echo(text)


def show_data(text: str) -> None:
    """Print data as it is: UTF-8 whatever the terminal takes, nothing added."""
    with writing(_STDOUT):
        typer.echo(text.encode("utf-8"), nl=False)
