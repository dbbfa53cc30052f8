"""How the account must change when a run is changed in a way whose effect is known."""

import random
from collections import Counter
from dataclasses import replace

from bench import accounts
from hypothesis import given
from hypothesis import strategies as st
from soups import (
    ADD,
    COMM,
    COMMUNICATION,
    COMPUTE,
    COPIES,
    EVERY,
    FLOP,
    GEMM,
    GRAIN,
    LAUNCHERS,
    Activity,
    Call,
    Soup,
    What,
    apart,
    batches,
    budget,
    size,
    solid,
    soups,
    without,
)

NORM = What("void vectorized_layer_norm_kernel<float, float>", "compute.norm")
even = soups(unit=GRAIN)
seeds = st.integers(0, 2**32)
few = budget(share=40)


def before_and_after(drawn, changed):
    """Return pairs of accounts; both halves go through one run."""
    found = accounts([*drawn, *changed])
    return zip(found[: len(drawn)], found[len(drawn) :], strict=True)


def has(*whats):
    return lambda soup: any(a.what in whats and a.end > a.start for a in soup.activities)


def one_of(soup, *whats):
    """Position of the longest activity of the given sorts."""
    places = [i for i, a in enumerate(soup.activities) if a.what in whats]
    return max(places, key=lambda i: soup.activities[i].end - soup.activities[i].start)


def with_activity(soup, place, *activities):
    kept = list(soup.activities)
    kept[place : place + 1] = activities
    return replace(soup, activities=tuple(kept))


@given(batches(soups(exact=(0, 1))), st.integers(-(2**40), 2**40))
@few
def test_p1_a_shift_of_all_times_changes_nothing(drawn, shift):
    moved = [soup.timed(lambda t: t + shift) for soup in drawn]
    for old, new in before_and_after(drawn, moved):
        shifted = [(a + shift, b + shift, *rest) for a, b, *rest in old.segments]
        assert list(new.segments) == shifted
        assert new.hidden == old.hidden


def renamed(soup, seed):
    """Shuffle every list; rename streams, threads and, with the launches, correlation ids."""
    dice = random.Random(seed)
    order = list(range(len(soup.launches)))
    dice.shuffle(order)
    new_number = {old: new for new, old in enumerate(order)}
    threads = dict(zip((1, 2, 9), dice.sample(range(1, 10), 3), strict=True))
    streams = dict(zip((7, 8), dice.sample(range(100), 2), strict=True))

    def on_thread(call):
        return replace(call, thread=threads[call.thread])

    def shuffled(items):
        return tuple(dice.sample(items, len(items)))

    return Soup(
        shuffled(
            [
                replace(a, stream=streams[a.stream], launch=new_number.get(a.launch))
                for a in soup.activities
            ]
        ),
        tuple(on_thread(soup.launches[old]) for old in order),
        shuffled([on_thread(call) for call in soup.host]),
        shuffled([replace(wait, stream=streams[wait.stream]) for wait in soup.waits]),
    )


@given(batches(even.map(solid).map(apart)), seeds)
@few
def test_p2_order_and_names_of_events_do_not_matter(drawn, seed):
    changed = [renamed(soup, seed) for soup in drawn]
    for old, new in before_and_after(drawn, changed):
        assert [s[:4] for s in new.segments] == [s[:4] for s in old.segments]
        assert new.hidden == old.hidden


@given(batches(even), st.integers(2, 1000))
@few
def test_p3_slower_clocks_scale_every_busy_leaf_and_idle_time(drawn, factor):
    changed = [soup.timed(lambda t: t * factor) for soup in drawn]
    for old, new in before_and_after(drawn, changed):
        busy = {leaf: dur for leaf, dur in old.leaves.items() if not is_idle(leaf)}
        assert {leaf: dur for leaf, dur in new.leaves.items() if not is_idle(leaf)} == {
            leaf: dur * factor for leaf, dur in busy.items()
        }
        assert new.kinds["idle"] == old.kinds["idle"] * factor
        assert new.hidden == {key: dur * factor for key, dur in old.hidden.items()}


