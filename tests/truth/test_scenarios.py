"""Is the answer right for each numbered scenario, read from either family of traces?"""

import pytest
from laboratory import Laboratory, compare

from tracelens.simulate.recording import FAMILIES

NUMBERED = ("S01", "S02", "S06", "S07", "S09", "S10", "S11", "S13", "healthy")


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("scenario", NUMBERED)
def test_scenario(lab: Laboratory, scenario: str, family: str) -> None:
    compare(lab.answer(scenario, family), lab.made(scenario, family).truth, family)
