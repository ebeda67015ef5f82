"""``python -m rankwright`` and the command ``rankwright``."""

from __future__ import annotations

import sys

EXIT_FILE = 5


def main() -> None:
    """Run the command line, or say what a small install lacks for it."""
    try:
        from rankwright.cli.app import main as run
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("rankwright"):
            raise
        print(
            f"rankwright: the command line needs {error.name}, which is not installed. A plain "
            "install serves models from Python (load_scorer); for everything else run: "
            "pip install 'rankwright[train]'",
            file=sys.stderr,
        )
        sys.exit(EXIT_FILE)
    run()


if __name__ == "__main__":
    main()
