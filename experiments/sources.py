"""Hashes of the code that an experiment measured: does a record belong to the present code?

A source is named by its modules: those of rankwright and of experiments that were loaded when the
experiment ended, also in its worker processes. A hash covers the tokens of a file. Comments,
docstrings and line breaks inside of brackets do not count, so that prose can be mended without a
new run.
"""

from __future__ import annotations

import hashlib
import sys
import tokenize
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import rankwright

HERE = Path(__file__).parent
ROOTS = {"rankwright": Path(rankwright.__file__).parent, "experiments": HERE}
PROSE = {tokenize.COMMENT, tokenize.NL, tokenize.ENCODING}
STARTS = {tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
T = TypeVar("T")


_loaded_by_workers: set[str] = set()


def loaded_modules() -> list[str]:
    """The files of all modules of rankwright and of experiments that are loaded now."""
    files = set(_loaded_by_workers)
    for module in list(sys.modules.values()):
        file = Path(getattr(module, "__file__", None) or "")
        for name, root in ROOTS.items():
            if file.suffix == ".py" and file.is_relative_to(root) and file.parent != HERE:
                files.add(f"{name}/{file.relative_to(root).as_posix()}")
    return sorted(files)


def call_in_worker(function: Callable[..., T], *arguments: Any) -> tuple[T, list[str]]:
    """What the function returns, and the modules loaded by then; call it in a worker process."""
    return function(*arguments), loaded_modules()


def note_worker(answer: tuple[T, list[str]]) -> T:
    """What the function returned; the modules of the worker count as loaded from now on."""
    _loaded_by_workers.update(answer[1])
    return answer[0]


def module_hashes(files: list[str]) -> dict[str, str]:
    """Six hexadecimal digits for each file; "" for one that is gone."""
    return {file: _code_hash(path)[:6] if (path := _path(file)).is_file() else "" for file in files}


def changed_modules(hashes: dict[str, str]) -> list[str]:
    """The files whose code is not the code that was hashed."""
    now = module_hashes(list(hashes))
    return [file for file, digits in hashes.items() if digits != now[file]]


def hash_of(hashes: dict[str, str]) -> str:
    """Twelve hexadecimal digits for the hashes of several files."""
    lines = "".join(f"{file} {digits}\n" for file, digits in sorted(hashes.items()))
    return hashlib.sha256(lines.encode()).hexdigest()[:12]


def source_hash(folders: list[str]) -> str:
    """Twelve hexadecimal digits of the code in these folders; "" if one of them is gone."""
    total = hashlib.sha256()
    for folder in sorted(folders):
        path = _path(folder)
        if not path.is_dir():
            return ""
        for file in sorted(path.glob("*.py")):
            total.update(f"{folder}/{file.name} {_code_hash(file)}\n".encode())
    return total.hexdigest()[:12]


def _path(name: str) -> Path:
    root, _, below = name.partition("/")
    return ROOTS.get(root, HERE) / below


@cache
def _code_hash(file: Path) -> str:
    """The hash of the tokens of one file, without prose."""
    words: list[str] = []
    with file.open("rb") as stream:
        before = tokenize.NEWLINE
        for token in tokenize.tokenize(stream.readline):
            if token.type in PROSE:
                continue
            is_docstring = token.type == tokenize.STRING and before in STARTS
            words.append("" if is_docstring else token.string or tokenize.tok_name[token.type])
            before = token.type
    return hashlib.sha256("\0".join(words).encode()).hexdigest()
