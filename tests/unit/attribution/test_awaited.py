"""Recorded waits between streams decide which of several exposed exchanges compute waited for."""

import numpy as np
import pytest

from tracelens.attribution import stage
from tracelens.attribution.sweep import Awaited

REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
_OWNERS = """
SELECT a.stream, sum(s.end_ns - s.start_ns)::BIGINT // 1000
FROM raw.segment AS s
JOIN raw.activity AS a USING (activity_id)
WHERE s.leaf LIKE 'comm.%'
GROUP BY ALL
"""
AWAITED_OWNS = {23: 30, 47: 1}
LATEST_OWNS = {23: 4, 47: 27}


@pytest.fixture
def two_exchanges(scene):
    """One exchange on stream 23, then one on 47 that ends last; then the kernel on stream 7."""
    scene.kernel(6, 36, (0, 1), name=REDUCE, stream=23)
    scene.kernel(10, 37, (3, 4), name=REDUCE, stream=47)
    scene.kernel(37, 47, (8, 9))
    return scene


def owners(scene):
    """Microseconds of exposed exchanges by stream."""
    scene.leaves()
    return dict(scene.store.rows(_OWNERS))


def test_what_compute_waits_for_owns_exposed_time(two_exchanges):
    two_exchanges.wait(7, 6, on=23, record=2)
    assert owners(two_exchanges) == AWAITED_OWNS


def test_without_a_recorded_wait_the_latest_end_decides(two_exchanges):
    assert owners(two_exchanges) == LATEST_OWNS


def test_a_rule_that_ignores_recorded_waits_is_caught(two_exchanges, monkeypatch):
    two_exchanges.wait(7, 6, on=23, record=2)
    none = np.empty(0, np.int64)
    monkeypatch.setattr(stage, "find_awaited", lambda *_: Awaited(none, none))
    assert owners(two_exchanges) != AWAITED_OWNS


def test_a_stream_that_only_waits_hands_on_what_it_waited_for(two_exchanges):
    two_exchanges.wait(61, 5, on=23, record=2)
    two_exchanges.wait(7, 7, on=61, record=6)
    assert owners(two_exchanges) == AWAITED_OWNS


@pytest.mark.parametrize(
    ("stream", "at", "record"),
    [
        (7, 8.5, 2),  # after the launch of the kernel: it cannot hold it back
        (9, 6, 2),  # of another stream
        (7, 6, 0),  # recorded before the exchange was launched
        (7, 6, None),  # of an event whose record was not seen
    ],
)
def test_other_waits_say_nothing(two_exchanges, stream, at, record):
    two_exchanges.wait(stream, at, on=23, record=record)
    assert owners(two_exchanges) == LATEST_OWNS


def test_an_exchange_whose_launch_is_missing_may_have_come_between(two_exchanges):
    two_exchanges.kernel(36, 36.5, name=REDUCE, stream=23)
    two_exchanges.wait(7, 6, on=23, record=2)
    assert owners(two_exchanges)[47] == 27
