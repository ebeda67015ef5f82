"""A shell for the tests, and small files that they share."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import rankwright as rw
from rankwright.data.datasets.synthetic import make_engines, make_queries, make_ratings
from rankwright.exceptions import RankwrightWarning

Shell = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with items, runs, qrels, ratings and two models."""
    folder = tmp_path_factory.mktemp("files")
    sample = make_queries(40, docs_per_query=(5, 15), n_features=4, random_state=0).items
    ids = np.array([f"d{k}" for k in range(len(sample))], dtype=object)
    items = rw.Items(sample.X, sample.y, sample.qid, docid=ids)
    train, test = items.take(items.qid < 28), items.take(items.qid >= 28)
    rw.write_letor(train, folder / "train.txt")
    rw.write_letor(test, folder / "test.txt")
    model = rw.RidgeRanker().fit(train.X, train.y, qid=train.qid)
    rw.save(model, folder / "model.rw")
    rw.save(rw.PRank().fit(train.X, train.y, qid=train.qid), folder / "prank.rw")
    engines = make_engines(12, 20, 3, list_length=10, random_state=0)
    for run in engines.runs:
        rw.write_run(run, folder / f"{run.name}.run")
    rw.data.write_qrels(engines.qrels, folder / "qrels.txt")
    ratings = make_ratings(30, 20, density=0.6, random_state=0).ratings
    rows = zip(ratings.users[ratings.user], ratings.items[ratings.item], ratings.value, strict=True)
    lines = ["user,item,rating", *(f"u{user},film {item},{value:g}" for user, item, value in rows)]
    (folder / "ratings.csv").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture
def shell(
    files: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Shell:
    """Run ``rankwright`` in an empty folder, inside this process; $F is the shared folder."""

    def run(
        *words: str, stdin: str | bytes | None = None, code: int = 0
    ) -> subprocess.CompletedProcess[str]:
        from rankwright.cli.app import main

        given = [str(word).replace("$F", str(files)) for word in words]
        data = stdin.encode() if isinstance(stdin, str) else stdin or b""
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
        monkeypatch.setenv("COLUMNS", "100")
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["rankwright", *given])
        ended = 0
        with warnings.catch_warnings():
            warnings.filterwarnings("always", category=RankwrightWarning)
            try:
                main()
            except SystemExit as stop:
                ended = int(stop.code or 0)
        out, err = capsys.readouterr()
        assert ended == code, (ended, out, err)
        return subprocess.CompletedProcess(given, ended, out, err)

    return run


@pytest.fixture
def process(files: Path, tmp_path: Path) -> Shell:
    """The same in a process of its own: for exit codes, pipes and streams."""

    def run(
        *words: str, stdin: str | bytes | None = None, cwd: Path | None = None, code: int = 0
    ) -> subprocess.CompletedProcess[str]:
        given = [str(word).replace("$F", str(files)) for word in words]
        data = stdin.encode() if isinstance(stdin, str) else stdin
        done = subprocess.run(
            [sys.executable, "-m", "rankwright", *given],
            input=b"" if data is None else data,
            capture_output=True,
            cwd=cwd or tmp_path,
            env={**os.environ, "COLUMNS": "100", "NO_COLOR": "1"},
            timeout=300,
            check=False,
        )
        text = subprocess.CompletedProcess(
            done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
        )
        assert text.returncode == code, (text.returncode, text.stdout, text.stderr)
        assert "Traceback" not in text.stderr
        return text

    return run
