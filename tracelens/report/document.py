"""What is the whole answer, as the object that ``attribute --json`` prints?

The schema is ``tracelens.attribution/1``: every field is always there, and null where the trace
cannot say; ``quality.notes`` or a ``reason`` then says why.
"""

from typing import Any

from tracelens.report.advice import advised, findings, health
from tracelens.report.sections import skeletons
from tracelens.report.sections.absent import absences
from tracelens.report.sections.account import Account, time
from tracelens.report.sections.cost import add_cost, cost
from tracelens.report.sections.losses import losses
from tracelens.report.sections.quality import identities, quality
from tracelens.report.sections.run import inputs, run
from tracelens.report.sections.window import mean_step_ns, window
from tracelens.store import Store

SCHEMA = "tracelens.attribution/1"


def document(store: Store) -> dict[str, Any]:
    """Assemble the answer from the store; equal stores give equal documents."""
    account = Account.of(store)
    chosen_window = window(store)
    sections = _sections(store)
    if sections["workload"]["step_time_ns"] is None:
        sections["workload"]["step_time_ns"] = mean_step_ns(chosen_window)
    answer: dict[str, Any] = {
        "schema": SCHEMA,
        "tracelens_version": store.scalar(
            "SELECT value FROM raw.meta WHERE key = 'tracelens_version'"
        ),
        "inputs": inputs(store),
        "run": run(store),
        "workload": sections["workload"],
        "window": chosen_window,
        "time": time(store, account),
        "flops": sections["flops"],
        "peak": sections["peak"],
        "mfu": sections["mfu"],
        "waterfall": sections["waterfall"],
        "losses": losses(store, account, sections),
        "advice": [],
        "health": {},
        "ladder": store.result("ladder") or skeletons.LADDER,
        "collectives": store.result("collectives"),
        "stragglers": store.result("stragglers"),
        "pipeline": store.result("pipeline"),
        "identities": identities(store, account, chosen_window["total_ns"]),
        "quality": quality(store, account),
        "cost": {},
    }
    _price(answer, store)
    _advise(answer, store)
    answer["quality"]["notes"] += absences(answer)
    return answer


def _advise(answer: dict[str, Any], store: Store) -> None:
    """Let the rules speak, and put the most specific line beside each loss."""
    answer["advice"] = findings(store, answer["losses"])
    texts = advised(answer["losses"], answer["advice"])
    for row in answer["losses"]:
        row["advice"] = texts.get(row["id"])
    answer["health"] = health(answer)


def _price(answer: dict[str, Any], store: Store) -> None:
    price = (store.result("price") or {}).get("gpu_hour_price")
    seen = answer["run"]
    answer["cost"] = cost(price, seen["world_size"] or len(seen["ranks"]))
    add_cost(answer["losses"], answer["cost"])


def _sections(store: Store) -> dict[str, Any]:
    sections: dict[str, Any] = {
        name: skeletons.overlay(skeleton, store.result(name))
        for name, skeleton in (
            ("workload", skeletons.WORKLOAD),
            ("flops", skeletons.FLOPS),
            ("peak", skeletons.PEAK),
            ("mfu", skeletons.MFU),
        )
    }
    mfu = sections["mfu"]
    if mfu["value"] is None and mfu["low"] is None and not mfu["reason"]:
        mfu["reason"] = skeletons.NO_FLOPS
    sections["waterfall"] = store.result("waterfall") or []
    return sections
