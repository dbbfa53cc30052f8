"""Which rank of the job each GPU is: from the trace, else the file name, else the order given."""

import re
from pathlib import Path
from typing import NamedTuple

from tracelens.errors import UsageError
from tracelens.store import Store

_RANK_IN_NAME = re.compile(r"rank[-_]?(\d+)", re.IGNORECASE)


class _Gpu(NamedTuple):
    gpu: int
    path: str
    claimed: int | None
    source: str | None
    alone: bool  # the only GPU of its process: the rank of the process is its rank


def assign_ranks(store: Store, pattern: str | None = None) -> None:
    """Give every row of ``raw.gpu`` its rank.

    Args:
        store: with all files of the run read.
        pattern: regular expression with one group, matched against each path.

    Raises:
        UsageError: if two GPUs would be the same rank, or the pattern does not fit.
    """
    gpus = [
        _Gpu(*row)
        for row in store.rows(
            "SELECT g.gpu, i.path, p.claimed_rank, p.rank_source, "
            "count(*) OVER (PARTITION BY g.input, g.process) = 1 "
            "FROM raw.gpu AS g JOIN raw.input AS i USING (input) "
            "LEFT JOIN raw.process AS p ON p.process = g.process ORDER BY g.gpu"
        )
    ]
    ranks, source = _by_pattern(gpus, pattern) if pattern else _best(gpus)
    for gpu, rank in zip(gpus, ranks, strict=True):
        store.execute(
            "UPDATE raw.gpu SET rank = ?, rank_source = ? WHERE gpu = ?", [rank, source, gpu.gpu]
        )


def _best(gpus: list[_Gpu]) -> tuple[list[int], str]:
    claimed = [gpu.claimed if gpu.alone else None for gpu in gpus]
    named = [_rank_in_name(gpu.path) for gpu in gpus]
    single = len({gpu.path for gpu in gpus}) == 1
    if not single:
        # What a trace says of itself comes before its name: a renamed copy is still the same rank.
        _refuse_collision(gpus, claimed, "the traces say")
    for ranks, source in ((claimed, gpus[0].source if gpus else None), (named, "file name")):
        complete = [rank for rank in ranks if rank is not None]
        if len(complete) == len(gpus) and len(set(complete)) == len(gpus):
            return complete, source or "trace"
    if not single:
        _refuse_collision(gpus, named, "the file names say")
    if any(rank is not None for rank in claimed) and len(gpus) > 1:
        unknown = next(g.path for g, rank in zip(gpus, claimed, strict=True) if rank is None)
        raise UsageError(
            f"some files say which rank they are, {unknown} does not",
            hint="give the files of one capture only, or tell ranks apart with --rank-pattern",
        )
    return list(range(len(gpus))), "order"


def _refuse_collision(gpus: list[_Gpu], ranks: list[int | None], who: str) -> None:
    first: dict[int, str] = {}
    for gpu, rank in zip(gpus, ranks, strict=True):
        if rank is not None and first.setdefault(rank, gpu.path) != gpu.path:
            raise UsageError(
                f"{who} rank {rank} twice: {first[rank]} and {gpu.path}",
                hint="give the files of one capture only, or tell ranks apart with --rank-pattern",
            )


def _by_pattern(gpus: list[_Gpu], pattern: str) -> tuple[list[int], str]:
    try:
        expression = re.compile(pattern)
    except re.error as error:
        raise UsageError(f"--rank-pattern: {error}") from error
    if expression.groups != 1:
        raise UsageError("--rank-pattern needs exactly one group, e.g. 'node.*_gpu(\\d+)'")
    ranks: list[int | None] = []
    for gpu in gpus:
        found = expression.search(gpu.path)
        if found is None or not (found.group(1) or "").isdecimal():
            raise UsageError(f"--rank-pattern finds no number in {gpu.path}")
        ranks.append(int(found.group(1)))
    _refuse_collision(gpus, ranks, "the pattern gives")
    if len(set(ranks)) != len(gpus):
        raise UsageError("--rank-pattern gives several GPUs of one file the same rank")
    return [rank for rank in ranks if rank is not None], "pattern"


def _rank_in_name(path: str) -> int | None:
    found = _RANK_IN_NAME.search(Path(path).name)
    return int(found.group(1)) if found and len(found.group(1)) < 10 else None
