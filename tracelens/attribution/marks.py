"""Which host ranges mark the steps of a process."""

import re
from collections import defaultdict

from tracelens.attribution.windows import Mark
from tracelens.store import Store

_NUMBER = re.compile(r"(\d+)(?!.*\d)")
_RANGES = """
SELECT n.name, r.thread, r.start_ns, r.end_ns
FROM raw.range AS r
JOIN raw.name AS n USING (name_id)
JOIN raw.host_label AS l ON l.name_id = r.name_id AND l.target = 'range' AND l.label = 'step'
WHERE r.process = ?
ORDER BY r.start_ns, r.end_ns DESC
"""
_NAMED = """
SELECT n.name, r.thread, r.start_ns, r.end_ns
FROM raw.range AS r
JOIN raw.name AS n USING (name_id)
WHERE r.process = ? AND (n.name = ? OR regexp_replace(n.name, '[ _:#]*[0-9]+$', '') = ?)
ORDER BY r.start_ns, r.end_ns DESC
"""
_OPTIMIZER_RANGES = """
SELECT r.start_ns, r.end_ns
FROM raw.range AS r
JOIN raw.host_label AS l ON l.name_id = r.name_id AND l.target = 'range' AND l.label = 'optimizer'
WHERE r.process = ?
ORDER BY r.start_ns, r.end_ns
"""
_COMPILED = """
SELECT coalesce(sum(least(x.end_ns, $end) - greatest(x.start_ns, $start)), 0)
FROM (
    SELECT h.start_ns, h.end_ns FROM raw.host_call AS h
    JOIN raw.host_label AS l ON l.name_id = h.name_id AND l.target = 'call' AND l.label = 'compile'
    WHERE h.process = $process
    UNION ALL
    SELECT r.start_ns, r.end_ns FROM raw.range AS r
    JOIN raw.host_label AS l ON l.name_id = r.name_id AND l.target = 'range' AND l.label = 'compile'
    WHERE r.process = $process
) AS x
WHERE x.start_ns < $end AND x.end_ns > $start
"""
_COMPILED_FRAC = 0.01


def step_marks(store: Store, process: int) -> tuple[list[Mark], str]:
    """Return the marks of a process and where they come from.

    Profiler steps come first. Of several families of NVTX ranges (``iteration 3``, ``step 3``) the
    one that covers most time is taken; a family must repeat.

    Returns:
        Marks in order and disjoint, and ``profiler_step`` or ``nvtx``; an empty list for none.
    """
    families: dict[tuple[str, int], list[tuple[str, int, int]]] = defaultdict(list)
    kinds: dict[tuple[str, int], str] = {}
    for name, thread, start_ns, end_ns in store.rows(_RANGES, [process]):
        key = (_NUMBER.sub("", name), thread)
        families[key].append((name, start_ns, end_ns))
        kinds[key] = "profiler_step" if name.startswith("ProfilerStep") else "nvtx"
    best = max(
        (key for key in families if kinds[key] == "profiler_step" or len(families[key]) > 1),
        key=lambda key: (
            kinds[key] == "profiler_step",
            sum(end - start for _, start, end in families[key]),
        ),
        default=None,
    )
    if best is None:
        return [], ""
    return _numbered(families[best]), kinds[best]


def named_marks(store: Store, process: int, name: str) -> list[Mark]:
    """Return ranges with a name that the user gave, numbers at its end aside."""
    rows = [(row[0], row[2], row[3]) for row in store.rows(_NAMED, [process, name, name])]
    return _numbered(rows)


def optimizer_ranges(store: Store, process: int) -> list[tuple[int, int]]:
    """Return (start, end) of the ranges in which the optimizer ran, ascending."""
    return [(start, end) for start, end in store.rows(_OPTIMIZER_RANGES, [process])]


def compiled_in(store: Store, process: int, mark: Mark) -> bool:
    """Tell whether more than a hundredth of a mark is compilation or module loading."""
    parameters = {"start": mark.start_ns, "end": mark.end_ns, "process": process}
    return int(store.scalar(_COMPILED, parameters)) > _COMPILED_FRAC * (mark.end_ns - mark.start_ns)


def _numbered(rows: list[tuple[str, int, int]]) -> list[Mark]:
    """Keep outermost ranges; number them as written, or by order where numbers repeat."""
    outer: list[tuple[str, int, int]] = []
    for row in rows:
        if row[2] > row[1] and (not outer or row[1] >= outer[-1][2]):
            outer.append(row)
    found = [_NUMBER.search(name) for name, _, _ in outer]
    numbers = [int(match.group(1)) if match else -1 for match in found]
    # Wrong numbers have been seen in real files; the intervals are what counts.
    if len(set(numbers)) != len(numbers) or numbers != sorted(numbers) or -1 in numbers:
        numbers = list(range(len(outer)))
    return [Mark(step, start, end) for step, (_, start, end) in zip(numbers, outer, strict=True)]
