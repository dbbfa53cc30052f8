"""Chrome-trace JSON as PyTorch's profiler (Kineto) writes it, from torch 1.8 to today."""

from tracelens.ingest.chrome.read import FORMAT, read, recognizes

__all__ = ["FORMAT", "read", "recognizes"]
