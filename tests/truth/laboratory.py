"""What the tests of the truth share: scenarios that are simulated, written and attributed once."""

import json
from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import tracelens
from tracelens.simulate import Dialect, Run, simulate, write
from tracelens.simulate.dialect import CURRENT

Answer = dict[str, Any]


@dataclass(frozen=True)
class Made:
    """Traces of one family, and what is true of them."""

    traces: tuple[str, ...]
    truth: dict[str, Any]


@dataclass
class Laboratory:
    """Makes what is asked for, once a session."""

    folder: Path
    _made: dict[tuple[object, ...], Made] = field(default_factory=dict)
    _answers: dict[tuple[object, ...], Answer] = field(default_factory=dict)

    def made(
        self, scenario: str, family: str, jitter: float = 0.0, dialect: Dialect = CURRENT
    ) -> Made:
        """The traces of a scenario and its truth."""
        key = (scenario, family, jitter, dialect)
        if key not in self._made:
            folder = self.folder / str(len(self._made))
            *traces, truth = write(simulated(scenario, jitter), folder, family, dialect)  # type: ignore[arg-type]
            self._made[key] = Made(tuple(map(str, traces)), json.loads(truth.read_text("utf-8")))
        return self._made[key]

    def answer(
        self,
        scenario: str,
        family: str,
        jitter: float = 0.0,
        dialect: Dialect = CURRENT,
        window: str = "auto",
    ) -> Answer:
        """What the program says of them."""
        key = (scenario, family, jitter, dialect, window)
        if key not in self._answers:
            traces = self.made(scenario, family, jitter, dialect).traces
            self._answers[key] = attributed(*traces, window=window)
        return self._answers[key]


@lru_cache(maxsize=6)
def simulated(scenario: str, jitter: float = 0.0) -> Run:
    """The run of a scenario; few are kept, for they are large."""
    return simulate(scenario, jitter=jitter)


def attributed(*traces: object, window: str = "auto") -> Answer:
    """What the program says of some traces."""
    with tracelens.attribute([str(path) for path in traces], window=window) as found:
        return found.to_dict()


def expected(truth: dict[str, Any], family: str) -> dict[str, int]:
    """The leaves that a family of traces must give."""
    return truth.get(f"leaves_{family}", truth["leaves"])


def folded(leaves: dict[str, int]) -> dict[str, int]:
    """Communication as one leaf: neither its dimension nor who waited."""
    sums: Counter[str] = Counter()
    for leaf, dur_ns in leaves.items():
        if dur_ns:
            sums["comm" if leaf.startswith("comm.") else leaf] += dur_ns
    return dict(sums)


def leaves_between(run: Run, start_ns: int, end_ns: int) -> dict[str, int]:
    """What the truth says of a stretch of the first rank."""
    sums: Counter[str] = Counter()
    for item in run.truths[0].intervals:
        sums[item.leaf] += max(0, min(item.end_ns, end_ns) - max(item.start_ns, start_ns))
    return folded(dict(sums))


def compare(found: Answer, truth: dict[str, Any], family: str) -> None:
    """Assert that all leaves of all ranks are those of the truth, to the nanosecond."""
    per_rank = {row["rank"]: folded(row["leaves"]) for row in found["time"]["per_rank"]}
    assert per_rank == {row["rank"]: folded(expected(row, family)) for row in truth["per_rank"]}
    assert folded(found["time"]["leaves"]) == folded(expected(truth, family))
    closes(found, truth)


def closes(found: Answer, truth: dict[str, Any]) -> None:
    """Assert that the parts make up the whole window, everywhere and on each rank."""
    assert found["window"]["total_ns"] == truth["total_ns"]
    assert sum(found["time"]["leaves"].values()) == truth["total_ns"]
    for row, own in zip(found["time"]["per_rank"], truth["per_rank"], strict=True):
        assert sum(row["leaves"].values()) == own["window"][1] - own["window"][0]
