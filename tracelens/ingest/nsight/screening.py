"""Which rows of an export have a usable interval?"""

from tracelens.ingest.damage import Damage
from tracelens.ingest.nsight.tables import Batch, Mask
from tracelens.units import NS_PER_S

LONGEST_ACTIVITY_NS = 3_600 * NS_PER_S


class Screen:
    """Drops unusable rows and counts them by reason.

    Args:
        damage: where they are counted.
        zero_ns: start of the session on the clock of the rows; nothing happened before it.
    """

    def __init__(self, damage: Damage, zero_ns: int) -> None:
        self._damage = damage
        self._zero_ns = zero_ns

    def drop(self, batch: Batch, bad: Mask, reason: str) -> Batch:
        """Return the rows that are not bad; count the others."""
        rows = batch.rows[bad]
        if not len(rows):
            return batch
        self._damage.add(reason, int(rows[0]), len(rows))
        return batch.where(~bad)

    def timed(self, batch: Batch, table: str, *, longest_ns: int | None = None) -> Batch:
        """Return the rows with a usable interval; count the others."""
        batch = self.drop(
            batch, ~(batch.present("start") & batch.present("end")), f"{table}: no start or end"
        )
        early = batch.ints("start") < self._zero_ns
        batch = self.drop(batch, early, f"{table}: starts before the session")
        backwards = batch.ints("end") < batch.ints("start")
        batch = self.drop(batch, backwards, f"{table}: ends before it starts")
        if longest_ns is None:
            return batch
        # No wrap-around here: starts are bounded from below and ends by their starts.
        long = batch.ints("end") - batch.ints("start") > longest_ns
        return self.drop(batch, long, f"{table}: longer than {longest_ns // NS_PER_S} s")
