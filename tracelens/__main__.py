"""``python -m tracelens`` is the same program as ``tracelens``."""

from tracelens.cli import main

if __name__ == "__main__":
    main()
