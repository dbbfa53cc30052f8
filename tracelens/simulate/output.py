"""How are a run's traces and its truth written to files, the same bytes every time?"""

import gzip
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal

from tracelens.simulate import kineto
from tracelens.simulate.clock import BASE_NS, NSYS_LEAD_NS, origin_ns
from tracelens.simulate.dialect import CURRENT, Dialect
from tracelens.simulate.nsight import write_database
from tracelens.simulate.recording import FAMILIES
from tracelens.simulate.run import RankTruth, Run, flop_of_step
from tracelens.simulate.timeline import Timeline
from tracelens.simulate.truth import Interval, leaf_sums

Formats = Literal["kineto", "nsys", "both"]


def write(run: Run, out: Path, formats: Formats = "both", dialect: Dialect = CURRENT) -> list[Path]:
    """Write traces and truth into a folder.

    Args:
        run: a finished simulation.
        out: the folder; made if missing.
        formats: Kineto JSON (a file a rank), Nsight SQLite (a file a node), or both.
        dialect: which generation of the profilers writes them.

    Returns:
        The files, traces first, truth last.
    """
    out.mkdir(parents=True, exist_ok=True)
    paths = []
    if formats in {"kineto", "both"}:
        for timeline in _present(run):
            alone = run.job.world_size == 1
            name = run.scenario if alone else f"rank{timeline.rank}"
            path = out / f"{name}.json.gz"
            _write_gzip(path, "".join(kineto.document(run, timeline.rank, dialect)))
            paths.append(path)
    if formats in {"nsys", "both"}:
        for name, timelines in _captures(run):
            path = out / f"{name}.sqlite"
            write_database(run, timelines, path, dialect)
            paths.append(path)
    path = out / f"{run.scenario}.truth.json"
    path.write_text(truth_text(run, dialect), "utf-8")
    return [*paths, path]


def _present(run: Run) -> list[Timeline]:
    missing = run.details.recording.missing_ranks
    return [timeline for timeline in run.timelines if timeline.rank not in missing]


def _captures(run: Run) -> Iterator[tuple[str, list[Timeline]]]:
    """Nsight's files: one, or one a rank where ranks were captured apart."""
    if not run.details.recording.file_per_rank:
        yield run.scenario, run.timelines
        return
    for timeline in _present(run):
        yield f"{run.scenario}.rank{timeline.rank}", [timeline]


def _write_gzip(path: Path, text: str) -> None:
    path.write_bytes(gzip.compress(text.encode(), compresslevel=9, mtime=0))


def truth_text(run: Run, dialect: Dialect = CURRENT) -> str:
    """The truth as JSON, one interval a line; times are those that the rank's clock shows."""
    truths = [
        _as_shown(run, truth)
        for truth in run.truths
        if truth.rank not in run.details.recording.missing_ranks
    ]
    head = json.dumps(_truth(run, truths, dialect), indent=1).removesuffix("\n}")
    bodies = []
    for truth in truths:
        lines = ",\n".join(
            json.dumps([item.start_ns, item.end_ns, item.leaf, item.cause, item.blamed_rank])
            for item in truth.intervals
        )
        body = json.dumps(_rank(run, truth), indent=1).removesuffix("\n}")
        bodies.append(f'{body},\n "intervals": [\n{lines}\n ]\n}}')
    return f'{head},\n "per_rank": [\n' + ",\n".join(bodies) + "\n ]\n}\n"


def _as_shown(run: Run, truth: RankTruth) -> RankTruth:
    clock = run.details.recording.clock(truth.rank)

    def shown(intervals: list[Interval]) -> list[Interval]:
        return [
            replace(item, start_ns=clock.read(item.start_ns), end_ns=clock.read(item.end_ns))
            for item in intervals
        ]

    return RankTruth(
        truth.rank,
        [
            (step, clock.read(start_ns), clock.read(end_ns))
            for step, start_ns, end_ns in truth.steps
        ],
        shown(truth.intervals),
        {family: shown(intervals) for family, intervals in truth.seen.items()},
        truth.excluded,
    )


