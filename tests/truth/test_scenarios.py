"""Is the answer right for each numbered scenario, read from either family of traces?"""

import json
from pathlib import Path

import pytest

import tracelens
from tracelens.simulate import simulate, write

NUMBERED = ("S01", "S02", "S06", "S07", "S09", "S10", "S11", "S13")


def folded(leaves: dict[str, int]) -> dict[str, int]:
    """Communication as one leaf: neither its dimension nor who waited."""
    sums: dict[str, int] = {}
    for leaf, dur_ns in leaves.items():
        if dur_ns:
            key = "comm" if leaf.startswith("comm.") else leaf
            sums[key] = sums.get(key, 0) + dur_ns
    return sums


@pytest.mark.parametrize("scenario", NUMBERED)
def test_scenario(tmp_path: Path, scenario: str) -> None:
    *traces, truth_path = write(simulate(scenario), tmp_path, "both")
    truth = json.loads(truth_path.read_text("utf-8"))
    for suffix in (".gz", ".sqlite"):
        paths = [str(path) for path in traces if path.suffix == suffix]
        time = tracelens.attribute(paths).to_dict()["time"]
        assert folded(time["leaves"]) == folded(truth["leaves"]), suffix
