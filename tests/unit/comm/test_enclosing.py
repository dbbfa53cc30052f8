"""The innermost interval around an instant, against a reading of the definition."""

import random

import pytest

from tracelens.comm.enclosing import Intervals


def filled(intervals):
    result = Intervals()
    for value, (start, end) in enumerate(sorted(intervals, key=lambda i: (i[0], -i[1]))):
        result.add(start, end, value)
    return result


@pytest.mark.parametrize(
    ("at_ns", "value"),
    [(9, None), (10, 0), (20, 1), (24, 2), (25, 1), (30, 0), (99, 0), (100, None)],
)
def test_nested_intervals(at_ns, value):
    assert filled([(10, 100), (20, 30), (22, 25)]).innermost(at_ns) == value


def test_no_intervals():
    assert Intervals().innermost(5) is None


def test_random_intervals_that_overlap_partly():
    random.seed(7)
    for _ in range(200):
        intervals = [(s, s + random.randint(0, 20)) for s in random.choices(range(40), k=8)]
        ordered = sorted(intervals, key=lambda i: (i[0], -i[1]))
        for at_ns in range(62):
            around = [v for v, (start, end) in enumerate(ordered) if start <= at_ns < end]
            assert filled(intervals).innermost(at_ns) == (max(around) if around else None)
