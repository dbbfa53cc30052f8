"""Are the shipped samples what the simulator writes today, and does their README say the truth?"""

import gzip
import json
import sqlite3
from pathlib import Path

import pytest

from tracelens.simulate import simulate, write

FOLDERS = {"single_gpu": ".", "data_parallel": "data_parallel"}
LIMIT_BYTES = 1 << 20


def contents(path: Path) -> dict[str, list[tuple[object, ...]]]:
    connection = sqlite3.connect(path)
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master ORDER BY 1")]
    rows = {name: connection.execute(f'SELECT * FROM "{name}"').fetchall() for name in tables}
    connection.close()
    return rows


@pytest.mark.parametrize("scenario", FOLDERS)
def test_samples_regenerate(samples: Path, tmp_path: Path, scenario: str) -> None:
    for path in write(simulate(scenario), tmp_path, "both"):
        shipped = samples / FOLDERS[scenario] / path.name
        if path.suffix == ".sqlite":
            assert contents(shipped) == contents(path)
        elif path.suffix == ".gz":
            # Not the compressed bytes: those also depend on the version of zlib.
            assert gzip.decompress(shipped.read_bytes()) == gzip.decompress(path.read_bytes())
        else:
            assert shipped.read_bytes() == path.read_bytes()


def test_writing_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    for folder in ("first", "second"):
        write(simulate("S01"), tmp_path / folder, "kineto")
    for name in ("S01.json.gz", "S01.truth.json"):
        first = (tmp_path / "first" / name).read_bytes()
        assert first == (tmp_path / "second" / name).read_bytes()


def test_samples_are_small(samples: Path) -> None:
    sizes = [path.stat().st_size for path in samples.rglob("*") if path.is_file()]
    assert max(sizes) <= LIMIT_BYTES
    assert sum(sizes) < 5 * LIMIT_BYTES


@pytest.mark.parametrize("scenario", FOLDERS)
def test_readme_tells_the_planted_numbers(samples: Path, scenario: str) -> None:
    truth = json.loads((samples / FOLDERS[scenario] / f"{scenario}.truth.json").read_text("utf-8"))
    readme = (samples / "README.md").read_text("utf-8")
    for loss in truth["planted"]:
        leaves = " + ".join(f"`{leaf}`" for leaf in loss["leaves"])
        row = (
            f"| {loss['words']} | {leaves} | {loss['charged_ns']} | {loss['share_points']:.2f} "
            f"| {loss['saving_points']:.2f} |"
        )
        assert row in readme
