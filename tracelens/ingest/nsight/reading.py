"""What do the readers of single tables share while one export is read?"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tracelens.ingest.nsight.identity import Identity
from tracelens.ingest.nsight.screening import Screen
from tracelens.ingest.nsight.session import Session
from tracelens.ingest.nsight.tables import Batch, Tables
from tracelens.store import Store


@dataclass
class Reading:
    """One export on its way into the store.

    Attributes:
        tables: the export.
        store: where rows go.
        input: the input's row.
        session: facts that hold for all rows.
        identity: numbers of processes, threads and GPUs.
        screen: drops and counts rows that cannot be used.
        remarks: what a user should know before trusting figures.
        rows_read: rows seen, unusable ones included.
    """

    tables: Tables
    store: Store
    input: int
    session: Session
    identity: Identity
    screen: Screen
    remarks: list[str] = field(default_factory=list)
    rows_read: int = 0

    def batches(self, table: str, names: Sequence[str]) -> Iterator[Batch]:
        """Yield the rows of a table and count them."""
        for batch in self.tables.batches(table, names):
            self.rows_read += len(batch)
            yield batch
