"""``python -m noracle`` is the command line."""

from __future__ import annotations

from noracle.cli import main

if __name__ == "__main__":
    main()
