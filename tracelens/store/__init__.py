"""The DuckDB database in which all stages meet."""

from tracelens.store.database import Store

__all__ = ["Store"]
