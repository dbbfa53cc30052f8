"""Many runs a night: found, attributed one by one, kept in a lake of Parquet files."""

from tracelens.batch.discovery import RunFiles, discover
from tracelens.batch.lake import Lake, RunRow
from tracelens.batch.night import BatchReport, run_batch

__all__ = ["BatchReport", "Lake", "RunFiles", "RunRow", "discover", "run_batch"]
