"""``rankwright``: the verbs, each loaded when it is used; errors become a line and an exit code."""

from __future__ import annotations

import io
import os
import sys
import warnings
from typing import Any

from cyclopts import App, CycloptsError, Parameter

from rankwright import __version__
from rankwright.cli.helping import Pages
from rankwright.exceptions import (
    DataError,
    DatasetError,
    ModelFileError,
    RankwrightError,
    RankwrightWarning,
)

# What a script can rely on: see `rankwright --help`.
EXIT_USAGE, EXIT_DATA, EXIT_MODEL, EXIT_IO, EXIT_INTERRUPTED = 2, 3, 4, 5, 130

HELP = (
    "Learning to rank from grades, ratings, preferences and clicks.\n\n"
    "Files are told by their ending and first line: LETOR (.txt .letor .svm), CSV, TSV, Parquet, "
    "JSONL, TREC runs and qrels, each also gzipped; - is standard input.\n\n"
    "With any verb: --config FILE.toml takes options from the table of that name in a TOML file; "
    "--print-config prints the options as such a file instead of running.\n\n"
    "Exit codes: 0 done, 1 below --fail-under or a check failed, 2 wrong usage, 3 bad data, 4 bad "
    "model file, 5 file or network trouble, 130 interrupted."
)

# verb -> what it does; the module of the same name is imported when the verb is used.
VERBS = {
    "demo": "See it work: generated data, every family of rankers, a report page.",
    "train": "Learn a model from graded items.",
    "predict": "Score items with a model: one number per line.",
    "rank": "Order the items of each query with a model.",
    "evaluate": "Measure a model or a run on graded data.",
    "compare": "The table of several systems, with significance.",
    "tune": "Search the parameters of a ranker by cross-validation over queries.",
    "fuse": "Make one run of several (metasearch).",
    "recommend": "Recommend items to users, from ratings.",
    "check": "Look for mistakes in data: PASS or FAIL per rule.",
    "data": "Known public data sets.",
    "info": "What is in a model or data file.",
    "convert": "Write data in another format.",
}

# The first line of help where cyclopts would say ARGS...
USAGE = {
    "compare": "Usage: rankwright compare [OPTIONS] SYSTEM... DATA",
    "fuse": "Usage: rankwright fuse [OPTIONS] RUN RUN...",
}


def _shown(default: Any) -> str | None:
    """A default worth a word in the help."""
    if default is None or default is False or default == []:
        return None
    return ", ".join(default) if isinstance(default, list) else str(default)


app = App(
    name="rankwright",
    version=__version__,
    help=HELP,
    help_format="plaintext",
    help_formatter=Pages(),
    suppress_keyboard_interrupt=False,
    result_action="return_value",
    default_parameter=Parameter(negative="", show_default=_shown),
)
for _place, (_verb, _help) in enumerate(VERBS.items()):
    _entry = "app" if _verb == "data" else _verb
    app.command(f"rankwright.cli.{_verb}:{_entry}", name=_verb, help=_help, sort_key=_place)
app.register_install_completion_command()


def main() -> None:
    """Run the command line; an error raised on purpose ends as its message and an exit code."""
    warnings.showwarning = _show_warning
    _replace_closed_streams()
    _speak_utf8()
    try:
        _run(sys.argv[1:])
        sys.stdout.flush()
    except KeyboardInterrupt:
        _stop("interrupted; no file was left half-written", EXIT_INTERRUPTED)
    except BrokenPipeError:
        # The reader of our output went away (`| head`): nothing is wrong, and nothing more to say.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except CycloptsError:
        sys.exit(EXIT_USAGE)  # cyclopts has printed what is wrong
    except ModelFileError as error:
        _stop(str(error), EXIT_MODEL)
    except DatasetError as error:
        _stop(str(error), EXIT_IO)
    except OSError as error:
        _stop(_words(error), EXIT_IO)
    except DataError as error:
        _stop(str(error), EXIT_DATA)
    except RankwrightError as error:
        _stop(str(error), EXIT_USAGE)


def _replace_closed_streams() -> None:
    """After ``>&-`` there is no stream at all: what is said there goes nowhere."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115


def _speak_utf8() -> None:
    """Results leave as data are read: in UTF-8, whatever the locale; a terminal keeps its own."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        if sys.stdout.isatty():
            sys.stdout.reconfigure(errors="backslashreplace")
        else:
            sys.stdout.reconfigure(encoding="utf-8")


def _run(words: list[str]) -> None:
    from rankwright.cli.config import STDIN, print_config, take_options

    words, config, print_only = take_options(words)
    words = [STDIN if word == "-" else word for word in words]  # cyclopts takes - for an option
    if words and words[0] in VERBS:
        _explain(app[words[0]])
    app.config = () if config is None else _options_of(config)
    if print_only:
        print_config(app, words)
    else:
        app(words, exit_on_error=False)


def _options_of(config: str) -> tuple[Any, ...]:
    from cyclopts.config import Toml

    return (Toml(config, must_exist=True),)


def _explain(verb: App) -> None:
    """Let a verb that is asked for speak for itself: its docstring, with examples."""
    if verb.default_command is not None:
        verb.help = None
        verb.usage = USAGE.get(verb.name[0])


def _stop(message: str, code: int) -> None:
    print(f"rankwright: {message}", file=sys.stderr)
    sys.exit(code)


def _words(error: OSError) -> str:
    if error.filename is None or error.strerror is None:
        return str(error)
    return f"{os.fsdecode(error.filename)}: {error.strerror}"


def _show_warning(message: Any, category: type[Warning], *place: Any, **more: Any) -> None:
    """Warnings for people: no line of our own source."""
    if issubclass(category, RankwrightWarning | UserWarning):
        print(f"rankwright: warning: {message}", file=sys.stderr)