def is_idle(leaf):
    return leaf.partition(".")[0] in {"host", "gap", "idle"}


def halved(soup, *whats):
    """Split an activity in two that follow each other on its stream."""
    place = one_of(soup, *whats)
    whole = soup.activities[place]
    middle = whole.start + (whole.end - whole.start) // (2 * GRAIN) * GRAIN
    return with_activity(soup, place, replace(whole, end=middle), replace(whole, start=middle))


@given(batches(even.filter(has(*FLOP))))
@few
def test_p4_two_halves_of_a_matmul_are_the_matmul(drawn):
    changed = [halved(soup, *FLOP) for soup in drawn]
    for old, new in before_and_after(drawn, changed):
        assert new.causes == old.causes


@given(batches(even))
@few
def test_p4_two_halves_of_anything_are_of_its_kind(drawn):
    # Which of several compute kernels owns an overlap depends on which began first, so a leaf may
    # gain what another of its kind loses.
    changed = [halved(soup, *EVERY) for soup in drawn]
    for old, new in before_and_after(drawn, changed):
        assert new.kinds == old.kinds
        assert idle_causes(new) == idle_causes(old)


def idle_causes(account):
    return {cause: dur for cause, dur in account.causes.items() if is_idle(cause[0])}


@given(batches(even.filter(has(*FLOP))), seeds)
@few
def test_p5_a_kernel_in_the_shadow_of_matmuls_costs_nothing(drawn, seed):
    dice = random.Random(seed)
    changed, lengths = [], []
    for soup in drawn:
        flop = soup.activities[one_of(soup, *FLOP)]
        edges = sorted(dice.choices(range(flop.start, flop.end + 1, GRAIN), k=2))
        shadow = Activity(NORM, edges[0], edges[1], stream=99)
        changed.append(replace(soup, activities=(*soup.activities, shadow)))
        lengths.append(edges[1] - edges[0])
    for length, (old, new) in zip(lengths, before_and_after(drawn, changed), strict=True):
        assert new.causes == old.causes
        hidden = {key: dur for key, dur in new.hidden.items() if key[0] == NORM.leaf}
        assert sum(hidden.values()) == length
        assert all(winner in {"flop.gemm", "flop.attn"} for _, winner in hidden)
        assert new.hidden == old.hidden | hidden


@given(batches(even), st.integers(1, 500))
@few
def test_p6_an_idle_rank_adds_its_time_and_changes_no_other(drawn, grains):
    dur = grains * GRAIN
    idle = Soup((Activity(GEMM, 0, 0), Activity(GEMM, dur, dur)))
    alone, together = accounts(drawn), accounts([*drawn, idle])
    assert together[:-1] == alone
    assert together[-1].leaves == {"idle.tail": dur}


def repeated(soup):
    """Run the soup twice, the second time from the instant at which the first ended."""
    first, last = soup.window
    count = len(soup.launches)
    again = soup.timed(lambda t: t + last - first)
    later = tuple(
        replace(a, launch=None if a.launch is None else a.launch + count) for a in again.activities
    )
    return Soup(soup.activities + later, soup.launches + again.launches, soup.host + again.host)


def self_contained(soup):
    """Keep everything within the window, and the host never silent."""
    first, last = soup.window

    def clipped(calls):
        moved = (
            replace(c, start=min(max(c.start, first), last), end=min(max(c.end, first), last))
            for c in calls
        )
        return tuple(moved)

    busy = tuple(Call("aten::mm", first, last, thread, "op") for thread in LAUNCHERS)
    return Soup(soup.activities, clipped(soup.launches), clipped(soup.host) + busy)


@given(
    batches(
        soups(unit=GRAIN, whats=(*FLOP, *COMPUTE, *COPIES, COMM)).map(solid).map(self_contained)
    )
)
@few
def test_p7_a_run_done_twice_has_the_same_shares(drawn):
    for old, new in before_and_after(drawn, [repeated(soup) for soup in drawn]):
        doubled = Counter({leaf: 2 * dur for leaf, dur in old.leaves.items()})
        assert one_call_cause(new.leaves) == one_call_cause(doubled)


