"""The program as a user runs it: arguments in; status, standard output and standard error out."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import tracelens
from tracelens.cli import main

KERNEL = {
    "ph": "X",
    "cat": "kernel",
    "name": "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64",
    "pid": 0,
    "tid": 7,
    "ts": 100.0,
    "dur": 50.0,
    "args": {"device": 0, "stream": 7, "correlation": 1},
}
LAUNCH = {
    "ph": "X",
    "cat": "cuda_runtime",
    "name": "cudaLaunchKernel",
    "pid": 10,
    "tid": 10,
    "ts": 90.0,
    "dur": 5.0,
    "args": {"correlation": 1},
}


@dataclass(frozen=True)
class Done:
    """How a run of the program ended."""

    code: int
    out: str
    err: str


@pytest.fixture
def cli(capsys, monkeypatch):
    """Run the program in this process."""
    handler = signal.getsignal(signal.SIGPIPE)

    def run(*arguments: Any) -> Done:
        monkeypatch.setattr(sys, "argv", ["tracelens", *map(str, arguments)])
        capsys.readouterr()
        try:
            main()
        except SystemExit as left:
            code = left.code
        out, err = capsys.readouterr()
        return Done(code or 0, out, err)

    yield run
    signal.signal(signal.SIGPIPE, handler)


@pytest.fixture
def program():
    """Run the program as one of its own, which takes a second or two."""

    def run(*arguments: Any, **environment: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [sys.executable, "-m", "tracelens", *map(str, arguments)],
            env={**os.environ, **environment},
            capture_output=True,
            timeout=120,
            check=False,
        )

    return run


@pytest.fixture
def trace(tmp_path) -> Path:
    """The smallest trace: one launch, one kernel of 50 µs."""
    return _write(tmp_path / "small.json", [LAUNCH, KERNEL])


@pytest.fixture
def cpu_trace(tmp_path) -> Path:
    """A trace of a host that launches nothing."""
    event = {**LAUNCH, "cat": "cpu_op", "name": "aten::add", "args": {}}
    return _write(tmp_path / "cpu.json", [event])


def _write(path: Path, events: list[dict[str, Any]]) -> Path:
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return path


@pytest.fixture(scope="session")
def sample(samples) -> Path:
    return samples / "single_gpu.json.gz"


@pytest.fixture(scope="session")
def kept(sample, tmp_path_factory) -> Path:
    """A kept store of the sample; tests only read it."""
    path = tmp_path_factory.mktemp("kept") / "run.duckdb"
    tracelens.attribute(sample, store=path).close()
    return path
