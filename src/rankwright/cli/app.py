"""``rankwright``: the verbs, each loaded when it is used; errors become a line and an exit code."""

from __future__ import annotations

import sys

from cyclopts import App

from rankwright import __version__
from rankwright.exceptions import DataError, DatasetError, ModelFileError, RankwrightError

__all__ = ["app", "main"]

# What a script can rely on: see `rankwright --help`.
EXIT_USAGE, EXIT_DATA, EXIT_MODEL, EXIT_IO, EXIT_INTERRUPTED = 2, 3, 4, 5, 130

app = App(
    name="rankwright",
    version=__version__,
    help="Learning to rank from grades, ratings, preferences and clicks.\n\n"
    "Exit codes: 0 done, 2 wrong usage, 3 bad data, 4 bad model file, 5 file or network trouble, "
    "130 interrupted.",
)
app.command("rankwright.cli.demo:demo", name="demo")
app.command("rankwright.cli.data:app", name="data")


def main() -> None:
    """Run the command line; an error raised on purpose ends as its message and an exit code."""
    try:
        app()
    except KeyboardInterrupt:
        _stop("interrupted", EXIT_INTERRUPTED)
    except ModelFileError as error:
        _stop(str(error), EXIT_MODEL)
    except (DatasetError, OSError) as error:
        _stop(str(error), EXIT_IO)
    except DataError as error:
        _stop(str(error), EXIT_DATA)
    except RankwrightError as error:
        _stop(str(error), EXIT_USAGE)


def _stop(message: str, code: int) -> None:
    print(f"rankwright: {message}", file=sys.stderr)
    sys.exit(code)
