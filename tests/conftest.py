"""Shared fixtures: where real traces lie, when they are there at all."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

# The same examples every time, so that a red run means a change; TRACELENS_SOUPS=10000 searches on.
settings.register_profile("steady", derandomize="TRACELENS_SOUPS" not in os.environ)
settings.load_profile("steady")

REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared() -> Path:
    """Folder with real traces that may not be part of the project."""
    folder = Path(os.environ.get("TRACELENS_SHARED", REPOSITORY.parent / "shared"))
    if not folder.is_dir():
        pytest.skip(f"real traces not found at {folder}; set TRACELENS_SHARED")
    return folder


@pytest.fixture(scope="session")
def samples() -> Path:
    """Folder with the traces that ship with the project."""
    return REPOSITORY / "sample_traces"
