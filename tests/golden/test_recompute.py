"""Activation recompute in real traces: all where there is some, nothing where there is none."""

from pathlib import Path

import pytest

from tracelens.classify import classify
from tracelens.errors import TraceLensError
from tracelens.flops import find_recompute
from tracelens.ingest import find_inputs, link_activities, load
from tracelens.store import Store

CHROME = "traces/chrome"
CHECKPOINTED = "resnet_act_checkpoint"
LARGEST_BYTES = 120_000
"""The others hold more of the same."""


def recomputed(path: Path) -> list[tuple[str, str, int]] | None:
    """Rule, class and number of recomputed kernels; ``None`` for what is no trace with kernels."""
    store = Store()
    try:
        load(find_inputs([path]), store)
    except TraceLensError:
        return None
    link_activities(store)
    classify(store)
    find_recompute(store)
    return store.rows(
        "SELECT r.rule, c.class, count(*) FROM raw.recomputed AS r "
        "JOIN raw.activity_class AS c USING (activity_id) GROUP BY ALL ORDER BY ALL"
    )


def test_every_convolution_of_a_checkpointed_resnet_runs_again(shared: Path) -> None:
    path = shared / CHROME / "tracelens/mi300" / f"{CHECKPOINTED}.json.gz"
    if not path.is_file():
        pytest.skip(f"no such trace: {path}")
    found = recomputed(path)
    assert found is not None
    assert {rule for rule, _, _ in found} == {"R1"}
    counts = {class_: count for _, class_, count in found}
    # 57 convolutions are run again; the library does 9 of them as plain matmuls.
    assert (counts["conv"], counts["gemm"]) == (48, 9)


def test_nothing_runs_again_in_the_other_traces(shared: Path) -> None:
    paths = sorted(
        path
        for pattern in ("**/*.json", "**/*.json.gz")
        for path in (shared / CHROME).glob(pattern)
        if CHECKPOINTED not in path.name
        and "broken" not in path.parts
        and path.stat().st_size <= LARGEST_BYTES
    )
    found = {path: recomputed(path) for path in paths}
    read = {path: rows for path, rows in found.items() if rows is not None}
    if not read:
        pytest.skip("no traces")
    assert len(read) > 15
    assert {path.name: rows for path, rows in read.items() if rows} == {}
