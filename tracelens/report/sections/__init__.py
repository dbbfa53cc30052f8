"""The answer, one module a top-level key or a few that belong together."""
