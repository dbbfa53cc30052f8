"""Does the ladder find what was planted: format, memory, tiles, clock, contention, recompute?"""

from collections.abc import Iterator
from contextlib import contextmanager
from math import ceil
from pathlib import Path
from typing import Any

import pytest

import tracelens
from tracelens.simulate import Dialect, Run, simulate, write

PEAK = 989.4e12
FP32 = 67e12
BYTES_PER_S = 3_350e9
MATMULS = 2 * 3 * 2  # nodes, matmuls of each, micro-batches
STEPS = (
    "precision",
    "memory",
    "sm_reserved",
    "quantisation",
    "clock",
    "ceiling",
    "kernel",
    "contention",
)
SUMS = ", ".join(f"sum({step}_ns)::BIGINT AS {step}" for step in STEPS)
MISMATCH = f"""
SELECT count(*) AS bad FROM ladder
WHERE owned_ns - ideal_ns <> {" + ".join(f"coalesce({step}_ns, 0)" for step in STEPS)}
    + sharing_ns + faster_than_peak_ns
"""


@pytest.fixture(scope="module")
def runs() -> dict[str, Run]:
    return {
        name: simulate(name) for name in ("S15", "S16", "S22", "S30", "S31", "S32", "S33", "S38")
    }


@contextmanager
def attributed(
    run: Run, folder: Path, family: str = "kineto", **options: Any
) -> Iterator[tracelens.Run]:
    *traces, _ = write(run, folder, family, Dialect())  # type: ignore[arg-type]
    with tracelens.attribute([str(path) for path in traces], **options) as found:
        check(found)
        yield found


def check(found: tracelens.Run) -> None:
    """I2 and I3: on every trace, kernel by kernel to the nanosecond and part by part."""
    answer = found.to_dict()
    assert found.sql(MISMATCH).to_pylist() == [{"bad": 0}]
    if answer["mfu"]["value"] is None:
        return
    losses = sum(item["points"] for item in answer["waterfall"][1:-1])
    assert 100 + losses == pytest.approx(100 * answer["mfu"]["value"], rel=1e-9)
    below = next(item for item in answer["waterfall"] if item["id"] == "below_peak")
    for part in below["children"]:
        steps = sum(step["points"] for step in part["children"])
        assert steps == pytest.approx(part["points"], rel=1e-9, abs=1e-9)


def sums(found: tracelens.Run, where: str) -> dict[str, int]:
    (row,) = found.sql(f"SELECT {SUMS} FROM ladder WHERE {where}").to_pylist()
    return {step: row[step] or 0 for step in STEPS}


def nonzero(found: dict[str, int]) -> set[str]:
    return {step for step, lost in found.items() if lost}


def loss(found: tracelens.Run, name: str) -> float:
    """Points of a row of the losses; 0 where there is none."""
    rows = [row for row in found.to_dict()["losses"] if row["id"] == name]
    return sum(row["share_points"] for row in rows)


def test_matmuls_in_32_bits(runs: dict[str, Run], tmp_path: Path) -> None:
    """S31: F/P (P/P_fp32 - 1) in a job of 16 bits."""
    with attributed(runs["S31"], tmp_path, dtype="bf16") as found:
        rows = found.sql("SELECT * FROM ladder WHERE dtype = 'fp32' AND owned_ns > 0").to_pylist()
        assert len(rows) == MATMULS * len(runs["S31"].truths[0].steps)
        planted_ns = 0.0
        for row in rows:
            planted = row["flop"] / PEAK * (PEAK / FP32 - 1) * 1e9
            assert row["precision_ns"] == pytest.approx(planted, abs=1)
            planted_ns += planted
        total_ns = found.to_dict()["window"]["total_ns"]
        assert loss(found, "ineff.precision") == pytest.approx(
            100 * planted_ns / total_ns, rel=1e-6
        )


def test_one_tile_too_many(runs: dict[str, Run], tmp_path: Path) -> None:
    """S32: 133 tiles on 132 multiprocessors take twice as long as 132: factor 1.985."""
    with attributed(runs["S32"], tmp_path) as found:
        rows = found.sql(
            "SELECT * FROM ladder WHERE m = 2432 AND n = 896 AND owned_ns > 0"
        ).to_pylist()
        assert rows
        for row in rows:
            assert 1 / row["quantisation_factor"] == pytest.approx(2 * 132 / 133, rel=1e-12)
            assert 1 / row["quantisation_factor"] == pytest.approx(1.985, abs=5e-4)
            ideal = row["flop"] / PEAK * 1e9
            assert row["quantisation_ns"] == pytest.approx(ideal * (2 * 132 / 133 - 1), abs=1)
            assert row["memory_ns"] == row["sm_reserved_ns"] == row["contention_ns"] == 0
            assert row["ceiling_ns"] + row["kernel_ns"] <= 1  # rounding up in the simulator
        others = found.sql(
            "SELECT m, n, flop, owned_ns, quantisation_ns FROM ladder WHERE k IN (2432, 896)"
            " AND owned_ns > 0"
        ).to_pylist()
        assert {(row["m"], row["n"]) for row in others} == {(8192, 896), (2432, 8192)}
        for row in others:
            tiles = ceil(row["m"] / 128) * ceil(row["n"] / 128)
            lost = row["flop"] / PEAK * 1e9 * (ceil(tiles / 132) * 132 / tiles - 1)
            assert row["quantisation_ns"] == pytest.approx(lost, abs=1)


