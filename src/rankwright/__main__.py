"""``python -m rankwright``: the command line."""

from __future__ import annotations

from rankwright.cli.entry import main

if __name__ == "__main__":
    main()
