"""The command line: each verb parses its options, calls the library and prints.

It starts here, so that signals are handled before anything large is imported.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import NoReturn

EXIT_FILE, EXIT_INTERRUPTED, EXIT_TERMINATED = 5, 130, 143


def main() -> None:
    """Run the command line; SIGTERM ends it as Ctrl-C does, without temporary files left."""
    try:
        signal.signal(signal.SIGTERM, _terminate)
        from rankwright.cli.app import main as run

        run()
    except KeyboardInterrupt:  # during imports
        sys.stderr.write("rankwright: interrupted\n")
        sys.exit(EXIT_INTERRUPTED)
    except ModuleNotFoundError as error:  # of a small install
        if error.name is None or error.name.startswith("rankwright"):
            raise
        sys.stderr.write(
            f"rankwright: the command line needs {error.name}, which is not installed. A plain "
            "install serves models from Python (load_scorer); for everything else run: "
            "pip install 'rankwright[train]'\n"
        )
        sys.exit(EXIT_FILE)


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    """Unwind, so that every block removes its temporary files; a second signal ends at once."""
    signal.signal(number, signal.SIG_DFL)
    os.write(2, b"rankwright: terminated; no file was left half-written\n")
    raise SystemExit(EXIT_TERMINATED)
