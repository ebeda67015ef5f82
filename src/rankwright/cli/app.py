"""``rankwright``: each verb is loaded when it is used; errors become a line and an exit code."""

from __future__ import annotations

import inspect
import io
import json
import os
import re
import shlex
import sys
import traceback
import warnings
from argparse import ArgumentError, ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from functools import partial
from importlib import metadata
from typing import Any, cast

from cyclopts import App, CycloptsError, Parameter

from rankwright import __version__, exceptions
from rankwright.cli import _options as opt
from rankwright.cli._console import STDIN, Pipes, Terminal, common_inputs, note
from rankwright.data.io.files import naming
from rankwright.exceptions import DataError, ParameterError

# Error -> exit code, most special first; scripts rely on them: see `rankwright --help`.
EXIT_CODES: dict[type[Exception], int] = {
    CycloptsError: 2,
    exceptions.ModelFileError: 4,
    OSError: 5,
    MemoryError: 6,
    DataError: 3,
    exceptions.RankwrightError: 2,
}
EXIT_INTERRUPTED, EXIT_BUG = 130, 70

OUTPUTS = ("output", "target", "report", "save", "store")  # parameters that name a file to write

HELP = """\
Learning to rank from grades, ratings, preferences and clicks.

The extension and the first line of a file give its format: LETOR (.txt
.letor .svm), CSV, TSV, Parquet, JSONL, TREC runs and qrels, each also
gzipped; - is standard input.

With any verb: --config FILE.toml takes options from the table of that name
in a TOML file; --print-config prints the options as such a file instead of
running; --key-file FILE signs model files, and loads only signed ones.

RANKWRIGHT_MAX_BYTES and RANKWRIGHT_MAX_FEATURES raise the limits of readers.

Exit codes: 0 done, 1 below --fail-under or a check failed, 2 wrong usage,
3 bad data, 4 bad model file, 5 file or network error, 6 out of memory,
70 a mistake in rankwright, 130 interrupted, 143 terminated."""

# verb -> (module and function, what it does); the module is imported when the verb is used.
VERBS = {
    "demo": ("demo:demo", "See it work: generated data, every family of rankers, a report page."),
    "train": ("train:train", "Learn a model from graded items."),
    "predict": ("predict:predict", "Score items with a model: one number per line."),
    "rank": ("predict:rank", "Order the items of each query with a model."),
    "evaluate": ("evaluate:evaluate", "Measure a model or a run on graded data."),
    "compare": ("evaluate:compare", "The table of several systems, with significance."),
    "export": ("predict:export", "Write a model for a search engine, a runtime or a database."),
    "tune": ("train:tune", "Search the parameters of a ranker by cross-validation over queries."),
    "fuse": ("fuse:fuse", "Make one run of several (metasearch)."),
    "recommend": ("recommend:recommend", "Recommend items to users, from ratings."),
    "serve": ("serve:serve", "Rank over HTTP, collect feedback, learn while serving."),
    "check": ("data:check", "Look for mistakes in data: PASS or FAIL per rule."),
    "data": ("data:app", "Known public data sets."),
    "info": ("data:info", "What is in a model or data file."),
    "convert": ("data:convert", "Write data in another format."),
    "compile": ("demo:compile", "Compile the loops of the rankers ahead of their first use."),
}

# The first line of help where cyclopts would say ARGS...
USAGE = {
    "compare": "Usage: rankwright compare [OPTIONS] SYSTEM... DATA",
    "fuse": "Usage: rankwright fuse [OPTIONS] RUN RUN...",
    "serve": "Usage: rankwright serve [OPTIONS] [MODEL...]",
}


def _shown(default: Any) -> str | None:
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
for _number, (_verb, (_target, _help)) in enumerate(VERBS.items()):
    app.command(f"rankwright.cli.{_target}", name=_verb, help=_help, sort_key=_number)
app.register_install_completion_command()


def main() -> None:
    """Run the command line; an error of the library ends as its message and an exit code."""
    warnings.showwarning = partial(_show_warning, set())
    _prepare_streams()
    try:
        _run(sys.argv[1:])
        with naming("standard output"):
            sys.stdout.flush()
    except KeyboardInterrupt:
        _stop("interrupted; no file was left half-written", EXIT_INTERRUPTED)
    except BrokenPipeError:  # the reader of our output is gone (`| head`): not an error
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except tuple(EXIT_CODES) as error:
        code = next(code for kind, code in EXIT_CODES.items() if isinstance(error, kind))
        if isinstance(error, CycloptsError):
            sys.exit(code)  # cyclopts has printed what is wrong
        text = str(error)
        if isinstance(error, exceptions.RankwrightError):
            text = opt.in_options(text)
        elif isinstance(error, OSError) and error.filename and error.strerror:
            text = f"{os.fsdecode(error.filename)}: {error.strerror}"
        elif isinstance(error, MemoryError):
            text = f" ({text})" if text else ""
            text = f"not enough memory{text}: use less data or another ranker"
        _stop(text, code)
    except Exception as error:  # never 1, which means that a check failed
        if isinstance(error, ModuleNotFoundError) and (extra := _extra(error.name or "")):
            install = f"pip install 'rankwright[{extra}]'"
            _stop(
                f"this needs {error.name}, which is not installed. Run: {install}",
                EXIT_CODES[OSError],
            )
        traceback.print_exc()
        _stop("this is a mistake in rankwright. Please report it with the lines above", EXIT_BUG)


