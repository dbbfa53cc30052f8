"""What did the profiler itself complain about, and what is missing from the capture?"""

import re
from collections.abc import Iterable

from tracelens.ingest.nsight import schema
from tracelens.ingest.nsight.reading import Reading

MOST_REMARKS = 20
_PROFILER = "the profiler reports: "

# Messages are recognised and told in our own words: their text may hold paths and settings.
_LOST: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(r"Not all CUDA events might have been collected"),
        "CUDA events may be missing; launches without a kernel are not proof of idle time",
    ),
    (
        re.compile(r"Not all NVTX events might have been collected"),
        "NVTX ranges may be missing",
    ),
    (
        re.compile(r"Couldn't allocate CUPTI buff?er"),
        "it had no memory for trace buffers, so CUDA events are missing",
    ),
    (
        re.compile(r"Reached the size limit on recording trace events"),
        "the size limit of the recording was reached, later events are missing",
    ),
    (
        re.compile(r"CUDA profiling might have not been started correctly"),
        "CUDA tracing may not have started",
    ),
    (
        re.compile(r"No CUDA events collected"),
        "no CUDA events were collected",
    ),
)
_DRIVER = re.compile(
    r"Installed CUDA driver version \((\d{1,3}\.\d{1,3})\) is not supported by this build.*?"
    r"(?:libraries for driver version (\d{1,3}\.\d{1,3}))?$",
    re.DOTALL,
)
_WARNING, _ERROR = 2, 3

_OPAQUE = """
SELECT count(*)
FROM raw.activity JOIN raw.process USING (process)
WHERE input = ? AND kind = 'graph'
"""
_UNSEEN = """
SELECT count(*)
FROM raw.host_call AS c JOIN raw.process AS p USING (process) JOIN raw.name AS n USING (name_id)
WHERE p.input = ? AND regexp_matches(n.name, '^(cuda|cu)GraphLaunch') AND NOT EXISTS (
    SELECT 1 FROM raw.activity AS a
    WHERE a.process = c.process AND a.correlation = c.correlation
)
"""


def tell_diagnostics(reading: Reading) -> None:
    """Note the losses that the profiler reports for processes that used a GPU."""
    told: dict[str, int] = {}
    for batch in reading.batches(schema.DIAGNOSTICS, ("severity", "globalPid", "text")):
        columns = (batch.ints("severity"), batch.ints("globalPid"), batch.columns["text"])
        for severity, pid, text in zip(*columns, strict=True):
            if severity in {_WARNING, _ERROR} and _concerns(reading, int(pid)):
                for remark in _own_words(text.as_py() or ""):
                    told[remark] = told.get(remark, 0) + 1
    reading.remarks.extend(_PROFILER + remark for remark in told)


def tell_missing_kernels(reading: Reading) -> None:
    """Say what the export holds instead when no kernel is in it, and why that may be."""
    count = reading.store.scalar
    tables = reading.tables
    if any(tables.columns(table) for table in (schema.KERNEL, schema.GRAPH_TRACE)):
        return
    calls = count(
        "SELECT count(*) FROM raw.host_call JOIN raw.process USING (process)"
        " WHERE input = ? AND kind <> 'os'",
        [reading.input],
    )
    launches = _calls_named(reading, r"^(cuda|cu)Launch")
    graphs = _calls_named(reading, r"^(cuda|cu)GraphLaunch")
    causes = [
        "the program was killed or forked without exec",
        "the driver is newer than nsys",
        "another profiler held the GPU",
        "nothing was launched within the capture",
    ]
    if graphs:
        causes.insert(0, "CUDA graphs were traced as a whole: capture with --cuda-graph-trace=node")
    reading.remarks.insert(
        0,
        f"the export has no kernels: {calls} CUDA API calls were recorded, {launches} of them"
        f" kernel launches and {graphs} graph launches; possible causes: {'; '.join(causes)}",
    )


def tell_opaque_graphs(reading: Reading) -> None:
    """Warn when graph launches left one row each, or none at all."""
    opaque = reading.store.scalar(_OPAQUE, [reading.input])
    unseen = reading.store.scalar(_UNSEEN, [reading.input])
    advice = "capture with --cuda-graph-trace=node to see their kernels"
    if opaque:
        reading.remarks.append(f"{opaque} CUDA graph launches are one row each: {advice}")
    if unseen and reading.identity.gpu_pids:
        reading.remarks.append(
            f"{unseen} CUDA graph launches left no row at all: {advice}; exports of nsys 2023 leave"
            " out graphs that were traced as a whole"
        )


def write_remarks(reading: Reading, texts: Iterable[str]) -> None:
    """Append remarks to ``raw.note``, each once and not too many."""
    chosen = list(dict.fromkeys(texts))[:MOST_REMARKS]
    reading.store.append(
        "note",
        {
            "input": [reading.input] * len(chosen),
            "severity": ["warning"] * len(chosen),
            "text": chosen,
        },
    )


def _concerns(reading: Reading, pid: int) -> bool:
    users = reading.identity.gpu_pids
    # Helper processes complain too, of things that never were expected of them.
    return not users or pid in users


def _own_words(text: str) -> Iterable[str]:
    for pattern, words in _LOST:
        if pattern.search(text):
            yield words
    if driver := _DRIVER.search(text[:500]):
        supported = f", which supports {driver[2]}" if driver[2] else ""
        yield f"CUDA driver {driver[1]} is newer than this nsys{supported}: events may be missing"


def _calls_named(reading: Reading, pattern: str) -> int:
    found: int = reading.store.scalar(
        "SELECT count(*) FROM raw.host_call JOIN raw.process USING (process)"
        " JOIN raw.name USING (name_id) WHERE input = ? AND regexp_matches(name, ?)",
        [reading.input, pattern],
    )
    return found