def one_call_cause(leaves):
    # The second time no kernel is launched for the first time.
    merged = Counter(leaves)
    merged["host.cuda_api"] += merged.pop("host.compile", 0)
    return +merged


def lasts(soup):
    return any(a.end > a.start for a in soup.activities)


@given(batches(soups(exact=(0, 1))), seeds)
@few
def test_p8_whatever_is_missing_the_books_close(drawn, seed):
    changed = [without(soup, seed % size(soup)) for soup in drawn]
    changed = [soup for soup in changed if lasts(soup)]
    for account in accounts([*drawn, *changed]):
        assert account.closes()


@given(batches(soups(exact=(0, 1))), st.integers(1, 10**9))
@few
def test_p9_idle_time_added_at_the_end_is_tail(drawn, delta):
    end = 10**9
    moved = [soup.timed(lambda t, last=soup.window[1]: t + end - last) for soup in drawn]
    short = accounts(moved, f"ns:0..{end}")
    longer = accounts(moved, f"ns:0..{end + delta}")
    for old, new in zip(short, longer, strict=True):
        assert new.causes == old.causes + Counter({("idle.tail", False): delta})


@given(batches(soups().filter(has(*COMMUNICATION))))
@few
def test_p10_compute_in_place_of_communication_never_adds_communication(drawn):
    changed = []
    for soup in drawn:
        place = one_of(soup, *COMMUNICATION)
        changed.append(with_activity(soup, place, replace(soup.activities[place], what=ADD)))
    for old, new in before_and_after(drawn, changed):
        assert new.kinds["comm"] <= old.kinds["comm"]


def union(intervals):
    total, reach = 0, None
    for start, end in sorted(intervals):
        total += max(0, end - (start if reach is None else max(start, reach)))
        reach = end if reach is None else max(end, reach)
    return total


@given(batches(soups(exact=(0, 1))))
@few
def test_p11_what_is_exposed_and_what_is_hidden_make_up_the_whole(drawn):
    for soup, account in zip(drawn, accounts(drawn), strict=True):
        for leaf in {a.what.leaf for a in soup.activities} - {what.leaf for what in FLOP}:
            intervals = [(a.start, a.end) for a in soup.activities if a.what.leaf == leaf]
            hidden = sum(dur for (loser, _), dur in account.hidden.items() if loser == leaf)
            assert account.leaves[leaf] + hidden == union(intervals)
            assert union(intervals) <= sum(end - start for start, end in intervals)


@given(batches(soups(exact=(0, 1))))
@few
def test_p11_no_activity_owns_more_than_it_lasted(drawn):
    for soup, account in zip(drawn, accounts(drawn), strict=True):
        owned = Counter()
        for start, end, leaf, _, place in account.segments:
            if not is_idle(leaf):
                activity = soup.activities[place]
                assert activity.start <= start <= end <= activity.end
                assert leaf == activity.what.leaf
                owned[place] += end - start
        for place, dur in owned.items():
            assert dur <= soup.activities[place].end - soup.activities[place].start


def jittered(soup, seed):
    """Move every instant by up to half a nanosecond and round it, as decimals are read."""
    dice = random.Random(seed)
    return soup.timed(lambda t: round(t + dice.uniform(-0.5, 0.5)))


@given(batches(even.map(solid).map(apart)), seeds)
@few
def test_p14_rounding_moves_no_more_than_a_nanosecond_an_edge(drawn, seed):
    changed = [jittered(soup, seed) for soup in drawn]
    for soup, (old, new) in zip(drawn, before_and_after(drawn, changed), strict=True):
        edges = 2 * (len(soup.activities) + len(soup.launches) + len(soup.host))
        for leaf in old.leaves | new.leaves:
            assert abs(old.leaves[leaf] - new.leaves[leaf]) <= edges


@given(batches(soups()), seeds)
@few
def test_p15_other_numbers_for_ranks_permute_the_accounts(drawn, seed):
    order = random.Random(seed).sample(range(len(drawn)), len(drawn))
    found = accounts(drawn)
    assert accounts([drawn[place] for place in order]) == [found[place] for place in order]
