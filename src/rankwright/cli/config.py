"""Options from a TOML file, and the options of a call as such a file."""

from __future__ import annotations

import dataclasses
import json
import os
import shlex
from inspect import Parameter
from typing import Any

from cyclopts import App

from rankwright.exceptions import DataError, ParameterError

STDIN = "<stdin>"  # what "-" is called inside, and in errors


def take_options(words: list[str]) -> tuple[list[str], str | None, bool]:
    """The words without ``--config FILE`` and ``--print-config``; the file; whether to print.

    >>> take_options(["train", "a.txt", "--config=x.toml", "--print-config"])[1:]
    Traceback (most recent call last):
    ...
    FileNotFoundError: [Errno 2] No such file or directory: 'x.toml'
    >>> take_options(["train", "a.txt", "--print-config"])
    (['train', 'a.txt'], None, True)
    """
    rest: list[str] = []
    config, print_only = None, False
    left = list(words)
    while left:
        word = left.pop(0)
        if word == "--":
            rest += [word, *left]
            break
        if word == "--print-config":
            print_only = True
        elif word == "--config" and not left:
            raise ParameterError("--config: give the TOML file that holds the options.")
        elif word == "--config" or word.startswith("--config="):
            config = left.pop(0) if word == "--config" else word.partition("=")[2]
        else:
            rest.append(word)
    if config is not None:
        _check(config)
    return rest, config, print_only


def _check(path: str) -> None:
    import tomllib

    with open(path, "rb") as file:
        try:
            tables = tomllib.load(file)
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise DataError(f"{os.fspath(path)} is no TOML: {error}.") from None
    from rankwright.cli.app import VERBS

    for name in tables:
        if name not in VERBS:
            raise ParameterError(
                f"{os.fspath(path)}: [{name}] is no verb. Options stand in the table of their "
                f"verb, such as [train]; the verbs are {', '.join(VERBS)}."
            )


def print_config(app: App, words: list[str]) -> None:
    """Print the options that this call would run with, as a table of a TOML file."""
    verbs = app.parse_commands(words)[0]
    if not verbs:
        raise ParameterError("--print-config: name the verb, such as rankwright train DATA.")
    _, bound, _ = app.parse_args(words, exit_on_error=False)
    bound.apply_defaults()
    said = shlex.join(["rankwright", *("-" if word == STDIN else word for word in words)])
    print(f"# {said}".replace("\n", " "))
    lines = [f"[{'.'.join(verbs)}]"]
    for name, value in bound.arguments.items():
        if bound.signature.parameters[name].kind is Parameter.KEYWORD_ONLY:
            lines += _options(name, value)
    print("\n".join(lines))


def _options(name: str, value: Any) -> list[str]:
    if dataclasses.is_dataclass(value):
        parts = dataclasses.asdict(value)  # type: ignore[arg-type]
        return [line for key, part in parts.items() for line in _options(key, part)]
    key = name.replace("_", "-")
    if value is None:
        return [f"# {key} ="]
    return [f"{key} = {json.dumps(value, ensure_ascii=False)}"]
