"""Every real or damaged file ends in a closed account or in one documented refusal."""

import hashlib
from pathlib import Path

import pytest

import tracelens
from tracelens.errors import TraceLensError

REFUSALS = {4, 6}


def traces(shared: Path) -> list[Path]:
    files = [path for path in shared.glob("quirks/*") if path.is_file()]
    files += [path for path in shared.glob("traces/chrome/**/*") if path.is_file()]
    files += list(shared.glob("traces/nsight/*.sqlite"))
    files += list(shared.glob("traces/nsight/*.parquetdir"))
    return sorted(path for path in files if path.suffix not in {".tsv", ".md"})


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def attributed(path: Path, window: str) -> tuple[dict | None, TraceLensError | None]:
    try:
        with tracelens.attribute(path, window=window) as run:
            return run.to_dict(), None
    except TraceLensError as error:
        return None, error


def check_answer(path: Path, answer: dict) -> None:
    total_ns = answer["window"]["total_ns"]
    assert sum(answer["time"]["leaves"].values()) == total_ns, path
    assert sum(answer["time"]["groups"].values()) == total_ns, path
    assert all(value >= 0 for value in answer["time"]["leaves"].values()), path
    assert answer["identities"]["time"] == {"ok": True, "residual_ns": 0}, path
    points = [row["points"] for row in answer["waterfall"]]
    assert sum(points[:-1]) == pytest.approx(points[-1], abs=1e-6), path


@pytest.mark.parametrize("shard", range(8))
def test_every_file(shared, shard):
    answers = 0
    for path in traces(shared)[shard::8]:
        before = digest(path)
        answer, error = attributed(path, "auto")
        assert digest(path) == before, f"{path} was modified"
        if error is not None:
            assert error.exit_code in REFUSALS, (path, error)
            assert str(path) in error.message, "the message says which file"
        else:
            answers += 1
            check_answer(path, answer)
    assert answers >= 5


def test_whole_traces(shared):
    for path in sorted(shared.glob("quirks/*.json"))[::3]:
        answer, _ = attributed(path, "all")
        if answer is not None:
            check_answer(path, answer)
