"""Do the pages that are made from the code say what the code says, and do links lead somewhere?"""

import re
import runpy

import pytest

LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)(?:#[^)]*)?\)")
MADE = ("explanation/advice", "reference")


@pytest.fixture(scope="module", name="made")
def _made(repository):
    return runpy.run_path(str(repository / "docs" / "make.py"))["made"]()


def test_pages_made_from_the_code_are_current(repository, made):
    for path, text in made.items():
        assert path.read_text(encoding="utf-8") == text, f"run: make docs ({path.name})"


@pytest.mark.parametrize("folder", MADE)
def test_no_page_outlives_what_it_was_made_from(repository, made, folder):
    place = repository / "docs" / folder
    assert set(place.glob("*.md")) == {path for path in made if path.parent == place}


def test_links_lead_to_files(repository):
    pages = [*repository.glob("*.md"), *(repository / "docs").rglob("*.md")]
    assert len(pages) > 10
    broken = [
        (page.relative_to(repository).as_posix(), target)
        for page in pages
        for target in LINK.findall(page.read_text(encoding="utf-8"))
        if not (page.parent / target).exists()
    ]
    assert broken == []
