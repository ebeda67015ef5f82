"""``rankwright``: each verb is loaded when it is used; errors become a line and an exit code."""

from __future__ import annotations

import dataclasses
import io
import os
import sys
import traceback
import warnings
from argparse import ArgumentError, ArgumentParser, Namespace
from collections.abc import Iterable
from functools import partial
from typing import IO, Any, cast

from cyclopts import App, CycloptsError, Parameter

from rankwright import __version__
from rankwright.cli import EXIT_FILE, EXIT_INTERRUPTED
from rankwright.cli import _shell as sh
from rankwright.data.io.files import STDIN, PipedFile, check_outputs, naming, read_pipe
from rankwright.exceptions import (
    ClusterError,
    DataError,
    ModelFileError,
    ParameterError,
    RankwrightError,
    RankwrightWarning,
    install_advice,
)

# Scripts rely on the exit codes: see `rankwright --help`.
EXIT_USAGE, EXIT_BUG = 2, 70
EXIT_CODES: dict[type[Exception], int] = {  # the first that fits
    ModelFileError: 4,
    OSError: EXIT_FILE,
    ClusterError: EXIT_FILE,
    MemoryError: 6,
    DataError: 3,
    RankwrightError: EXIT_USAGE,
}

OUTPUTS = ("output", "target", "report", "save", "store")  # parameters that name a file to write

HELP = """\
Learning to rank from grades, ratings, preferences and clicks.

File formats are detected from the extension and the first line: LETOR (.txt
.letor .svm), CSV, TSV, Parquet, JSONL, TREC runs and qrels, each also
gzipped. - is standard input.

Every command also takes --config FILE.toml (read options from the table named
after the command).

RANKWRIGHT_MAX_BYTES and RANKWRIGHT_MAX_FEATURES raise the limits of readers.

Exit codes: 0 success, 1 below --fail-under or a check failed, 2 wrong usage,
3 bad data, 4 bad model file, 5 file or network error, 6 out of memory,
70 a bug in rankwright, 130 interrupted, 143 terminated."""

# verb -> module and function, what it does, and its arguments where cyclopts would say ARGS...
VERBS: dict[str, tuple[str, ...]] = {
    "demo": ("serve:demo", "Train every family of rankers on generated data; write a report."),
    "train": ("train:train", "Train a model on graded items, clicks or pairs."),
    "predict": ("models:predict", "Score items with a model, one score per line."),
    "rank": ("models:rank", "Rank the items of each query with a model."),
    "explain": ("models:explain", "Explain what each feature adds to the score of an item."),
    "evaluate": ("models:evaluate", "Evaluate a model or a run on graded data."),
    "compare": ("models:compare", "Compare systems, with significance tests.", "SYSTEM... DATA"),
    "export": ("models:export", "Export a model to a search engine, a runtime or a database."),
    "tune": ("train:tune", "Tune the parameters of a ranker by cross-validation over queries."),
    "fuse": ("lists:fuse", "Merge several runs into one (metasearch).", "RUN RUN..."),
    "recommend": ("lists:recommend", "Recommend items to users, from ratings or events."),
    "similar": ("lists:similar", "List the items or users most like an item or a user."),
    "serve": ("serve:serve", "Rank over HTTP, collect feedback and learn from it.", "[MODEL...]"),
    "judge": ("serve:judge", "Judge documents in a browser, with a model that learns along."),
    "backup": ("stores:backup", "Copy the store of a service, also while it runs."),
    "restore": ("stores:restore", "Make a store from a backup, as it was at a moment."),
    "check-store": ("stores:check_store", "Check the store of a service, or repair it."),
    "check": ("data:check", "Check data for mistakes: PASS, WARN or FAIL for each rule."),
    "data": ("data:app", "List, describe and write public data sets."),
    "info": ("data:info", "Describe a model or data file."),
    "convert": ("data:convert", "Convert data to another format."),
    "compile": ("serve:compile", "Compile the kernels of the rankers ahead of time."),
}


def _shown(default: object) -> str | None:
    """The default in the help, unless it says that an option is not set."""
    if default is None or default is False or default == []:
        return None
    return ", ".join(default) if isinstance(default, list) else str(default)


app = App(
    name="rankwright",
    version=__version__,
    help=HELP,
    help_format="plaintext",
    suppress_keyboard_interrupt=False,
    result_action="return_value",
    default_parameter=Parameter(negative="", show_default=_shown),
)
for _verb, (_target, _help, *_arguments) in VERBS.items():
    _options: Any = {"help": _help, "sort_key": len([*app])}
    if _arguments:
        _options["usage"] = f"Usage: rankwright {_verb} [OPTIONS] {_arguments[0]}"
    app.command(f"rankwright.cli.{_target}", name=_verb, **_options)
app.register_install_completion_command()