def test_few_rows_wait_for_memory(runs: dict[str, Run], tmp_path: Path) -> None:
    """S33: bytes/BW - F/P; tiles seven eighths empty cost nothing behind that."""
    with attributed(runs["S33"], tmp_path) as found:
        rows = found.sql(
            "SELECT * FROM ladder WHERE least(m, n, k) = 16 AND owned_ns > 0"
        ).to_pylist()
        assert len(rows) == MATMULS * len(runs["S33"].truths[0].steps)
        for row in rows:
            moved = 2 * (row["m"] * row["k"] + row["k"] * row["n"] + row["m"] * row["n"])
            planted = (moved / BYTES_PER_S - row["flop"] / PEAK) * 1e9
            assert row["bytes"] == moved
            assert row["memory_ns"] == pytest.approx(planted, abs=1)
            rest = {step: row[f"{step}_ns"] for step in STEPS if step != "memory"}
            assert all((lost or 0) <= 1 for lost in rest.values()), rest


def test_a_clock_that_is_slower_everywhere(runs: dict[str, Run], tmp_path: Path) -> None:
    """S15: with the clock given, what it cost is a loss; without, it is no clock."""
    clock = 1_830 / 1.15
    with attributed(runs["S15"], tmp_path / "given", sm_clock_mhz=clock) as found:
        rows = found.sql("SELECT * FROM ladder WHERE part = 'gemm' AND owned_ns > 0").to_pylist()
        for row in rows:
            assert row["clock_factor"] == pytest.approx(1 / 1.15)
            slower = (row["ideal_ns"] + row["quantisation_ns"]) * 0.15
            assert row["clock_ns"] == pytest.approx(slower, abs=2)
            assert row["ceiling_ns"] is None
        assert loss(found, "ineff.clock") > 5
        assert loss(found, "ineff.ceiling") == 0
    with attributed(runs["S15"], tmp_path / "unknown") as found:
        (part,) = [p for p in found.to_dict()["ladder"]["parts"] if p["part"] == "gemm"]
        (step,) = [s for s in part["steps"] if s["id"] == "ineff.clock"]
        assert step["lost_ns"] is None
        assert "--sm-clock" in step["reason"]
        assert loss(found, "ineff.clock") == 0
        ceilings = [row for row in found.to_dict()["losses"] if row["id"] == "ineff.ceiling"]
        assert [(row["tag"], row["advice"]) for row in ceilings] == [("A", None)]


def test_contention_is_measured_against_the_same_kernel_alone(
    runs: dict[str, Run], tmp_path: Path
) -> None:
    """S16: a kernel that a transfer covers takes 1.3 times as long."""
    run = runs["S16"]
    with attributed(run, tmp_path) as found:
        rows = found.sql("SELECT * FROM ladder WHERE owned_ns > 0 AND part <> 'conv'").to_pylist()
        beside = [row for row in rows if row["beside_frac"] >= 0.5 and row["alone_ns"]]
        assert len(beside) > 10
        for row in beside:
            assert row["contention_ns"] == pytest.approx(row["owned_ns"] - row["alone_ns"], abs=1)
        covered = [row for row in beside if row["beside_frac"] > 0.999]
        assert covered
        for row in covered:
            assert row["owned_ns"] / row["alone_ns"] == pytest.approx(1.3, abs=0.01)
        assert all(row["contention_ns"] == 0 for row in rows if row["beside_frac"] == 0)
        assert loss(found, "ineff.contention") > 1
        for part in found.to_dict()["ladder"]["parts"]:
            (step,) = [step for step in part["steps"] if step["id"] == "ineff.contention"]
            assert step["measured"] <= step["beside"]
            assert step["low_ns"] <= step["high_ns"]


@pytest.mark.parametrize("name", ["S22", "S30"])
def test_recomputed_kernels_have_a_ladder_of_their_own(
    runs: dict[str, Run], tmp_path: Path, name: str
) -> None:
    run = runs[name]
    with attributed(run, tmp_path) as found:
        rows = found.sql("SELECT * FROM ladder WHERE part = 'recompute'").to_pylist()
        again = [
            activity
            for activity in run.timelines[0].activities
            if activity.work.recomputed and activity.work.flop.executed
        ]
        steps = {step for step, _, _ in run.truths[0].steps}
        assert len(rows) == len([activity for activity in again if activity.step in steps])
        flop = sum(a.work.flop.executed for a in again if a.step in steps)
        assert sum(row["flop"] for row in rows) == flop
        assert found.to_dict()["flops"]["reconciliation"]["recompute"] == flop


def test_two_streams_share_time_without_an_alarm(runs: dict[str, Run], tmp_path: Path) -> None:
    """S38: owned times sum to the union, and no kernel seems faster than its peak."""
    with attributed(runs["S38"], tmp_path) as found:
        answer = found.to_dict()
        assert answer["ladder"]["faster_than_peak"] == 0
        owned = found.sql("SELECT sum(owned_ns)::BIGINT AS ns FROM ladder").to_pylist()[0]["ns"]
        leaves = answer["time"]["leaves"]
        assert owned == sum(ns for leaf, ns in leaves.items() if leaf.startswith("flop."))


def test_without_shapes_there_is_no_ladder(runs: dict[str, Run], tmp_path: Path) -> None:
    *traces, _ = write(runs["S31"], tmp_path, "nsys", Dialect())
    with tracelens.attribute([str(path) for path in traces]) as found:
        check(found)
        answer = found.to_dict()
    assert all(not row["id"].startswith("ineff.") for row in answer["losses"])
