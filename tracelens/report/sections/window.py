"""Which stretch of time of which ranks is accounted for?"""

from typing import Any

from tracelens.store import Store


def window(store: Store) -> dict[str, Any]:
    """Return the analysed window: its rule, its steps, those left out and why.

    ``per_rank[].steps`` is null where the window is not made of steps.
    """
    chosen = store.result("window") or {}
    per_rank = store.records(
        "SELECT rank, min(start_ns) AS start_ns, max(end_ns) AS end_ns, "
        "sum(dur_ns)::BIGINT AS duration_ns, count(*) AS steps "
        "FROM step WHERE included GROUP BY rank ORDER BY rank"
    )
    steps = chosen["steps"] if chosen else _steps(store)
    if not steps:
        for row in per_rank:
            row["steps"] = None
    return {
        "source": chosen.get("source"),
        "steps": steps,
        "excluded_steps": chosen["excluded_steps"] if chosen else _excluded(store),
        "confidence": chosen.get("confidence"),
        "note": chosen.get("note"),
        "per_rank": per_rank,
        "total_ns": sum(row["duration_ns"] for row in per_rank),
    }


def mean_step_ns(section: dict[str, Any]) -> int | None:
    """Return the mean duration of the steps over all ranks; null where the window has no steps."""
    if not section["steps"]:
        return None
    count: int = sum(row["steps"] for row in section["per_rank"])
    total: int = section["total_ns"]
    return (2 * total + count) // (2 * count) if count else None


def _steps(store: Store) -> list[int]:
    return [
        step
        for (step,) in store.rows(
            "SELECT DISTINCT step FROM step WHERE included AND step IS NOT NULL ORDER BY step"
        )
    ]


def _excluded(store: Store) -> list[dict[str, Any]]:
    return store.records(
        "SELECT step, min(reason) AS reason FROM step WHERE step IS NOT NULL GROUP BY step "
        "HAVING NOT bool_or(included) ORDER BY step"
    )
