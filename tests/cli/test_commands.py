"""Commands and options are a contract: they grow, nothing vanishes, all have help."""

import pytest
import typer

from tracelens.cli.app import app
from tracelens.store.database import version

ANALYSIS = {
    "--log",
    "--model",
    "--seq-len",
    "--tokens-per-step",
    "--micro-batch-size",
    "--global-batch-size",
    "--model-flops-per-step",
    "--convention",
    "--world-size",
    "--gpu",
    "--peak",
    "--dtype",
    "--sm-clock",
    "--clock-log",
    "--gpu-hour-price",
    "--window",
    "--rank-pattern",
    "--nsys",
    "--with-stacks",
    "--max-memory",
    "--config",
}
FROZEN = {
    "attribute": ANALYSIS
    | {"--json", "--html", "--perfetto", "--store", "--all", "--quiet", "--no-color", "--compat"},
    "report": ANALYSIS | {"--html", "--quiet"},
    "batch": ANALYSIS | {"--lake"},
    "flops": {
        "--model",
        "--seq",
        "--gpu",
        "--dtype",
        "--tokens-per-second-per-gpu",
        "--tokens-per-s-per-gpu",
        "--convention",
        "--json",
    },
    "sql": {"--format", "--output"},
    "simulate": {"--out", "--format", "--seed", "--dialect", "--nsys-version", "--list"},
}
COMMANDS = typer.main.get_command(app).commands


def options(command):
    return {flag: item for item in command.params for flag in item.opts if flag.startswith("--")}


def test_commands_and_options_are_those_frozen_here():
    assert {name: set(options(command)) for name, command in COMMANDS.items()} == FROZEN


def test_an_option_means_the_same_everywhere():
    texts = {}
    for name in ("attribute", "report", "batch"):
        for flag, item in options(COMMANDS[name]).items():
            if flag in ANALYSIS:
                texts.setdefault(flag, set()).add(item.help)
    assert {flag: len(helps) for flag, helps in texts.items()} == dict.fromkeys(ANALYSIS, 1)


@pytest.mark.parametrize("name", FROZEN)
def test_every_command_and_option_has_help(cli, name):
    assert [flag for flag, item in options(COMMANDS[name]).items() if not item.help] == []
    done = cli(name, "--help")
    assert (done.code, done.err) == (0, "")
    assert [flag for flag in FROZEN[name] if flag not in done.out] == []


def test_version(cli):
    done = cli("--version")
    assert (done.code, done.out) == (0, f"tracelens {version()}\n")


def test_no_command_shows_the_help(cli):
    done = cli()
    assert done.code in {0, 2}  # releases of click differ
    assert "attribute" in done.out + done.err
