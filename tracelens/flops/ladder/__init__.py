"""The ladder below the peak: what each FLOP-bearing kernel loses, step by step."""

from tracelens.flops.ladder.stage import climb

__all__ = ["climb"]