def _truth(run: Run, truths: list[RankTruth], dialect: Dialect) -> dict[str, object]:
    leaves = leaf_sums([item for truth in truths for item in truth.intervals])
    job, shape = run.job, run.details.shape
    whole_ns = sum(truth.window[1] - truth.window[0] for truth in truths)
    return {
        "schema": "tracelens.truth/1",
        "scenario": run.scenario,
        "title": run.details.title,
        "seed": run.seed,
        "ranks": [truth.rank for truth in truths],
        "clock": {
            "kineto_ns": dialect.kineto_origin_ns(run.seed),
            "nsys_ns": NSYS_LEAD_NS,
            "epoch_ns": BASE_NS + origin_ns(run.seed),
        },
        "tokens_per_step": job.tokens_per_step or None,
        "model": None if shape is None else shape.as_dict(),
        "seq_len": None if shape is None else shape.seq,
        "device": {"name": "NVIDIA H100 80GB HBM3", "peak_flop_per_s": 989_400_000_000_000},
        "total_ns": whole_ns,
        "leaves": leaves,
        **_leaves_by_family(truths),
        "leaves_one_rank": _undivided(leaves),
        "planted": _planted(run, leaves),
    }


def _leaves_by_family(truths: list[RankTruth]) -> dict[str, dict[str, int]]:
    """Leaves as a family must name them, where it cannot know what really was."""
    return {
        f"leaves_{family}": leaf_sums(
            [item for truth in truths for item in truth.seen.get(family, truth.intervals)]
        )
        for family in FAMILIES
        if any(family in truth.seen for truth in truths)
    }


def _planted(run: Run, leaves: dict[str, int]) -> list[dict[str, object]]:
    total_ns = run.window_ns
    return [
        {
            "id": loss.id,
            "words": loss.words,
            "leaves": list(loss.leaves),
            **({"cause": loss.cause} if loss.cause else {}),
            "charged_ns": sum(leaves.get(leaf, 0) for leaf in loss.leaves),
            "share_points": _points(sum(leaves.get(leaf, 0) for leaf in loss.leaves), total_ns),
            "total_ns_without": run.without[loss.id],
            "saving_points": _points(total_ns - run.without[loss.id], total_ns),
        }
        for loss in run.details.losses
    ]


def _points(part_ns: int, total_ns: int) -> float:
    return round(100 * part_ns / total_ns, 3)


def _rank(run: Run, truth: RankTruth) -> dict[str, object]:
    activities = run.timelines[truth.rank].activities
    start_ns, end_ns = truth.window
    leaves = leaf_sums(truth.intervals)
    left_out = [{"step": step, "reason": why} for step, why in sorted(truth.excluded.items())]
    # A complete capture lacks nothing but the end of its last step.
    excluded = {"excluded_steps": left_out} if len(left_out) > 1 else {}
    return {
        "rank": truth.rank,
        "window": [start_ns, end_ns],
        **excluded,
        "leaves": leaves,
        **_leaves_by_family([truth]),
        "leaves_one_rank": _undivided(leaves),
        "steps": [
            {
                "step": step,
                "window": [first_ns, last_ns],
                **flop_of_step(activities, step),
                "leaves": leaf_sums(
                    [
                        item
                        for item in truth.intervals
                        if first_ns <= item.start_ns and item.end_ns <= last_ns
                    ]
                ),
            }
            for step, first_ns, last_ns in truth.steps
        ],
    }


def _undivided(leaves: dict[str, int]) -> dict[str, int]:
    """What can be seen from one rank alone: waiting and transfer are one."""
    sums: dict[str, int] = {}
    for leaf, dur_ns in leaves.items():
        stem, _, part = leaf.rpartition(".")
        seen = f"{stem}.undivided" if part in {"wait", "transfer"} else leaf
        sums[seen] = sums.get(seen, 0) + dur_ns
    return dict(sorted(sums.items(), key=lambda item: (-item[1], item[0])))
