"""``python -m rankwright`` and the command ``rankwright``."""

from __future__ import annotations

from rankwright.cli import main

if __name__ == "__main__":
    main()
