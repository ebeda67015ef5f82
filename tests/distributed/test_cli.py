"""``rankwright train`` on an engine, at the shell."""

from __future__ import annotations

import numpy as np
import pytest

import rankwright as rw
from rankwright.cli.app import main


@pytest.fixture
def folder(judged, tmp_path):
    for i, rows in enumerate(np.array_split(np.arange(600), 3)):
        items = judged.take(rows)
        rw.write_items(items, tmp_path / f"part-{i}.csv")
    return tmp_path


@pytest.fixture
def run(monkeypatch):
    def call(*words):
        monkeypatch.setattr("sys.argv", ["rankwright", *map(str, words)])
        try:
            main()
        except SystemExit as ending:
            return ending.code or 0
        return 0

    return call


@pytest.mark.parametrize("where", [("--cluster", "local:2"), ("--memory", "64MB")])
def test_train_on_files(folder, where, run, capsys):
    sets = ("--set", "n_estimators=2", "--set", "min_samples_leaf=5")
    words = ("train", folder / "part-*.csv", *where, *sets, "-o", folder / "model.rw")
    assert run(*words) == 0
    printed = capsys.readouterr()
    assert "(LambdaMART, 40 queries" in printed.out
    assert "training LambdaMART" in printed.err
    scorer = rw.load_scorer(folder / "model.rw")
    parts = [rw.read_items(folder / f"part-{i}.csv") for i in range(3)]
    X, y, qid = (np.concatenate([getattr(p, n) for p in parts]) for n in ("X", "y", "qid"))
    local = rw.LambdaMART(n_estimators=2, min_samples_leaf=5).fit(X, y, qid=qid)
    assert np.array_equal(scorer.decision_function(X), local.decision_function(X))


def test_options_that_are_not_used_are_refused(folder, run, capsys):
    words = ("train", folder, "--cluster", "local:2", "--one-hot", "f1")
    assert run(*words) != 0
    assert "--one-hot with --cluster local:2" in capsys.readouterr().err
