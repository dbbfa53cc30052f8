"""What the contracts look at: the source of the package and an empty store."""

from pathlib import Path

import pytest

from tracelens.store import Store


@pytest.fixture(scope="session")
def repository() -> Path:
    return Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def package(repository) -> Path:
    return repository / "tracelens"


@pytest.fixture(scope="session")
def modules(package) -> dict[str, str]:
    """Text of every Python module, by path within the package."""
    return _texts(package, "*.py")


@pytest.fixture(scope="session")
def sql_files(package) -> dict[str, str]:
    """Text of every SQL file, by path within the package."""
    return _texts(package, "*.sql")


@pytest.fixture(scope="module")
def empty_store():
    with Store() as store:
        yield store


def _texts(folder: Path, pattern: str) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(folder.rglob(pattern))
    }
