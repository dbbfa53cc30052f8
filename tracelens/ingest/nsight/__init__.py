"""Nsight Systems: SQLite and Parquet exports, and reports exported through the user's own nsys."""

from tracelens.ingest.nsight import parquet, report_file, sqlite

__all__ = ["parquet", "report_file", "sqlite"]
