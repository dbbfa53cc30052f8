"""How far can the answer be trusted: what was dropped, unknown, repaired?"""

from typing import Any

from tracelens.report.plain_text import shorten
from tracelens.report.sections.account import Account
from tracelens.store import Store

_UNCLASSIFIED_FRAC = 0.02

_UNDIVIDED = (
    "comm.*.undivided: waiting for other ranks and transfer are not told apart in this time"
)


def quality(store: Store, account: Account) -> dict[str, Any]:
    """Return the section ``quality``."""
    return {
        "events_read": _events_read(store),
        "events_dropped": store.records(
            'SELECT reason, sum("count")::BIGINT AS count, min(first_offset) AS first_offset '
            "FROM damage GROUP BY reason ORDER BY count DESC, reason"
        ),
        "unclassified_frac": unclassified_frac(store, account),
        "kernels_without_launch": store.scalar(
            "SELECT count(*) FROM raw.activity ANTI JOIN (SELECT activity_id FROM raw.link "
            "WHERE call_id IS NOT NULL) USING (activity_id) WHERE kind = 'kernel'"
        ),
        "unlaunched_idle_ns": store.scalar(
            "SELECT coalesce(sum(end_ns - start_ns), 0)::BIGINT FROM raw.segment "
            "WHERE leaf = 'idle.unknown' AND call_id IS NULL"
        ),
        "host_recorded": _host_recorded(store),
        "truncated": bool(store.scalar("SELECT coalesce(bool_or(truncated), FALSE) FROM input")),
        "notes": notes(store, account),
    }


def notes(store: Store, account: Account) -> list[str]:
    """Return what stages noted, warnings first."""
    found = store.rows(
        "SELECT text FROM raw.note GROUP BY text "
        "ORDER BY min(CASE severity WHEN 'warning' THEN 0 ELSE 1 END), min(input), min(rowid)"
    )
    undivided = any(leaf.endswith(".undivided") for leaf in account.leaves())
    return [
        *_unclassified_note(store, account),
        *(text for (text,) in found),
        *([_UNDIVIDED] if undivided else []),
    ]


def unclassified_frac(store: Store, account: Account) -> float | None:
    """Return the share of busy time owned by kernels that nothing could classify."""
    busy_ns = account.busy_ns()
    unknown_ns = store.scalar(
        "SELECT coalesce(sum(s.end_ns - s.start_ns), 0)::BIGINT FROM raw.segment AS s "
        "JOIN raw.activity_class AS c USING (activity_id) "
        "WHERE s.leaf = 'compute.other' AND c.class = 'other' AND c.source = 'none'"
    )
    return unknown_ns / busy_ns if busy_ns else None


def identities(store: Store, account: Account, total_ns: int) -> dict[str, Any]:
    """Return whether the parts add up; the sum of time is checked again here, from the rows."""
    stage = store.result("identities") or {}
    residual_ns = account.total_ns - total_ns
    time = stage.get("time") or {}
    capacity = store.result("capacity") or {}
    splits = stage.get("splits") or {}
    return {
        "time": {
            "ok": residual_ns == 0 and time.get("ok", True),
            "residual_ns": residual_ns or time.get("residual_ns", 0),
        },
        "capacity": {"ok": capacity.get("ok"), "residual_rel": capacity.get("residual_rel")},
        "splits": {"ok": splits.get("ok")},
    }


def _host_recorded(store: Store) -> dict[str, bool]:
    """Tell what was recorded of the host beside CUDA calls."""
    return {
        "ops": bool(store.scalar("SELECT EXISTS (SELECT 1 FROM raw.op)")),
        "ranges": bool(
            store.scalar(
                "SELECT EXISTS (SELECT 1 FROM raw.range AS r LEFT JOIN raw.host_label AS l "
                "ON l.name_id = r.name_id AND l.target = 'range' "
                "WHERE coalesce(l.label, '') <> 'step')"
            )
        ),
        "os_calls": bool(
            store.scalar("SELECT EXISTS (SELECT 1 FROM raw.host_call WHERE kind = 'os')")
        ),
    }


def _unclassified_note(store: Store, account: Account) -> list[str]:
    share = unclassified_frac(store, account) or 0.0
    if share <= _UNCLASSIFIED_FRAC:
        return []
    rows = store.rows(
        "SELECT n.name FROM raw.segment AS s JOIN raw.activity_class AS c USING (activity_id) "
        "JOIN raw.activity AS a USING (activity_id) JOIN raw.name AS n USING (name_id) "
        "WHERE c.class = 'other' AND c.source = 'none' "
        "GROUP BY n.name ORDER BY sum(s.end_ns - s.start_ns) DESC, n.name LIMIT 10"
    )
    names = ", ".join(shorten(name, 60) for (name,) in rows)
    return [
        f"{100 * share:.1f} % of busy time is in kernels that no rule knows, the largest: {names}; "
        "please report these names"
    ]


def _events_read(store: Store) -> int | None:
    total = store.scalar("SELECT sum(events_read)::BIGINT FROM input")
    return None if total is None else int(total)
