"""How long does reading an Nsight export take beside reading the same columns with ADBC alone?

    python benchmarks/nsight.py [--kernels 5000000] [--folder DIR]

Makes an export of any size, as SQLite and as parquetdir, and reads each in a process of its own.
Ratios of processor time hold across machines, seconds do not.
"""

import argparse
import json
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from importlib import resources
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from adbc_driver_sqlite import dbapi

from tracelens.ingest.importer import Source
from tracelens.ingest.nsight import parquet, schema, sqlite
from tracelens.store import Store

_ROW_GROUP = 2_048  # what nsys writes
_UNSIGNED = frozenset({"globalPid", "globalTid"})
_MAIN = {
    schema.KERNEL: (*schema.KERNEL_COLUMNS, "demangledName"),
    schema.RUNTIME: schema.CALL_COLUMNS,
    "NVTX_EVENTS": schema.NVTX_COLUMNS,
}
_SMALL = {
    schema.STRINGS: ("id", "value"),
    schema.SESSION_START: ("utcEpochNs",),
    "META_DATA_EXPORT": ("name", "value"),
}


def make_sqlite(path: Path, kernels: int) -> None:
    """Write an export with the tables and columns of a real one."""
    tables = resources.files("tracelens.simulate").joinpath("nsight_schema.sql").read_text("utf-8")
    rows = Path(__file__).with_name("nsight_rows.sql").read_text("utf-8")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;" + tables)
        connection.executescript(f"BEGIN; {rows.replace('$kernels', str(kernels))}; COMMIT;")


def make_parquet(source: Path, folder: Path) -> None:
    """Write the tables that are read as nsys writes them: uncompressed, small row groups."""
    folder.mkdir()
    with closing(dbapi.connect(f"file:{source}?mode=ro")) as connection:
        for table, names in (_MAIN | _SMALL).items():
            with closing(connection.cursor()) as cursor:
                cursor.execute(_query(table, names))
                found = cursor.fetch_arrow_table()
            for at, name in enumerate(found.column_names):
                if name in _UNSIGNED:
                    found = found.set_column(at, name, found[name].cast(pa.uint64()))
            pq.write_table(
                found,
                folder / f"{table}.parquet",
                compression="none",
                row_group_size=_ROW_GROUP,
            )


def _query(table: str, names: tuple[str, ...]) -> str:
    # Types are taken from the first rows: an empty text tells that a column holds text.
    columns = [f"coalesce({name}, '') AS {name}" if name == "text" else name for name in names]
    return f"SELECT {', '.join(columns)} FROM {table}"


def read_alone(path: Path) -> int:
    """Read the columns that ingest needs with ADBC and drop them."""
    count = 0
    with closing(dbapi.connect(f"file:{path}?mode=ro")) as connection:
        for table, names in _MAIN.items():
            with closing(connection.cursor()) as cursor:
                options = {"adbc.sqlite.query.batch_rows": "100000"}
                cursor.adbc_statement.set_options(**options)
                cursor.execute(_query(table, names))
                with cursor.fetch_record_batch() as batches:
                    count += sum(batch.num_rows for batch in batches)
    return count


def ingest(path: Path) -> int:
    """Read an export into a store on disk."""
    module = parquet if path.is_dir() else sqlite
    head = b"" if path.is_dir() else path.open("rb").read(65_536)
    with tempfile.TemporaryDirectory() as folder, Store(Path(folder) / "store") as store:
        store.append("input", {"input": [0], "path": [str(path)], "format": [module.FORMAT]})
        module.read(Source(path, 0, head), store)
        tables = ("activity", "host_call", "op", "range")
        return sum(store.scalar(f"SELECT count(*) FROM raw.{table}") for table in tables)


def _child(what: str, path: Path) -> None:
    began = time.perf_counter()
    rows = read_alone(path) if what == "alone" else ingest(path)
    used = resource.getrusage(resource.RUSAGE_SELF)
    told = {
        "rows": rows,
        "wall_s": time.perf_counter() - began,
        "cpu_s": used.ru_utime + used.ru_stime,
        "peak_mib": used.ru_maxrss // 1024,
    }
    sys.stdout.write(json.dumps(told))


def _measured(what: str, path: Path) -> dict[str, float]:
    command = [sys.executable, __file__, "--child", what, str(path)]
    done = subprocess.run(command, check=True, capture_output=True)
    told: dict[str, float] = json.loads(done.stdout)
    return told


def _report(kernels: int, folder: Path) -> None:
    source, tables = folder / "export.sqlite", folder / "export.parquetdir"
    make_sqlite(source, kernels)
    make_parquet(source, tables)
    runs = {
        "ADBC alone": _measured("alone", source),
        "SQLite": _measured("ingest", source),
        "parquetdir": _measured("ingest", tables),
    }
    size_mb = source.stat().st_size / 1e6
    lines = [
        f"{kernels:,} kernels, {size_mb:,.0f} MB of SQLite; times include start-up and imports",
        "",
        "| read | rows | CPU s | wall s | peak MiB | CPU, ADBC alone = 1 |",
        "|---|---|---|---|---|---|",
    ]
    base = runs["ADBC alone"]["cpu_s"]
    lines += [
        f"| {name} | {run['rows']:,} | {run['cpu_s']:.1f} | {run['wall_s']:.1f}"
        f" | {run['peak_mib']:,} | {run['cpu_s'] / base:.2f} |"
        for name, run in runs.items()
    ]
    sys.stdout.write("\n".join(lines) + "\n")


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernels", type=int, default=5_000_000)
    parser.add_argument("--folder", type=Path, help="where the exports go; removed afterwards")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        _child(given.child[0], Path(given.child[1]))
        return
    folder = Path(tempfile.mkdtemp(prefix="tracelens-bench-", dir=given.folder))
    try:
        _report(given.kernels, folder)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