def _extra(module: str) -> str | None:
    """The smallest extra of our distribution that brings a module; None if none does."""
    package = module.split(".")[0].replace("_", "-")
    extras: dict[str, list[str]] = {}
    for requirement in metadata.requires("rankwright") or []:
        if match := re.search("extra == ['\"](.+)['\"]", requirement):
            extras.setdefault(match[1], []).append(requirement.lower())
    bringing = [
        name for name, all_of in extras.items() if any(r.startswith(package) for r in all_of)
    ]
    return min(bringing, key=lambda name: len(extras[name]), default=None)


def _stop(message: str, code: int) -> None:
    note(f"rankwright: {message}")
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
    shown: set[str], message: Any, category: type[Warning], *where: Any, **more: Any
) -> None:
    """Print a warning once, without the line of source that raised it."""
    text = str(message)
    if issubclass(category, UserWarning) and text not in shown:  # as those of rankwright are
        shown.add(text)
        note(f"rankwright: warning: {opt.in_options(text)}")


def _run(words: list[str]) -> None:
    opt.option_names.clear()
    words, ours = take_options(words)
    common_inputs[:] = [ours.config, ours.key_file]
    if ours.key_file is None:
        _run_verb(words, ours)
        return
    from rankwright.persist.format import read_key, use_key

    use_key(read_key(ours.key_file))
    try:
        _run_verb(words, ours)
    finally:
        use_key(None)


def _run_verb(words: list[str], ours: Namespace) -> None:
    if sys.stdout.isatty() and words and not {"-h", "--help", "--version"} & {*words}:
        sys.stdout = cast(Any, Terminal(sys.stdout))
    words = [STDIN if word == "-" else word for word in words]  # cyclopts takes - for an option
    if words and words[0] in VERBS:
        verb = app[words[0]]
        if verb.default_command is not None:  # show its docstring, with examples
            verb.help = None
            verb.usage = USAGE.get(words[0])
            doc = verb.default_command.__doc__ or ""
            verb.default_command.__doc__ = re.sub(r"\n {12}", " ", doc)  # one line an option
    app.config = ()
    if ours.config is not None:
        from cyclopts.config import Toml

        _check_config(ours.config)
        app.config = (Toml(ours.config, must_exist=True),)
    verbs, path, _ = app.parse_commands(words)
    command, bound, _ = app.parse_args(words, exit_on_error=False)
    if ours.print_config and not verbs:
        raise ParameterError("--print-config: name the verb, such as rankwright train DATA.")
    if command is not path[-1].default_command:  # help or version
        command(*bound.args, **bound.kwargs)
        return
    bound.apply_defaults()
    options = list(_options_of(path[-1], bound))
    if ours.print_config:
        print_config(words, verbs, options)
        return
    # Of two parameters of one name, the library's errors are about that of the first group.
    for name, parameter, _, _ in sorted(options, key=lambda option: not option[3]):
        opt.option_names.setdefault(parameter, name)
    with Pipes() as pipes:
        for name, value in bound.arguments.items():
            if name not in OUTPUTS:
                bound.arguments[name] = pipes.copied(value)
        command(*bound.args, **bound.kwargs)


def _options_of(verb: App, bound: inspect.BoundArguments) -> Iterator[tuple[str, str, Any, bool]]:
    """Name, parameter and value of each option, and whether it is in a group."""
    group: Any = None
    for argument in verb.assemble_argument_collection():
        parameter, in_group = argument.field_info.name, bool(argument.keys)
        value = getattr(group, parameter) if in_group else bound.arguments[parameter]
        group = group if in_group else value
        if argument.names[0].startswith("--"):
            yield argument.names[0], parameter, value, in_group


def take_options(words: list[str]) -> tuple[list[str], Namespace]:
    """The words without the options that every verb has, and these options.

    >>> words, ours = take_options(["train", "a.txt", "--print-config"])
    >>> words, ours.config, ours.print_config
    (['train', 'a.txt'], None, True)
    """
    parser = ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--config")
    parser.add_argument("--key-file")
    parser.add_argument("--print-config", action="store_true")
    ours = words[: words.index("--")] if "--" in words else words
    try:
        known, rest = parser.parse_known_args(ours)
    except ArgumentError as error:
        raise ParameterError(f"{error.argument_name}: give the name of a file.") from None
    return rest + words[len(ours) :], known


def _check_config(path: str) -> None:
    import tomllib

    with open(path, "rb") as file:
        try:
            tables = tomllib.load(file)
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise DataError(f"{path} is not TOML: {error}.") from None
    for name in tables:
        if name not in VERBS:
            raise ParameterError(
                f"{path}: [{name}] is not a verb. Options of a verb are in a table of its name, "
                f"such as [train]; the verbs are {', '.join(VERBS)}."
            )


def print_config(words: list[str], verbs: Sequence[str], options: list[Any]) -> None:
    """Print the options that this call would run with, as a table of a TOML file."""
    call = shlex.join(["rankwright", *("-" if word == STDIN else word for word in words)])
    print(f"# {call}".replace("\n", " "))
    print(f"[{'.'.join(verbs)}]")
    for name, _, value, _ in options:
        line = f"{name.removeprefix('--')} = {json.dumps(value, ensure_ascii=False)}"
        print(line if value is not None else f"# {line.removesuffix(' null')}")
