"""The sweep against a reading of the definitions one nanosecond at a time."""

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tracelens.attribution.concurrency import find_concurrency, hidden_time
from tracelens.attribution.sweep import Sweep, union_gaps
from tracelens.taxonomy import Kind

BUSY_KINDS = [Kind.FLOP, Kind.COMPUTE, Kind.OPAQUE, Kind.COMM, Kind.COPY]
SPAN_END = 40

activity = st.tuples(st.integers(-5, 45), st.integers(0, 15), st.sampled_from(BUSY_KINDS))
soup = st.lists(activity, max_size=14)
spans = st.tuples(st.integers(0, 20), st.integers(1, 20)).map(lambda s: (s[0], s[0] + s[1]))


def arrays(activities):
    ordered = sorted(activities, key=lambda item: item[0])
    start = np.array([item[0] for item in ordered], dtype=np.int64)
    dur = np.array([item[1] for item in ordered], dtype=np.int64)
    kind = np.array([int(item[2]) for item in ordered], dtype=np.int64)
    return start, start + dur, kind


def blocker_owner(start, end, active, u, v, in_run):
    """Owner of one nanosecond of exposed communication, straight from the rule."""
    finished = [i for i in in_run if end[i] <= v]
    if finished:
        blocker = max(finished, key=lambda i: (end[i], start[i], -i))
        if blocker in active:
            return blocker
    return max(active, key=lambda i: (end[i], start[i], -i))


def reference(start, end, kind, span):
    """Owner counts per activity (idle is -1), by painting every nanosecond."""
    first, last = span
    n = len(start)
    owned = dict.fromkeys(range(-1, n), 0)
    active_at = {t: [i for i in range(n) if start[i] <= t < end[i]] for t in range(first, last)}
    compute = {t: any(kind[i] <= Kind.OPAQUE for i in active_at[t]) for t in range(first, last)}
    edges = sorted(
        {first, last}
        | {int(np.clip(x, first, last)) for x in start}
        | {int(np.clip(x, first, last)) for x in end}
    )
    for low, high in pairwise(edges):
        active = active_at[low]
        if not active:
            owned[-1] += high - low
            continue
        best = min(kind[i] for i in active)
        top = [i for i in active if kind[i] == best]
        if best == Kind.FLOP:
            share, rest = divmod(high - low, len(top))
            for i in top:
                owned[i] += share
            owned[top[0]] += rest
        elif best == Kind.COMM:
            u, v = low, high
            while u > first and not compute[u - 1]:
                u -= 1
            while v < last and not compute[v]:
                v += 1
            in_run = {i for t in range(u, v) for i in active_at[t] if kind[i] == Kind.COMM}
            # An instance counts in the run only where communication wins a segment.
            owned[blocker_owner(start, end, top, u, v, in_run)] += high - low
        else:
            owned[top[0]] += high - low
    return owned


@given(soup, spans)
@settings(max_examples=400, deadline=None)
def test_owned_time_equals_the_reference(activities, span):
    start, end, kind = arrays(activities)
    segments = Sweep(start, end, kind, span).owners()
    owned = dict.fromkeys(range(-1, len(start)), 0)
    for low, high, owner in zip(segments.start_ns, segments.end_ns, segments.owner, strict=True):
        owned[int(owner)] += int(high - low)
    assert owned == reference(start, end, kind, span)


@given(soup, spans, st.lists(st.integers(0, 40), max_size=5))
@settings(max_examples=200, deadline=None)
def test_segments_tile_the_span_and_respect_cuts(activities, span, cuts):
    start, end, kind = arrays(activities)
    segments = Sweep(start, end, kind, span, np.array(sorted(cuts), dtype=np.int64)).owners()
    assert segments.start_ns[0] == span[0]
    assert segments.end_ns[-1] == span[1]
    assert (segments.start_ns[1:] == segments.end_ns[:-1]).all()
    assert (segments.end_ns > segments.start_ns).all()
    for cut in cuts:
        assert not ((segments.start_ns < cut) & (cut < segments.end_ns)).any()


@given(soup)
@settings(max_examples=200, deadline=None)
def test_union_gaps_are_the_uncovered_nanoseconds(activities):
    start, end, _ = arrays([item for item in activities if item[1] > 0])
    low, high = union_gaps(start, end)
    gaps = {t for a, b in zip(low, high, strict=True) for t in range(a, b)}
    covered = {t for a, b in zip(start, end, strict=True) for t in range(a, b)}
    expected = set(range(int(start.min()), int(end.max()))) - covered if len(start) else set()
    assert gaps == expected


@given(soup, spans)
@settings(max_examples=200, deadline=None)
def test_hidden_time_equals_the_reference(activities, span):
    start, end, kind = arrays(activities)
    sweep = Sweep(start, end, kind, span)
    sweep.owners()
    together = find_concurrency(sweep, kind, len(Kind), np.array(span[:1]))
    overlap = hidden_time(together, np.arange(len(Kind)))
    found = {
        (int(a), int(b)): int(c)
        for a, b, c in zip(overlap.loser, overlap.winner, overlap.dur_ns, strict=True)
    }
    expected = {}
    for t in range(*span):
        kinds = {int(kind[i]) for i in range(len(start)) if start[i] <= t < end[i]}
        for loser in kinds - {min(kinds, default=0)}:
            key = (loser, min(kinds))
            expected[key] = expected.get(key, 0) + 1
    assert found == expected


@given(soup, spans, st.lists(st.integers(0, 40), max_size=3), st.data())
@settings(max_examples=200, deadline=None)
def test_overlap_of_any_kinds_with_any_others(activities, span, cuts, data):
    start, end, kind = arrays(activities)
    kinds = st.frozensets(st.sampled_from([int(k) for k in BUSY_KINDS]), min_size=1)
    some, others = data.draw(kinds), data.draw(kinds)
    cuts = np.array([span[0], *sorted({c for c in cuts if span[0] < c < span[1]})])
    sweep = Sweep(start, end, kind, span, cuts)
    sweep.owners()
    together = find_concurrency(sweep, kind, len(Kind), cuts)
    assert together.dur_ns.sum() == span[1] - span[0]
    for part, begin in enumerate(cuts):
        until = cuts[part + 1] if part + 1 < len(cuts) else span[1]
        expected = 0
        for t in range(begin, until):
            running = {int(kind[i]) for i in range(len(start)) if start[i] <= t < end[i]}
            expected += bool(running & some and running & others)
        chosen = together.active[:, list(some)].any(axis=1)
        chosen &= together.active[:, list(others)].any(axis=1) & (together.part == part)
        assert together.dur_ns[chosen].sum() == expected
