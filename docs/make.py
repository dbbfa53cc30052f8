"""Which pages of the documentation are made from the code? Run it as ``make docs``."""

import runpy
from contextlib import chdir
from pathlib import Path

import tracelens
from tracelens.report.advice.explain import pages

DOCS = Path(__file__).resolve().parent


def made() -> dict[Path, str]:
    """Return the text of every page that is made, by where it lies."""
    reference = runpy.run_path(str(DOCS / "reference.py"))["pages"]()
    advice, facts = DOCS / "explanation" / "advice", DOCS / "reference"
    return {
        **{advice / name: text for name, text in pages().items()},
        **{facts / name: text for name, text in reference.items()},
    }


def example_report(path: Path) -> None:
    """Write the report of the shipped sample: the same bytes wherever it is made."""
    folder = DOCS.parent / "sample_traces" / "data_parallel"
    # Paths stand in the report: they are given as from the root of the repository.
    with chdir(DOCS.parent):
        traces = [file.relative_to(DOCS.parent) for file in sorted(folder.glob("rank*.json.gz"))]
        with tracelens.attribute(traces) as run:
            run.save_html(path)


def main() -> None:
    """Write the pages, and remove those whose rule is gone; write the example report."""
    example_report(DOCS.parent / "reports" / "example.html")
    texts = made()
    for path in {path.parent for path in texts}:
        path.mkdir(parents=True, exist_ok=True)
        for old in set(path.glob("*.md")) - set(texts):
            old.unlink()
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
