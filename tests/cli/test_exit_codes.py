"""Exit statuses are a contract: each kind of failure has its own, and none shows a traceback."""

import shutil
import signal
import subprocess
import sys
import time

import pytest

from tracelens.attribution import stage

SLOW = """
import sys, time
from pathlib import Path
import tracelens.run

trace, store, ready = sys.argv[1:]

def analyze(*_):
    Path(ready).touch()
    time.sleep(60)

tracelens.run.analyze = analyze
from tracelens.cli import main
sys.argv = ["tracelens", "attribute", trace, "--store", store]
main()
"""


def told(done):
    """Return the message of a failure, which leaves nothing on standard output."""
    assert done.out == ""
    assert done.err.startswith("error: ")
    assert "Traceback" not in done.err
    return done.err


def test_0_an_answer(cli, trace):
    done = cli("attribute", trace)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("TraceLens")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--window", "steps"], "--window"),
        (["--gpu", "typo"], "--gpu typo: no such device is listed"),
        (["--peak", "lots"], "peak 'lots'"),
        (["--model", "typo", "--seq-len", "8", "--tokens-per-step", "8"], "unknown model"),
        (["--convention", "typo"], "unknown convention"),
        (["--dtype", "typo"], "unknown dtype"),
        (["--sm-clock", "1755", "--peak", "900"], "--sm-clock says nothing of --peak 900"),
        (["--rank-pattern", "("], "rank"),
        (["--max-memory", "zz"], "--max-memory zz: not a size"),
        (["--max-memory", "1kB"], "the database needs more memory"),
        (["--compat", "typo"], "--compat typo: not known"),
    ],
)
def test_2_usage(cli, trace, arguments, message):
    done = cli("attribute", trace, *arguments)
    assert done.code == 2
    assert message in told(done)


def test_2_an_unknown_device_names_those_that_are_known(cli, trace):
    for done in (
        cli("attribute", trace, "--gpu", "typo"),
        cli("flops", "--model", "gpt2", "--seq", 8, "--gpu", "typo"),
    ):
        assert done.code == 2
        assert "H100-SXM5-80GB, " in told(done).partition("hint:")[2]


@pytest.mark.parametrize("arguments", [["--nope"], ["--seq-len", "0"], ["--seq-len", "x"]])
def test_2_what_the_parser_refuses(cli, trace, arguments):
    done = cli("attribute", trace, *arguments)
    assert (done.code, done.out) == (2, "")
    assert arguments[0] in done.err


def test_3_an_identity_is_violated(cli, trace, monkeypatch):
    check = stage.check_partition

    def after_a_loss(store):
        store.execute("UPDATE raw.segment SET end_ns = end_ns - 1")
        return check(store)

    monkeypatch.setattr(stage, "check_partition", after_a_loss)
    done = cli("attribute", trace, "--json")
    assert done.code == 3
    assert "window 50000 ns, charged 49999 ns" in told(done)


def test_4_no_work_of_a_gpu(cli, cpu_trace):
    done = cli("attribute", cpu_trace)
    assert done.code == 4
    assert "hint:" in told(done)


@pytest.mark.parametrize("content", [None, b"", b"\x00\x01\x02", b"{", b"[1, 2]"])
def test_6_no_input(cli, tmp_path, content):
    path = tmp_path / "trace.json"
    if content is not None:
        path.write_bytes(content)
    done = cli("attribute", path)
    assert done.code == 6
    assert str(path) in told(done)


def test_7_no_nsys(cli, tmp_path):
    report = tmp_path / "run.nsys-rep"
    version = b"2023@4@4@54-234433681190v0"
    end = (100).to_bytes(8, "little") + b"U3w[END]"
    report.write_bytes(b"NVIDIA Tegra Profiler Report " + version + b"." + b"\0" * 200 + end)
    done = cli("attribute", report, "--nsys", "/nonexistent")
    assert done.code == 7
    assert "/nonexistent: not found or not a program" in told(done)


def test_1_a_bug_asks_to_be_reported(cli, trace, monkeypatch):
    monkeypatch.setattr(stage, "check_partition", lambda store: 1 / 0)
    done = cli("attribute", trace)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("Traceback")
    assert "bug of TraceLens; please report" in done.err


def test_130_interrupted_keeps_the_store_and_leaves_nothing_else(kept, trace, tmp_path):
    store = tmp_path / "kept" / "run.duckdb"
    ready = tmp_path / "ready"
    store.parent.mkdir()
    shutil.copy(kept, store)
    running = subprocess.Popen(
        [sys.executable, "-c", SLOW, str(trace), str(store), str(ready)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with running:
        until_s = time.monotonic() + 60
        while not ready.exists() and time.monotonic() < until_s:
            time.sleep(0.02)
        assert ready.exists()
        assert len(list(store.parent.iterdir())) == 2
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=30)
    assert (running.returncode, out, err) == (130, b"", b"")
    assert list(store.parent.iterdir()) == [store]
    assert store.read_bytes() == kept.read_bytes()


def test_130_a_long_query_can_be_interrupted(kept):
    endless = "SELECT sum(random()) FROM range(100_000_000_000)"
    running = subprocess.Popen(
        [sys.executable, "-m", "tracelens", "sql", str(kept), endless],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with running:
        time.sleep(3)
        assert running.poll() is None
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=30)
    assert (running.returncode, out, err) == (130, b"", b"")
