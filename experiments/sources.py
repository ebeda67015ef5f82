"""Hashes of the code that an experiment measured: does a record belong to the present code?

A source is named by its folders: those of the modules that were loaded when the experiment ended.
Its hash covers the tokens of every Python file in them. Comments, docstrings and line breaks
inside of brackets do not count, so that prose can be mended without a new run.
"""

from __future__ import annotations

import hashlib
import sys
import tokenize
from functools import cache
from pathlib import Path

import rankwright

HERE = Path(__file__).parent
ROOTS = {"rankwright": Path(rankwright.__file__).parent, "experiments": HERE}
PROSE = {tokenize.COMMENT, tokenize.NL, tokenize.ENCODING}
STARTS = {tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}


def loaded_folders() -> list[str]:
    """The folders of all modules of rankwright and of experiments that are loaded now."""
    folders = set()
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        for name, root in ROOTS.items():
            if file and Path(file).is_relative_to(root) and Path(file).suffix == ".py":
                folder = Path(file).parent.relative_to(root).as_posix()
                if (name, folder) != ("experiments", "."):
                    folders.add(name if folder == "." else f"{name}/{folder}")
    return sorted(folders)


def source_hash(folders: list[str]) -> str:
    """Twelve hexadecimal digits of the code in these folders; "" if one of them is gone."""
    total = hashlib.sha256()
    for folder in sorted(folders):
        name, _, below = folder.partition("/")
        path = ROOTS.get(name, HERE) / below
        if not path.is_dir():
            return ""
        for file in sorted(path.glob("*.py")):
            total.update(f"{folder}/{file.name} {_code_hash(file)}\n".encode())
    return total.hexdigest()[:12]


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
