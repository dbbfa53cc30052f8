"""Which step stands for the run where only one can be shown?"""

from dataclasses import dataclass

from tracelens.store import Store


@dataclass(frozen=True)
class StepSpan:
    """A step on one GPU.

    Attributes:
        gpu: internal number of the GPU.
        rank: its rank.
        step: number of the step.
        start_ns, end_ns: its window, on the clock of its file.
        zero_ns: the instant that the profiler's own viewer calls 0, where known.
        viewer: the name of that viewer.
    """

    gpu: int
    rank: int
    step: int
    start_ns: int
    end_ns: int
    zero_ns: int | None
    viewer: str


def representative_step(store: Store) -> StepSpan | None:
    """Return the analysed step of median duration of the lowest rank; ``None`` without a window."""
    spans = _spans(
        store,
        "g.rank = (SELECT min(r.rank) FROM raw.gpu AS r JOIN raw.step AS t USING (gpu) "
        "WHERE t.included) ORDER BY s.end_ns - s.start_ns, s.start_ns, s.gpu",
    )
    return spans[(len(spans) - 1) // 2] if spans else None


def same_step(store: Store, step: int) -> list[StepSpan]:
    """Return an analysed step on every rank that has it, in the order of ranks."""
    return _spans(store, "s.step = $1 ORDER BY g.rank, s.gpu", [step])


def _spans(store: Store, condition: str, parameters: list[int] | None = None) -> list[StepSpan]:
    rows = store.rows(
        "SELECT s.gpu, g.rank, s.step, s.start_ns, s.end_ns, i.viewer_zero_ns, i.format "
        "FROM raw.step AS s JOIN raw.gpu AS g USING (gpu) JOIN raw.input AS i USING (input) "
        f"WHERE s.included AND {condition}",
        parameters or [],
    )
    return [
        StepSpan(
            gpu,
            rank,
            step,
            start_ns,
            end_ns,
            zero_ns,
            viewer="nsys-ui" if (trace_format or "").startswith("nsys") else "Perfetto",
        )
        for gpu, rank, step, start_ns, end_ns, zero_ns, trace_format in rows
    ]
