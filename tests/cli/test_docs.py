"""Does every command and every piece of Python in the documentation run as it stands there?

They run in a folder that holds what the pages speak of: traces under the names that the pages use,
a training log, an ``nsys`` that exports.
"""

import contextlib
import io
import re
import shlex
import shutil
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PAGES = (
    "README.md",
    *sorted(f"docs/how-to/{path.name}" for path in REPOSITORY.glob("docs/how-to/*.md")),
)
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
NEEDS_A_GPU = ("torch", "train.py")
LOG = (
    "[titan] - root - INFO - Model llama3 8B size: 8,030,261,248 total parameters\n"
    "[titan] - root - INFO - step: 10  loss: 8.0  memory: 63.1GiB(79.86%)  tps: 6,667  "
    "tflops: 386.00  mfu: 39.03%\n"
)
NSYS = """#!/bin/sh
[ "$1" = --version ] && echo "NVIDIA Nsight Systems version 2023.4.4.54-234433681190v0" && exit
while [ $# -gt 1 ]; do [ "$1" = -o ] && out="$2"; shift; done
cp "{export}" "$out"
"""


def blocks(page: str, language: str) -> list[str]:
    text = (REPOSITORY / page).read_text(encoding="utf-8")
    return [body for kind, body in BLOCK.findall(text) if kind == language]


def commands(page: str) -> list[list[str]]:
    """Every command of ours, without its comment; what others provide is not ours to run."""
    lines = "\n".join(blocks(page, "sh")).replace("\\\n", " ").splitlines()
    parts = [part for line in lines for part in line.split(" && ")]
    split = [shlex.split(part, comments=True) for part in parts]
    return [words for words in split if words and words[0] == "tracelens"]


@pytest.fixture(scope="module", name="place")
def _place(samples, tmp_path_factory):
    place = tmp_path_factory.mktemp("docs")
    (place / "sample_traces").symlink_to(samples)
    for name in ("trace.json.gz", "trace.json"):
        shutil.copy(samples / "single_gpu.json.gz", place / name)
    shutil.copy(samples / "single_gpu.sqlite", place / "export.sqlite")
    for folder in ("traces", "nightly"):
        (place / folder).mkdir()
        for path in (samples / "data_parallel").glob("rank*.json.gz"):
            shutil.copy(path, place / folder)
    (place / "train.log").write_text(LOG)
    (place / "report.nsys-rep").write_bytes(
        b"NVIDIA Tegra Profiler Report 2023@4@4@54-234433681190v0."
        + bytes(200)
        + (100).to_bytes(8, "little")
        + b"U3w[END]"
    )
    program = place / "bin" / "nsys"
    program.parent.mkdir()
    program.write_text(NSYS.format(export=samples / "single_gpu.sqlite"))
    program.chmod(0o755)
    return place


@pytest.fixture(autouse=True)
def _inside(place, monkeypatch):
    monkeypatch.chdir(place)
    monkeypatch.setenv("PATH", str(place / "bin"), prepend=":")


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)])
def test_commands_run(cli, page):
    for words in commands(page):
        done = cli(*words[1:])
        assert (done.code, done.err) == (0, ""), shlex.join(words)
        assert done.out or "--store" in words, shlex.join(words)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")])
def test_python_runs(page):
    """The blocks of a page are one program; the last line of each may be an expression."""
    names: dict[str, object] = {}
    for block in blocks(page, "python"):
        if not any(word in block for word in NEEDS_A_GPU):
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(block, page, "exec"), names)


def test_there_is_something_to_run():
    assert sum(len(commands(page)) for page in PAGES) > 12
    assert sum(len(blocks(page, "python")) for page in PAGES) > 8
