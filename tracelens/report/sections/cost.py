"""What does each loss cost a day, in GPU-hours and in money?

A day of the whole job: GPUs of the job (those seen, where its size is not known) times 24 hours,
as if it ran like the analyzed window all day.
"""

from typing import Any

HOURS_PER_DAY = 24


def cost(price_per_gpu_hour: float | None, gpus: int) -> dict[str, Any]:
    """Return the section ``cost``: of the whole job; null without a price."""
    if price_per_gpu_hour is None:
        return {"gpu_hours_per_day": None, "money_per_day": None}
    hours = float(gpus * HOURS_PER_DAY)
    return {
        "gpu_hours_per_day": hours,
        "money_per_day": hours * price_per_gpu_hour,
        "gpu_hour_price": price_per_gpu_hour,
    }


def add_cost(losses: list[dict[str, Any]], whole: dict[str, Any]) -> None:
    """Give each loss its share, ``gpu_hours_per_day`` and ``money_per_day``; null without one."""
    for row in losses:
        for field in ("gpu_hours_per_day", "money_per_day"):
            total = whole[field]
            row[field] = None if total is None else total * row["share_points"] / 100
