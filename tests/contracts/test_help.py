"""The first contact: ``tracelens --help`` answers at once and names the commands."""

import os
import subprocess
import sys

COMMANDS = {"attribute", "report", "batch", "flops", "sql", "simulate"}
HEAVY = {"pandas", "plotly", "duckdb", "pyarrow", "numpy", "jinja2"}
SHOW_HELP = """
import sys
sys.argv = ["tracelens", "--help"]
from tracelens.cli import main
try:
    code = main()
except SystemExit as stop:
    code = stop.code
print("exit:", code or 0, file=sys.stderr)
print("modules:", *sorted({name.partition(".")[0] for name in sys.modules}), file=sys.stderr)
"""


def shown_help():
    return subprocess.run(
        [sys.executable, "-c", SHOW_HELP],
        env={**os.environ, "COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_help_lists_the_commands_and_imports_nothing_heavy():
    done = shown_help()
    assert "exit: 0" in done.stderr, done.stderr
    listed = done.stdout.partition("Commands:")[2].splitlines()
    assert {line.split()[0] for line in listed if line[2:3].isalpha()} == COMMANDS
    modules = set(done.stderr.partition("modules:")[2].split())
    assert modules & HEAVY == set()


def test_the_module_is_the_same_program():
    done = subprocess.run(
        [sys.executable, "-m", "tracelens", "--help"],
        env={**os.environ, "COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    # The first line names the program as it was started.
    assert done.stdout.partition("[OPTIONS]")[2] == shown_help().stdout.partition("[OPTIONS]")[2]
