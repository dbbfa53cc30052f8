"""How is the user's nsys run: found, asked for its version, and made to export a report?"""

import os
import re
import shutil
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tracelens.errors import ExternalToolError
from tracelens.ingest.nsight.report_header import Version, spelled

EXPORT_TIMEOUT_S = 3_600.0
_VERSION_TIMEOUT_S = 60.0
PARQUET_SINCE: Version = (2023, 4)

# Parts of table names. The tables left out hold call stacks, console output and the environment.
_TABLES = (
    "StringIds,CUPTI_ACTIVITY_KIND,NVTX_EVENTS,OSRT_API,PROFILER_OVERHEAD,ThreadNames,PROCESSES,"
    "TARGET_INFO_GPU,TARGET_INFO_CUDA,TARGET_INFO_SESSION,ANALYSIS_DETAILS,DIAGNOSTIC_EVENT,"
    "META_DATA,MPI_RANKS"
)
_ELSEWHERE = "or run this where it was captured: nsys export --type sqlite REPORT"
_ADVICE = (
    ("magic number mismatch", "the report ends early: copy it again"),
    ("Cannot read from stream", "the file is no report: copy it again"),
    ("LZ4 decompression failed", "the report is damaged: copy it again"),
    ("Invalid version prefix", "the file is no report of Nsight Systems"),
    ("newer than your current version", f"install a newer nsys, {_ELSEWHERE}"),
    (
        "Version number is invalid",
        f"the report is newer than nsys: install a newer one, {_ELSEWHERE}",
    ),
    ("database is locked", "choose a cache folder on a local disk"),
    ("unable to open database file", "choose a cache folder that can be written"),
    ("No space left", "free some space, or choose another cache folder"),
)


@dataclass(frozen=True)
class Nsys:
    """An nsys program.

    Attributes:
        program: its path.
        version: year, release, patch.
    """

    program: str
    version: Version

    @property
    def kind(self) -> str:
        """The type of export that it does best: parquetdir is read 14 times as fast as sqlite."""
        return "parquetdir" if self.version >= PARQUET_SINCE else "sqlite"

    @property
    def flags(self) -> list[str]:
        """Everything that shapes its output, the paths aside."""
        flags = ["-t", self.kind, "-q", "true"]  # short forms exist in every release
        return [*flags, "--tables", _TABLES] if self.version >= PARQUET_SINCE else flags


def find_nsys(given: str | None, needed: Version | None) -> Nsys:
    """Return the nsys to use.

    Args:
        given: name or path from the user; ``None`` searches PATH.
        needed: version that wrote the report, which is the oldest that reads it.

    Raises:
        ExternalToolError: if there is none, it does not run, or it is too old.
    """
    install = f"install Nsight Systems{f' {spelled(needed)} or newer' if needed else ''}"
    program = shutil.which(given or "nsys")
    if program is None:
        where = f"{given}: not found or not a program" if given else "nsys is not in PATH"
        raise ExternalToolError(
            f"{where}, and a report needs it to be read",
            hint=f"{install} or name it with --nsys, {_ELSEWHERE}",
        )
    version = _version(program)
    if needed and version < needed:
        raise ExternalToolError(
            f"the report was written by Nsight Systems {spelled(needed)}, this nsys is"
            f" {spelled(version)} and cannot read it ({program})",
            hint=f"{install}, {_ELSEWHERE}",
        )
    return Nsys(program, version)


def export(nsys: Nsys, report: Path, target: Path) -> None:
    """Export a report; ``target`` must not exist.

    Raises:
        ExternalToolError: if nsys fails, hangs, or writes nothing. What it left behind is partial
            and must not be read.
    """
    command = [nsys.program, "export", *nsys.flags, "-o", str(target), str(report.resolve())]
    status, output = _run(command, EXPORT_TIMEOUT_S, target.parent)
    if status is None:
        raise ExternalToolError(
            f"{report}: nsys export did not finish within {EXPORT_TIMEOUT_S:g} s and was stopped",
            hint=_ELSEWHERE.removeprefix("or "),
        )
    if status != 0:
        reason = _reason(output)
        advice = next((advice for text, advice in _ADVICE if text in output), "")
        raise ExternalToolError(
            f"{report}: nsys export failed (status {status}): {reason}",
            hint=advice or _ELSEWHERE.removeprefix("or "),
        )
    if not target.exists():
        raise ExternalToolError(
            f"{report}: nsys export reported success but wrote nothing",
            hint="the report may be empty; open it in nsys-ui to see",
        )


def _version(program: str) -> Version:
    status, output = _run([program, "--version"], _VERSION_TIMEOUT_S, None)
    found = re.search(r"\b(20\d\d)\.(\d{1,3})\.(\d{1,5})", output)
    if status != 0 or found is None:
        raise ExternalToolError(
            f"{program}: --version does not answer like nsys",
            hint="name the nsys program of Nsight Systems with --nsys",
        )
    return tuple(int(part) for part in found.groups())


def _run(command: list[str], timeout_s: float, folder: Path | None) -> tuple[int | None, str]:
    """Run a program in a process group of its own; a status of ``None`` means it was stopped."""
    try:
        process = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        raise ExternalToolError(
            f"{command[0]}: cannot be run: {error.strerror}", hint="check --nsys"
        ) from error
    with process:
        try:
            output, _ = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            _stop(process)
            return None, ""
        except BaseException:
            _stop(process)
            raise
    return process.returncode, output.decode("utf-8", "replace")


def _stop(process: subprocess.Popen[bytes]) -> None:
    # nsys starts helpers; they hold the output open and must end with it.
    os.killpg(process.pid, signal.SIGKILL)


def _reason(output: str) -> str:
    lines = [line.strip() for line in re.split(r"[\r\n]+", output) if line.strip()]
    errors = [line for line in lines if "rror" in line]
    text = (errors or lines or ["no message"])[-1]
    return "".join(char if char.isprintable() else " " for char in text)[:300]
