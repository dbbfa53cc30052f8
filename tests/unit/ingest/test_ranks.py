"""Which rank a GPU is: the trace's own word, then the file's name, then the order."""

import pytest

from tracelens.errors import UsageError
from tracelens.ingest.ranks import assign_ranks
from tracelens.store import Store


def ranks(*files, pattern=None):
    """Files are (path, claimed ranks of its processes)."""
    store = Store()
    process = 0
    for number, (path, claims) in enumerate(files):
        store.append("input", {"input": [number], "path": [path]})
        for claim in claims:
            store.append(
                "process",
                {
                    "process": [process],
                    "input": [number],
                    "claimed_rank": [claim],
                    "rank_source": ["trace"],
                },
            )
            store.append(
                "gpu", {"gpu": [process], "input": [number], "process": [process], "device": [0]}
            )
            process += 1
    assign_ranks(store, pattern)
    return store.rows("SELECT rank, rank_source FROM raw.gpu ORDER BY gpu")


def test_the_trace_knows_best():
    found = ranks(("rank7.json", [1]), ("rank8.json", [0]))
    assert found == [(1, "trace"), (0, "trace")]


def test_the_name_helps_where_a_trace_says_nothing():
    found = ranks(("a_rank3.json", [None]), ("b_rank-1.json", [0]))
    assert found == [(3, "file name"), (1, "file name")]


def test_order_is_the_last_resort():
    assert ranks(("a.json", [None]), ("b.json", [None])) == [(0, "order"), (1, "order")]
    assert ranks(("node.sqlite", [None, None])) == [(0, "order"), (1, "order")]


@pytest.mark.parametrize(
    "files",
    [
        (("a.json", [0]), ("b.json", [0])),
        (("rank1.json", [1]), ("copy/rank9.json", [1])),  # a renamed copy is the same rank
        (("x/rank1.json", [None]), ("y/rank1.json", [None])),
        (("a.json", [0]), ("b.json", [None])),
    ],
)
def test_two_files_are_never_one_rank(files):
    with pytest.raises(UsageError):
        ranks(*files)


def test_a_pattern_overrules_everything():
    found = ranks(("n0g1.json", [0]), ("n0g0.json", [0]), pattern=r"g(\d+)")
    assert found == [(1, "pattern"), (0, "pattern")]


@pytest.mark.parametrize("pattern", ["(", "rank", r"(\d)(\d)", r"x(\d+)", r"(n)"])
def test_patterns_that_cannot_work_are_refused(pattern):
    with pytest.raises(UsageError):
        ranks(("n0g1.json", [0]), pattern=pattern)
