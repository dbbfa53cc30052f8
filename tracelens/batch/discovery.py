"""Which runs lie under the given paths: one folder or one set of files a run, told by content."""

import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tracelens.errors import InputError

_RANK = re.compile(r"(?<![a-z])(rank|worker)[-_.]?\d+", re.IGNORECASE)
_REPORTS = {".nsys-rep", ".qdrep"}
_NSIGHT = _REPORTS | {".sqlite", ".db"}

# Names that only profilers give, and names that others give too: most JSON is no trace.
_ONLY_TRACES = (".nsys-rep", ".qdrep", ".pt.trace.json", ".pt.trace.json.gz")
_MAYBE_TRACES = (".json", ".json.gz", ".sqlite")

Recognizer = Callable[[Path], bool]
"""Tells from the content whether a file (or folder) is a trace."""


@dataclass(frozen=True, order=True)
class RunFiles:
    """The files of one run.

    Attributes:
        name: what people call it: its place below the path that was given.
        files: its traces, sorted; several are its ranks.
    """

    name: str
    files: tuple[Path, ...]


def discover(paths: Sequence[Path], recognize: Recognizer) -> list[RunFiles]:
    """Return the runs under ``paths``, sorted by name.

    The traces of one folder are one run, unless their names number ranks: then names that differ
    in that number only are one run (``night1_rank0``, ``night1_rank1``); nor are traces of two
    profilers one run. A file given by name is a run of its own, unless other given files are its
    ranks. What cannot be read is a run of its own, so that its failure is recorded and spoils no
    other.

    Raises:
        InputError: if a path does not exist.
    """
    for path in paths:
        if not path.exists():
            raise InputError(f"{path}: no such file or folder")
    named = [path for path in paths if path.is_file() or _is_trace(path, recognize)]
    runs = [run for group in _by_folder(named) for run in _named_runs(*group)]
    for root in paths:
        if root not in named:
            runs += _runs_below(root, recognize)
    return sorted({run.files: run for run in runs}.values())


def _runs_below(root: Path, recognize: Recognizer) -> Iterator[RunFiles]:
    unreadable: list[Path] = []

    def remember(error: OSError) -> None:
        unreadable.append(Path(os.fsdecode(error.filename)))

    for folder_name, folders, names in os.walk(root, onerror=remember):
        folder = Path(folder_name)
        verdicts = {
            folder / name: _is_trace(folder / name, recognize)
            for name in folders + names
            if not name.startswith(".")
        }
        folders[:] = sorted(name for name in folders if verdicts.get(folder / name) is False)
        traces = [path for path, verdict in verdicts.items() if verdict]
        unreadable += [path for path, verdict in verdicts.items() if verdict is None]
        yield from _runs_of_folder(_name_below(root, folder), _without_exported(traces))
    for path in unreadable:
        yield RunFiles(_name_below(root, path), (path,))


def _runs_of_folder(name: str, traces: Iterable[Path]) -> Iterator[RunFiles]:
    sets = _sets(traces)
    for label, files in sets.items():
        yield RunFiles(name if len(sets) == 1 else f"{name}/{_text(label)}", tuple(sorted(files)))


def _named_runs(folder: Path, files: Iterable[Path]) -> Iterator[RunFiles]:
    ranks = [path for path in files if _RANK.search(path.name)]
    sets = {**_sets(ranks), **{path.name: [path] for path in files if path not in ranks}}
    for label, members in sets.items():
        yield RunFiles(_name_below(folder, folder / label), tuple(sorted(members)))


def _sets(files: Iterable[Path]) -> dict[str, list[Path]]:
    """Group the traces of a folder into runs, by a label that tells them apart.

    Files that number ranks go by their name without the number. The others belong together, unless
    two profilers wrote them: those never are the ranks of one run.
    """
    sets: dict[str, list[Path]] = defaultdict(list)
    for path in files:
        mask, count = _RANK.subn(r"\1N", path.name)
        sets[mask if count else f"*{_producer(path)}"].append(path)
    return {
        label if len(members) > 1 else members[0].name: members for label, members in sets.items()
    }


def _producer(path: Path) -> str:
    return ".nsys" if path.suffix in _NSIGHT or path.is_dir() else ".json"


def _by_folder(files: Iterable[Path]) -> Iterable[tuple[Path, list[Path]]]:
    folders: dict[Path, list[Path]] = defaultdict(list)
    for path in files:
        folders[path.parent].append(path)
    return folders.items()


def _without_exported(traces: Iterable[Path]) -> list[Path]:
    """Leave out a report whose export, no older, lies beside it: they are the same trace."""
    present = set(traces)
    kept = []
    for path in present:
        export = path.with_suffix(".sqlite")
        exported = path.suffix in _REPORTS and export in present
        if not (exported and export.stat().st_mtime_ns >= path.stat().st_mtime_ns):
            kept.append(path)
    return kept


def _is_trace(path: Path, recognize: Recognizer) -> bool | None:
    """Ask what a file or folder is; ``None`` for a trace that cannot be read."""
    try:
        return recognize(path) or (None if _is_broken(path) else False)
    except (OSError, InputError):
        return False if path.is_dir() else None


def _is_broken(path: Path) -> bool:
    """Tell whether a file that is no trace was meant to be one."""
    if not path.is_file():
        return False
    if path.name.endswith(_ONLY_TRACES):
        return True
    return path.name.endswith(_MAYBE_TRACES) and path.stat().st_size == 0


def _name_below(root: Path, path: Path) -> str:
    relative = path.relative_to(root).as_posix()
    top = root.resolve().name
    return _text(top if relative == "." else f"{top}/{relative}")


def _text(name: str) -> str:
    # A name of a file may hold bytes that are no text; a Parquet column may not.
    return os.fsencode(name).decode("utf-8", errors="replace")
