"""Any pipe, any encoding: the program ends quietly and shows what the other end can take."""

import json
import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_any_encoding_of_a_terminal(program, sample, encoding):
    done = program("attribute", sample, PYTHONIOENCODING=encoding, LC_ALL="C")
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"TraceLens ")


def test_data_is_utf_8_whatever_the_terminal_takes(program, kept):
    query = "SELECT '·█ü' AS name"
    done = program("sql", kept, query, "--format", "csv", PYTHONIOENCODING="latin-1")
    assert done.stdout.decode("utf-8") == "name\n·█ü\n"
    done = program("sql", kept, query, "--format", "json", PYTHONIOENCODING="ascii")
    assert json.loads(done.stdout) == [{"name": "·█ü"}]
    done = program("sql", kept, query, PYTHONIOENCODING="latin-1")
    assert done.stdout.decode("latin-1").splitlines()[-1] == "·?ü"


def test_an_error_in_any_encoding(program):
    done = program("attribute", "nöfile·█", PYTHONIOENCODING="ascii")
    assert done.returncode == 6
    assert done.stderr.startswith(b"error: n?file??: no such file\n")


def test_a_reader_that_leaves(kept):
    query = "SELECT * FROM range(1000000)"
    command = [sys.executable, "-m", "tracelens", "sql", str(kept), query, "--format", "csv"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout.readline() == b"range\n"
        running.stdout.close()
        assert running.stderr.read() == b""


def test_standard_output_closed_or_full(trace):
    command = [sys.executable, "-m", "tracelens", "attribute", str(trace)]
    closed = subprocess.run(
        ["/bin/sh", "-c", 'exec "$@" >&-', "sh", *command],
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert (closed.returncode, closed.stderr) == (0, b"")
    if os.path.exists("/dev/full"):  # noqa: PTH110
        with open("/dev/full", "wb") as full:  # noqa: PTH123
            done = subprocess.run(
                command, stdout=full, stderr=subprocess.PIPE, check=False, timeout=60
            )
        assert done.returncode == 2
        assert done.stderr.startswith(b"error: standard output: cannot be written")
