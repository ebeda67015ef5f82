"""The messages of errors and warnings, one file per area.

A line ``>>> call`` is a case; below it stand the class of the error with its fields and, indented,
its text. Other tests pin classes and fields only. After a message was changed, or a case was added,
RANKWRIGHT_WRITE_PAGES=1 writes what the calls say now; read the difference before committing it.
"""

from __future__ import annotations

import ast
import io
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rankwright as rw
from rankwright.cli.app import main
from rankwright.exceptions import RankwrightError, RankwrightWarning

FILES = sorted(Path(__file__).parent.glob("*.txt"))
FIELDS = ("kind", "file", "line", "column", "parameter")


def write(name: str, content: str | bytes) -> str:
    """A file with this content in the folder of the test."""
    Path(name).write_bytes(content.encode() if isinstance(content, str) else content)
    return name


def shown(error: BaseException) -> str:
    """Class and fields of an error, and below it the text if it is ours."""
    fields = ((name, getattr(error, name, None)) for name in FIELDS)
    first = " ".join(
        [type(error).__name__, *(f"{k}={v!r}" for k, v in fields if v not in ("", None))]
    )
    if not isinstance(error, RankwrightError | RankwrightWarning):
        return f"{type(error).__name__}\n"
    return f"{first}\n{indented(str(error))}"


def indented(text: str) -> str:
    return "".join(f"    {line}".rstrip() + "\n" for line in text.splitlines())


def cases(text: str) -> Iterator[tuple[str, str]]:
    """The lines up to the end of each call, and its code ("" for other text)."""
    lines = [
        line for line in text.splitlines() if line.startswith((">>> ", "... ", "#")) or not line
    ]
    for number, line in enumerate(lines):
        if line.startswith("... "):
            continue
        block = [line]
        for more in lines[number + 1 :]:
            if not more.startswith("... "):
                break
            block.append(more)
        code = [one[4:] for one in block] if line.startswith(">>> ") else []
        yield "".join(f"{one}\n" for one in block), "\n".join(code)


def run(line: str) -> str:
    """The exit code of a command, and what it writes to standard error."""
    code, errors = 0, io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        redirect_stderr(errors),
        redirect_stdout(io.StringIO()),
    ):
        patch.setattr(sys, "argv", line.split())
        patch.setattr(warnings, "showwarning", warnings.showwarning)
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
    said = [line for line in errors.getvalue().splitlines() if not line.endswith(" s")]  # seconds
    return "\n".join([f"exit code {code}", *said]).replace(str(Path.cwd()), "FOLDER")


@pytest.fixture
def ask() -> Iterator[Any]:
    """Ask a service that starts with the first question: the status and the body of its answer."""
    clients = []

    def ask(method: str, path: str, body: object = None) -> str:
        pytest.importorskip("apsw")
        from tests.service.conftest import Client

        from rankwright.service import Settings, create_app

        if not clients:
            clients.append(Client(create_app(Settings(store="feedback.db"))))
        answer = clients[0].request(method, path, json=body)
        return f"{answer.status_code} {answer.text}"

    yield ask
    for client in clients:
        client.close()


def result(code: str, names: dict[str, Any]) -> str:
    """What a call answers: the class of its error, fields and text, or the text it returns."""
    statement = ast.parse(code).body[-1]
    try:
        if not isinstance(statement, ast.Expr):
            exec(code, names)
            return ""
        answer = eval(code, names)
    except (NameError, ImportError):
        raise  # a fault of the case
    except Exception as error:
        return shown(error)
    return indented(answer) if isinstance(answer, str) else "no error\n"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_messages(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: Any) -> None:
    monkeypatch.chdir(tmp_path)
    names = {"rw": rw, "np": np, "Path": Path, "write": write, "run": run, "ask": ask}
    text = path.read_text("utf-8")
    new = "".join(given + (result(code, names) if code else "") for given, code in cases(text))
    if os.environ.get("RANKWRIGHT_WRITE_PAGES"):
        path.write_text(new, "utf-8")
    assert new == text, "RANKWRIGHT_WRITE_PAGES=1 writes the new messages into the file"
