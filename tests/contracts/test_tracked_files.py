"""Nothing of the machine or network that a file was written on is part of the project."""

import re
import shutil
import subprocess

import pytest

# Put together from parts, so that this file does not hold what it looks for.
HOSTS = ["pypi" + ".org", "python" + "hosted", "ana" + "conda.org", "npm" + "js", "index" + "-url"]
PATHS = ["/wo" + "rk/", "/ro" + "ot/"]
FORBIDDEN = re.compile("|".join([*map(re.escape, HOSTS), *PATHS]))


@pytest.fixture(scope="module")
def tracked(repository):
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    done = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=repository,
        capture_output=True,
        check=False,
    )
    if done.returncode != 0:
        pytest.skip("not a Git checkout")
    paths = [repository / name for name in done.stdout.decode().split("\0") if name]
    return [path for path in paths if path.is_file()]


def test_no_host_or_machine_path(repository, tracked):
    found = []
    for path in tracked:
        text = path.read_bytes().decode("utf-8", errors="ignore")
        found += [(str(path.relative_to(repository)), hit) for hit in FORBIDDEN.findall(text)]
    assert tracked
    assert found == []


def test_files_are_small_enough_to_clone(repository, tracked):
    limit_bytes = 1_000_000
    assert {
        str(path.relative_to(repository)): path.stat().st_size
        for path in tracked
        if path.stat().st_size > limit_bytes
    } == {}
