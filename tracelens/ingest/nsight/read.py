"""In which order are the tables of an export read into the store?"""

from tracelens.ingest.damage import Damage
from tracelens.ingest.importer import Source
from tracelens.ingest.nsight.activities import read_activities
from tracelens.ingest.nsight.host import read_calls, read_overheads
from tracelens.ingest.nsight.identity import Identity
from tracelens.ingest.nsight.nvtx import read_annotations
from tracelens.ingest.nsight.reading import Reading
from tracelens.ingest.nsight.remarks import (
    tell_diagnostics,
    tell_missing_kernels,
    tell_opaque_graphs,
    write_remarks,
)
from tracelens.ingest.nsight.screening import Screen
from tracelens.ingest.nsight.session import Session, read_session
from tracelens.ingest.nsight.tables import Tables
from tracelens.ingest.nsight.waits import read_waits
from tracelens.store import Store

# GPU work comes first: it tells which processes matter and which context belongs to which GPU.
_STAGES = (read_activities, read_calls, read_annotations, read_overheads, read_waits)


def read_tables(tables: Tables, source: Source, store: Store) -> None:
    """Append what an opened export holds."""
    session = read_session(tables)
    damage = Damage()
    reading = Reading(
        tables=tables,
        store=store,
        input=source.input,
        session=session,
        identity=Identity(tables, store, source.input),
        screen=Screen(damage, session.zero_ns),
    )
    size = source.path.stat().st_size
    for done, stage in enumerate(_STAGES, 1):
        stage(reading)
        source.options.progress(size * done // len(_STAGES), size)
    # Names must lie in the store before remarks can count calls by name.
    store.flush_names()
    for tell in (tell_missing_kernels, tell_diagnostics, tell_opaque_graphs):
        tell(reading)
    write_remarks(reading, [*reading.remarks, *reading.identity.write()])
    damage.write(store, source.input)
    _describe(store, source.input, session, reading.rows_read)


def _describe(store: Store, number: int, session: Session, rows_read: int) -> None:
    store.execute(
        "UPDATE raw.input SET producer = ?, events_read = ?, truncated = FALSE, base_ns = ?,"
        " started_at = ?, resolution_ns = 1, viewer_zero_ns = ? WHERE input = ?",
        [
            session.producer,
            rows_read,
            session.base_ns,
            session.started_at,
            session.zero_ns,
            number,
        ],
    )
