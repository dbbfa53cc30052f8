"""A browser for the session; tests skip, saying so, where none is installed."""

from collections.abc import Iterator
from importlib import util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


def _driver() -> ModuleType:
    # The tests are no package: a module beside them is loaded by its path.
    spec = util.spec_from_file_location("chromium", Path(__file__).parent / "chromium.py")
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    driver = _driver()
    if driver.program() is None:
        pytest.skip("no Chromium found (Debian: apt-get install chromium)")
    with driver.browser(tmp_path_factory.mktemp("profile")) as found:
        yield found
