"""How did every run of a night end: attributed, abstained from, failed, or known already?"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tracelens.batch.discovery import Recognizer, RunFiles, discover
from tracelens.batch.lake import Lake, RunRow, Status, paths_as_text, run_id, run_key
from tracelens.errors import AbstainedError, InputError, TraceLensError, UsageError
from tracelens.store.database import version

Attribute = Callable[[Sequence[Path], Mapping[str, Any]], Mapping[str, Any]]
"""Attributes the files of one run under options; returns the answer of ``attribute --json``."""

_MAX_TEXT = 2_000


@dataclass(frozen=True)
class BatchReport:
    """What a batch did.

    Attributes:
        done: rows of runs that were attributed, or tried, now.
        skipped: rows of runs that had not changed since they were.
    """

    done: tuple[RunRow, ...]
    skipped: tuple[RunRow, ...]

    def count(self, status: Status) -> int:
        """Return how many runs tried now ended in ``status``."""
        return sum(row.status == status for row in self.done)

    @property
    def summary(self) -> str:
        """How the runs ended, in one line; abstaining and failing are not success."""
        parts = (
            (self.count("ok"), "attributed"),
            (self.count("abstained"), "abstained"),
            (self.count("failed"), "failed"),
            (len(self.skipped), "unchanged"),
        )
        return ", ".join(f"{count} {word}" for count, word in parts)


def _silent(_row: RunRow) -> None:
    """Report progress to nobody."""


def run_batch(
    paths: Sequence[Path],
    lake: Path,
    options: Mapping[str, Any],
    *,
    attribute: Attribute,
    recognize: Recognizer,
    progress: Callable[[RunRow], None] = _silent,
) -> BatchReport:
    """Attribute every run under ``paths`` into the lake.

    A run whose files, options and TraceLens version are those of its last row is skipped, unless it
    failed for a reason that may have gone since. A failure is a row like any other.

    Raises:
        InputError: if a path does not exist.
        UsageError: if the lake cannot be written, or if an option is refused before any run was
            attributed with it.
    """
    # The lake may lie below one of the paths.
    runs = [run for run in discover(paths, recognize) if not _inside(run, lake)]
    store = Lake(lake)
    done: list[RunRow] = []
    skipped: list[RunRow] = []
    for run in runs:
        key = run_key(run, options, version())
        known = store.get(run_id(run))
        if known and key and known.key == key and _is_final(known):
            skipped.append(known)
            continue
        proven = any(known.status == "ok" for known in (*done, *skipped))
        row, leaves = _attributed(run, key or "", options, attribute, proven=proven)
        store.put(row, leaves)
        done.append(row)
        progress(row)
    return BatchReport(tuple(done), tuple(skipped))


def _attributed(
    run: RunFiles,
    key: str,
    options: Mapping[str, Any],
    attribute: Attribute,
    *,
    proven: bool,
) -> tuple[RunRow, Mapping[str, int]]:
    figures: dict[str, Any] = {}
    leaves: dict[str, int] = {}
    status: Status = "ok"
    exit_code, message = 0, ""
    try:
        figures, leaves = _figures(attribute(run.files, options))
    except AbstainedError as error:
        status, exit_code, message = "abstained", error.exit_code, _told(error)
    except TraceLensError as error:
        # Every run would fail in the same way. Once a run went well, the options suit the night and
        # the trace is what is odd; so it is when the message names no option.
        if isinstance(error, UsageError) and error.message.startswith("--") and not proven:
            raise
        status, exit_code, message = "failed", error.exit_code, _told(error)
    except Exception as error:  # noqa: BLE001 - a bug in one run must not cost the night
        status, exit_code, message = "failed", 1, f"bug: {type(error).__name__}: {error}"
    row = RunRow(
        run_id=run_id(run),
        name=run.name,
        paths=paths_as_text(run.files),
        key=key,
        status=status,
        exit_code=exit_code,
        message=_printable(message) or "",
        attributed_at=datetime.now(UTC).isoformat(timespec="seconds"),
        **{"tracelens_version": version(), **figures},
    )
    return row, leaves


def _figures(answer: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, int]]:
    run, mfu = answer["run"], answer["mfu"]
    devices = sorted(set(run.get("devices") or ()))
    figures = {
        "started_at": _printable(run.get("started_at")),
        "tracelens_version": answer.get("tracelens_version"),
        "world_size": run.get("world_size"),
        "ranks": len(run["ranks"]) if run.get("ranks") is not None else None,
        "device": _printable(", ".join(devices)) or None,
        "mfu": mfu.get("value"),
        "mfu_low": mfu.get("low"),
        "hfu": mfu.get("hfu"),
        "mfu_reason": _printable(mfu.get("reason")),
        "total_ns": answer["window"]["total_ns"],
    }
    return figures, dict(answer["time"]["leaves"])


def _is_final(row: RunRow) -> bool:
    """Tell whether trying again could end otherwise: a missing tool or a bug can be mended."""
    return row.status in {"ok", "abstained"} or row.exit_code == InputError.exit_code


def _inside(run: RunFiles, lake: Path) -> bool:
    folder = lake.resolve()
    return any(path.resolve().is_relative_to(folder) for path in run.files)


def _told(error: TraceLensError) -> str:
    return f"{error.message} ({error.hint})" if error.hint else error.message


def _printable(text: str | None) -> str | None:
    """Shorten a text of a trace and replace what is no text: a Parquet column takes neither."""
    return text and text[:_MAX_TEXT].encode("utf-8", errors="replace").decode("utf-8")
