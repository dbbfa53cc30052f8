"""From files to raw tables: one module or folder a format, recognised by content."""

from tracelens.ingest.importer import ImportOptions
from tracelens.ingest.inputs import find_inputs, passed_over
from tracelens.ingest.linking import link_activities
from tracelens.ingest.load import load

__all__ = ["ImportOptions", "find_inputs", "link_activities", "load", "passed_over"]
