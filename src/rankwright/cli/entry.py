"""Where the command line starts: signals are handled before anything large is imported."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import NoReturn

EXIT_INTERRUPTED, EXIT_TERMINATED = 130, 143


def main() -> None:
    """Run the command line; SIGTERM ends it as Ctrl-C does, without temporary files left."""
    signal.signal(signal.SIGTERM, _terminate)
    try:
        from rankwright.cli.app import main as run

        run()
    except KeyboardInterrupt:  # during imports
        sys.stderr.write("rankwright: interrupted\n")
        sys.exit(EXIT_INTERRUPTED)


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    """Unwind, so that every block removes its temporary files; a second signal ends at once."""
    signal.signal(number, signal.SIG_DFL)
    os.write(2, b"rankwright: terminated; no file was left half-written\n")
    raise SystemExit(EXIT_TERMINATED)
