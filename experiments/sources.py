"""Hashes of the code that an experiment measured: does a record belong to the present code?

A source is named by its modules: those of rankwright and of experiments that were loaded when the
experiment ended, also in its worker processes. A hash covers the syntax of a file. Comments,
docstrings, the layout of lines and the annotations of functions do not count, so that prose and
types can be mended without a new run; nor do imports, because a function that moves changes the
file that it leaves.
"""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import rankwright

HERE = Path(__file__).parent
ROOTS = {"rankwright": Path(rankwright.__file__).parent, "experiments": HERE}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
IMPORTS = (ast.Import, ast.ImportFrom)
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
    """The hash of what one file does: its syntax without prose, annotations and imports."""
    tree = ast.parse(file.read_bytes())
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            del node.body[0]
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.returns = None
        elif isinstance(node, ast.arg):
            node.annotation = None
        for name in ("body", "orelse", "finalbody"):
            statements = getattr(node, name, None)
            if isinstance(statements, list):
                kept = [each for each in statements if not isinstance(each, IMPORTS)]
                setattr(node, name, kept)
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()
