"""What communication does for the job: dimensions, message sizes, bandwidth."""

from tracelens.comm.stage import describe_collectives, summarize_collectives

__all__ = ["describe_collectives", "summarize_collectives"]