def main() -> None:
    """Run the command line; an error of the library ends as its message and an exit code."""
    warnings.showwarning = partial(_show_warning, set())
    _prepare_streams()
    try:
        words, ours = take_options(sys.argv[1:])
        _run(words, ours)
        with naming("standard output"):
            sys.stdout.flush()
    except KeyboardInterrupt:
        _stop("interrupted; no file was left half-written", EXIT_INTERRUPTED)
    except BrokenPipeError:  # the reader of our output is gone (`| head`): not an error
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except CycloptsError:  # cyclopts has printed what is wrong
        sys.exit(EXIT_USAGE)
    except tuple(EXIT_CODES) as error:
        code = next(code for kind, code in EXIT_CODES.items() if isinstance(error, kind))
        _stop(_message(error), code)
    except Exception as error:  # never 1, which means that a check failed
        if isinstance(error, ModuleNotFoundError) and (advice := install_advice(error)):
            _stop(advice, EXIT_FILE)
        traceback.print_exc()
        _stop("this is a bug in rankwright. Please report it with the lines above", EXIT_BUG)


def _message(error: Exception) -> str:
    if isinstance(error, RankwrightError):
        return sh.spelled(error.text())
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{os.fsdecode(error.filename)}: {error.strerror}"
    if isinstance(error, MemoryError):
        size = f" ({error})" if str(error) else ""
        return f"not enough memory{size}: use less data or another ranker"
    return str(error)


def _stop(message: str, code: int) -> None:
    sh.note(f"rankwright: {message}")
    sys.exit(code)


def _prepare_streams() -> None:
    """Open closed streams (``>&-``), and print UTF-8 in any locale; a terminal keeps its own."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A file name may hold bytes that are not UTF-8; in JSON their escape is valid.
        encoding = None if sys.stdout.isatty() else "utf-8"
        sys.stdout.reconfigure(encoding=encoding, errors="backslashreplace")


def _show_warning(
    shown: set[str], message: object, category: type[Warning], *where: Any, **more: Any
) -> None:
    """Print a warning once, without the line of source that raised it."""
    text = message.args[0] if isinstance(message, RankwrightWarning) else str(message)
    if issubclass(category, UserWarning) and text not in shown:  # as those of rankwright are
        shown.add(text)
        sh.note(f"rankwright: warning: {sh.spelled(text)}")


def _run(words: list[str], ours: Namespace) -> None:
    sh.option_names.clear()
    if sys.stdout.isatty() and words and not {"-h", "--help", "--version"} & {*words}:
        sys.stdout = cast(Any, Terminal(sys.stdout))
    words = [STDIN if word == "-" else word for word in words]  # cyclopts takes - for an option
    if words and words[0] in VERBS and app[words[0]].default_command is not None:
        app[words[0]].help = None  # show the docstring, with examples
    app.config = () if ours.config is None else (_read_config(ours.config),)
    _, path, _ = app.parse_commands(words)
    command, bound, _ = app.parse_args(words, exit_on_error=False)
    if command is not path[-1].default_command:  # help or version
        command(*bound.args, **bound.kwargs)
        return
    bound.apply_defaults()
    # Of two parameters of one name, the library's errors are about that of the first group.
    for argument in sorted(path[-1].assemble_argument_collection(), key=lambda one: not one.keys):
        if argument.names[0].startswith("--"):
            sh.option_names.setdefault(argument.field_info.name, argument.names[0])
    outputs = {f"--{name}": bound.arguments.get(name) or "" for name in OUTPUTS}
    check_outputs([ours.config], [pair for pair in outputs.items() if os.path.isfile(pair[1])])
    read: set[str] = set()
    for name, value in bound.arguments.items():
        if name not in OUTPUTS:
            bound.arguments[name] = _read_pipes(value, read)
    command(*bound.args, **bound.kwargs)


def take_options(words: list[str]) -> tuple[list[str], Namespace]:
    """The words without the options that every verb has, and these options."""
    parser = ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--config")
    ours = words[: words.index("--")] if "--" in words else words
    try:
        known, rest = parser.parse_known_args(ours)
    except ArgumentError as error:
        raise ParameterError(f"{error.argument_name}: give the name of a file.") from None
    return rest + words[len(ours) :], known


def _read_config(path: str) -> Any:
    """The options of a TOML file, in a table for each verb."""
    import tomllib

    from cyclopts.config import Dict

    with open(path, "rb") as file:
        try:
            tables = tomllib.load(file)
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise DataError(f"{path} is not TOML: {error}.") from None
    for name in tables.keys() - VERBS.keys():
        raise ParameterError(
            f"{path}: [{name}] is not a command. Put the options of a command in a table "
            f"of its name, such as [train]; the commands are {', '.join(VERBS)}."
        )
    return Dict(tables, source=path)


class Terminal:
    """A terminal that shows control characters instead of obeying them."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return int(self._stream.write(sh.escape_controls(text)))

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _read_pipes(value: object, read: set[str]) -> Any:
    """A path, several paths or a group of options, with the content of pipes, each read once."""
    if isinstance(value, tuple):
        return tuple(_read_pipes(part, read) for part in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = {name: _read_pipes(part, read) for name, part in vars(value).items()}
        return dataclasses.replace(value, **parts)
    if isinstance(value, str) and value in read:
        raise ParameterError("- is standard input: only one of the files can come from it.")
    path = read_pipe(value) if isinstance(value, str) else value
    read |= {path} if isinstance(path, PipedFile) else set()
    return path
