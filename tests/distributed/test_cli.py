"""``rankwright train`` on an engine, at the shell."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import rankwright as rw
from rankwright.cli.app import main


@pytest.fixture
def folder(judged, tmp_path):
    for i, rows in enumerate(np.array_split(np.arange(600), 3)):
        items = judged.take(rows)
        rw.data.write_items(items, tmp_path / f"part-{i}.csv")
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


def test_a_scheduler_that_does_not_answer_is_a_network_error(folder, run, monkeypatch, capsys):
    monkeypatch.setattr("rankwright.distributed.engines.PATIENCE", 0.2)
    words = ("train", folder / "part-*.csv", "--cluster", "tcp://127.0.0.1:9")
    assert run(*words, "-o", folder / "model.rw") == 5
    assert "no scheduler answers" in capsys.readouterr().err


@pytest.mark.parametrize("where", [("--cluster", "local:2"), ("--memory", "64MB")])
def test_train_on_files(folder, where, run, capsys):
    sets = ("--set", "n_estimators=2", "--set", "min_samples_leaf=5")
    words = ("train", folder / "part-*.csv", *where, *sets, "-o", folder / "model.rw")
    assert run(*words) == 0
    printed = capsys.readouterr()
    assert "trained on 40 queries" in printed.out
    assert "(LambdaMART)" in printed.out
    assert "training LambdaMART" in printed.err
    scorer = rw.load_scorer(folder / "model.rw")
    parts = [rw.read_items(folder / f"part-{i}.csv") for i in range(3)]
    X, y, qid = (np.concatenate([getattr(p, n) for p in parts]) for n in ("X", "y", "qid"))
    local = rw.LambdaMART(n_estimators=2, min_samples_leaf=5).fit(X, y, qid=qid)
    assert np.array_equal(scorer.decision_function(X), local.decision_function(X))


def test_the_random_state_makes_the_file_that_of_a_local_fit(judged, tmp_path, run):
    rw.write_letor(rw.Items(np.nan_to_num(judged.X), judged.y, judged.qid), tmp_path / "a.txt")
    words = ("train", tmp_path / "a.txt", "--ranker", "OAPBagging", "--set", "n_estimators=3")
    models = set()
    for where in ((), ("--cluster", "local:2"), ("--memory", "64MB")):
        assert run(*words, *where, "--random-state", 4, "-o", tmp_path / "model.rw") == 0
        models.add(rw.model_digest(tmp_path / "model.rw"))
    assert len(models) == 1


def test_columns_of_the_validation_file_are_found_by_name(folder, run):
    table = pd.read_csv(folder / "part-1.csv")
    table[table.columns[::-1]].to_csv(folder / "reversed.csv", index=False)
    sets = ("--set", "n_estimators=9", "--set", "min_samples_leaf=5", "--set", "early_stopping=2")
    words = ("train", folder / "part-*.csv", "--cluster", "local:2", *sets)
    for name in ("part-1", "reversed"):
        assert run(*words, "--valid", folder / f"{name}.csv", "-o", folder / f"{name}.rw") == 0
    assert rw.model_digest(folder / "part-1.rw") == rw.model_digest(folder / "reversed.rw")


def test_options_that_are_not_used_are_refused(folder, run, capsys):
    words = ("train", folder, "--cluster", "local:2", "--one-hot", "f1")
    assert run(*words) != 0
    assert "--one-hot with --cluster local:2" in capsys.readouterr().err


def test_score_and_evaluate_files(judged, tmp_path, run, capsys):
    parts = [judged.take(np.flatnonzero(judged.qid % 2 == i)) for i in range(2)]
    parts = [rw.Items(np.nan_to_num(part.X), part.y, part.qid) for part in parts]
    model = rw.RidgeRanker().fit(parts[0].X, parts[0].y, qid=parts[0].qid)
    rw.save(model, tmp_path / "model.rw")
    for i, part in enumerate(parts):
        rw.write_letor(part, tmp_path / f"part-{i}.txt")
    where, out = (tmp_path / "part-*.txt", "--cluster", "local:2"), tmp_path / "out"
    assert run("predict", tmp_path / "model.rw", *where, "-o", out) == 0
    assert run("rank", tmp_path / "model.rw", *where, "-o", out, "--cutoff", 1) == 0
    one = rw.read_letor(tmp_path / "part-1.txt")
    scores = [float(line) for line in (out / "part-1.txt.scores").read_text().split()]
    assert scores == model.decision_function(one.X).tolist()
    lines = (out / "part-1.txt.tsv").read_text().splitlines()[1:]
    assert len(lines) == len(set(one.qid.tolist()))
    assert max(scores) in [float(line.split()[3]) for line in lines]
    capsys.readouterr()
    assert run("evaluate", tmp_path / "model.rw", *where, "-m", "AP", "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert f"{rw.evaluate_files(model, str(where[0]), 'AP')['AP']:.6f}"[:8] in str(printed)
    assert run("predict", tmp_path / "model.rw", *where) != 0
    assert "Name the folder" in capsys.readouterr().err
    assert run("rank", tmp_path / "model.rw", *where, "-o", out, "--trec") != 0
    assert "--trec with --cluster local:2" in capsys.readouterr().err


def test_tune_on_files(judged, tmp_path, run):
    """The trials are those of one machine, whether rows come in one file or in several."""
    grid = ("--ranker", "LambdaMART", "--set", "n_estimators=3", "--grid", "max_leaf_nodes=4,8")
    rw.write_letor(judged, tmp_path / "all.txt")
    for i, rows in enumerate(np.array_split(np.arange(len(judged.y)), 3)):
        part = rw.Items(judged.X[rows], judged.y[rows], judged.qid[rows])
        rw.write_letor(part, tmp_path / f"part-{i}.txt")
    models = [tmp_path / "here.rw", tmp_path / "there.rw"]
    assert run("tune", tmp_path / "all.txt", *grid, "-o", models[0]) == 0
    parts = tmp_path / "part-*.txt"
    assert run("tune", parts, *grid, "--cluster", "local:2", "-o", models[1]) == 0
    assert rw.model_digest(models[0]) == rw.model_digest(models[1])
