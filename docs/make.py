"""Which pages of the documentation are made from the code? Run it as ``make docs``."""

from pathlib import Path

from tracelens.report.advice.explain import pages

DOCS = Path(__file__).resolve().parent


def made() -> dict[Path, str]:
    """Return the text of every page that is made, by where it lies."""
    folder = DOCS / "explanation" / "advice"
    return {folder / name: text for name, text in pages().items()}


def main() -> None:
    """Write the pages, and remove those whose rule is gone."""
    texts = made()
    for path in {path.parent for path in texts}:
        path.mkdir(parents=True, exist_ok=True)
        for old in set(path.glob("*.md")) - set(texts):
            old.unlink()
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
