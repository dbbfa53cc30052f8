import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tracelens.flops.nesting import ancestors, parents


def _parents(rows: list[tuple[int, int, int]]) -> list[int]:
    columns = np.array(rows, dtype=np.int64).reshape(-1, 3)
    return parents(columns[:, 0], columns[:, 1], columns[:, 2]).tolist()


def test_calls_nest_by_thread() -> None:
    rows = [(0, 0, 100), (0, 10, 50), (0, 20, 30), (0, 60, 90), (1, 15, 25), (0, 100, 120)]
    assert _parents(rows) == [-1, 0, 1, 0, -1, -1]
    found = parents(*np.array(rows).T)
    assert list(ancestors(2, found)) == [2, 1, 0]


def test_of_equal_intervals_the_first_is_outside() -> None:
    assert _parents([(0, 0, 10), (0, 0, 10), (0, 0, 10)]) == [-1, 0, 1]


def test_rounding_to_microseconds_keeps_the_parent() -> None:
    assert _parents([(0, 0, 10_000), (0, 9_000, 11_000)]) == [-1, 0]
    assert _parents([(0, 0, 10_000), (0, 9_000, 11_001)]) == [-1, -1]


def test_no_intervals() -> None:
    assert _parents([]) == []


@st.composite
def _calls(draw: st.DrawFn) -> list[tuple[int, int, int]]:
    rows = []

    def add(thread: int, start: int, end: int) -> None:
        rows.append((thread, start, end))
        while end - start > 3 and draw(st.booleans()):
            begin = draw(st.integers(start + 1, end - 2))
            stop = draw(st.integers(begin + 1, end - 1))
            add(thread, begin, stop)
            start = stop

    for thread in range(2):
        add(thread, 0, draw(st.integers(5, 60)))
    return rows


@given(_calls(), st.randoms())
def test_equals_searching_for_the_smallest_enclosing_call(rows, random) -> None:  # type: ignore[no-untyped-def]
    random.shuffle(rows)
    found = _parents(rows)
    for index, (thread, start, end) in enumerate(rows):
        around = [
            (other[2] - other[1], position)
            for position, other in enumerate(rows)
            if position != index
            and other[0] == thread
            and other[1] <= start
            and other[2] >= end
            and (other[1], other[2]) != (start, end)
        ]
        assert found[index] == (min(around)[1] if around else -1)
