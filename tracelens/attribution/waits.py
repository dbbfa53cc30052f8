"""Charge exposed communication to waiting and to transfer, where other ranks tell them apart."""

from importlib import resources

from tracelens.attribution.identities import check_partition
from tracelens.store import Store


def charge_waits(store: Store) -> None:
    """Divide segments of ``raw.segment`` at the last arrivals that ``raw.exchange_member`` holds.

    Raises:
        IdentityError: if segments no longer sum to the window, to the nanosecond.
    """
    sql = resources.files("tracelens.attribution").joinpath("waits.sql").read_text("utf-8")
    for statement in sql.split(";\n"):
        store.execute(statement)
    store.put_result("identities", check_partition(store))
