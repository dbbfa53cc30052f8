"""What could one do about a loss, and what in the trace says so?"""

import tomllib
from functools import cache
from importlib import resources

LEAST_POINTS = 1.0
_LEAST_GRADES = frozenset({"medium", "high"})


def advice_for(loss: str, share_points: float, confidence: str) -> str | None:
    """Return advice with its trigger; null below one point or when the loss is not well founded.

    The rule with the longest matching ``loss`` counts: ``comm.dp.wait`` before ``comm.``.
    """
    if share_points < LEAST_POINTS or confidence not in _LEAST_GRADES:
        return None
    matching = [prefix for prefix in rules() if loss == prefix or loss.startswith(f"{prefix}.")]
    if not matching:
        return None
    text, trigger = rules()[max(matching, key=len)]
    return f"{text} ({trigger})"


@cache
def rules() -> dict[str, tuple[str, str]]:
    """Return advice and trigger by loss id or by the leading parts of one."""
    text = resources.files("tracelens.report").joinpath("advice.toml").read_text(encoding="utf-8")
    return {rule["loss"]: (rule["do"], rule["because"]) for rule in tomllib.loads(text)["advice"]}
