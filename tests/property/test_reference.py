"""The stages against a slow reading of the definitions, idle causes included (P13)."""

from collections import Counter

from bench import accounts
from hypothesis import assume, given
from hypothesis import strategies as st
from reference import Reference
from soups import US, batches, budget, exchanges, marked, smallest, soups
from steps import stretches, windows

EXACT = (0, 0, 0, 1, -1)


def differences(soup, account, window):
    """Time by cause, where the account and the reference differ: (found, expected)."""
    found, expected = account.causes, Reference(soup, window).causes()
    return {
        cause: (found[cause], expected[cause])
        for cause in found | expected
        if found[cause] != expected[cause]
    }


def check(drawn, text, window_of):
    for soup, account in zip(drawn, accounts(drawn, text), strict=True):
        assert account.closes()
        if differences(soup, account, window_of(soup)):
            least = smallest(soup, lambda x: differences(x, *accounts([x], text), window_of(x)))
            (found,) = accounts([least], text)
            assert differences(least, found, window_of(least)) == {}, least


@given(batches(soups(exact=EXACT)))
@budget()
def test_whole_traces_equal_the_reference(drawn):
    check(drawn, "all", lambda soup: soup.window)


@given(batches(exchanges()))
@budget()
def test_exposed_exchanges_equal_the_reference(drawn):
    check(drawn, "all", lambda soup: soup.window)


@given(batches(soups(exact=EXACT)), st.integers(1, 300), st.integers(0, 99))
@budget(share=4)
def test_chosen_windows_equal_the_reference(drawn, length, percent):
    window = (0, length * US)
    # Each soup is moved so that the window begins somewhere within it.
    moved = [
        soup.timed(lambda t, begun=soup.window[0] + soup.span * percent // 100: t - begun)
        for soup in drawn
    ]
    check(moved, f"ns:{window[0]}..{window[1]}", lambda _: window)


@given(soups(exact=EXACT), st.integers(0, 2**32))
@budget(share=1)
def test_marked_steps_equal_the_reference(drawn, seed):
    """Alone: steps that one rank lacks are left out on all."""
    soup = marked(drawn, seed)
    found = windows(soup)
    assume(found)
    (account,) = accounts([soup], "auto")
    assert account.steps == tuple(found)
    true = Counter()
    for start, end, cuts in stretches(found):
        true += Reference(soup, (start, end), cuts).causes()
    assert account.causes == true
