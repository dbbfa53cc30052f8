"""What communication does for the job: dimensions, message sizes, bandwidth."""

from tracelens.comm.ranks import compare_ranks
from tracelens.comm.stage import describe_collectives, summarize_collectives

__all__ = ["compare_ranks", "describe_collectives", "summarize_collectives"]
