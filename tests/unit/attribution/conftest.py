"""The scene of these tests."""

import importlib.util
from pathlib import Path

import pytest

_SPEC = importlib.util.spec_from_file_location("scene", Path(__file__).with_name("scene.py"))
_MODULE = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(_MODULE)


@pytest.fixture
def scene():
    """An empty run to fill."""
    return _MODULE.Scene()
