"""Which rows do the pivots and the FLOPs section of the page hold?"""

from typing import Any

from tracelens.report.page_rows import heat_rows

_PIVOTS = (
    ("rank", "per_rank", "Time by rank and group", True),
    ("step", "per_step", "Time by step, rank and group", True),
    ("phase", "by_phase", "Time by phase and group", False),
    ("module", "by_module", "Time by module and group", False),
)
_WHY_ABSENT = "the trace does not tell it"
_COMPONENTS = {
    "recompute": "activations recomputed",
    "attention_backward_recompute": "scores recomputed by flash backward",
    "masked_not_executed": "masked, credited, not executed",
    "padding": "padding",
    "optimizer": "matmuls of the optimizer",
    "unshaped": "kernels without shapes",
    "residual": "residual",
}


def pivots(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the ways of dividing the time that this run has."""
    return [
        {"id": name, "title": words, "table": heat_rows(document, table), "figure": drawn and table}
        for name, table, words, drawn in _PIVOTS
        if document["time"][table]
    ]


def absent_pivots(document: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the others, with the reason."""
    return [(name, _WHY_ABSENT) for name, table, *_ in _PIVOTS if not document["time"][table]]


def conventions(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Return model FLOPs and MFU by convention, the largest first."""
    flops = document["flops"]["per_convention"] or {}
    mfus = document["mfu"]["per_convention"] or {}
    rows = [
        {
            "name": name,
            "flop": flops.get(name),
            "mfu": mfus.get(name),
            "own": name == document["flops"]["convention"],
        }
        for name in dict.fromkeys([*flops, *mfus])
    ]
    return sorted(rows, key=lambda row: (-(row["flop"] or 0), row["name"]))


def components(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what leads from model FLOPs to executed ones; what is not known is null."""
    flops = document["flops"]
    model = flops["model_flop"]
    if model is None:
        return []
    parts = [("model FLOPs", model)]
    parts += [
        (words, flops["reconciliation"].get(name))
        for name, words in _COMPONENTS.items()
        if name in flops["reconciliation"]
    ]
    parts.append(("executed FLOPs", flops["executed_flop"]))
    return [
        {"name": name, "flop": flop, "frac": None if flop is None or not model else flop / model}
        for name, flop in parts
    ]
