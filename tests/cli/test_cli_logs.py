"""Logs and pairs at a shell: train, compare, check and info."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import rankwright as rw
from cli.conftest import Shell
from rankwright.data import ClickSimulator, ImpressionLog, Items, make_queries


def write_log(log: ImpressionLog, path: Path) -> None:
    rows = zip(log.sessions[log.session], log.queries[log.query], log.position,
               log.items[log.item], log.clicks, strict=True)  # fmt: skip
    lines = ["session,query,position,item,clicked", *(",".join(map(str, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log with swapped lists, its features, judgments, pairs and two models."""
    folder = tmp_path_factory.mktemp("logs")
    sample = make_queries(60, docs_per_query=8, n_features=4, random_state=0).items
    items = Items(sample.X, sample.y, sample.qid, np.array([f"d{k}" for k in range(len(sample))]))
    users = ClickSimulator(items, [1.0, 0.6, 0.4, 0.3, 0.2, 0.15])
    log = users.sessions(items.X[:, 0], 6000, experiment="swap")
    write_log(log, folder / "log.csv")
    names = "query,item," + ",".join(f"f{k}" for k in range(4))
    rows = [
        f"{q},{d}," + ",".join(map(repr, map(float, x)))
        for q, d, x in zip(items.qid, items.docid, items.X, strict=True)  # type: ignore[arg-type]
    ]
    (folder / "features.csv").write_text("\n".join([names, *rows]) + "\n")
    qrels = [f"{q} 0 {d} {int(y)}" for q, d, y in zip(items.qid, items.docid, items.y, strict=True)]  # type: ignore[arg-type]
    (folder / "qrels.txt").write_text("\n".join(qrels[:200]) + "\n")
    pairs = rw.Grades(items.y, items.qid).to_pairs()
    lines = [f"d{u},d{low},{w},{items.qid[u]}"  # type: ignore[index]
             for u, low, w in zip(pairs.upper, pairs.lower, pairs.weight, strict=True)]  # fmt: skip
    (folder / "pairs.csv").write_text("\n".join(["winner,loser,weight,query", *lines]) + "\n")
    for name, column in (("old", 0), ("new", None)):
        y = items.y if column is None else items.X[:, column]
        model = rw.RidgeRanker().fit(items.X, y, qid=items.qid)
        model.feature_names_in_ = np.array([f"f{k}" for k in range(4)], dtype=object)
        rw.save(model, folder / f"{name}.rw")
    return folder


def test_train_from_clicks_writes_a_better_model(shell: Shell, folder: Path) -> None:
    log, features = str(folder / "log.csv"), str(folder / "features.csv")
    done = shell("train", log, "--clicks", "--features", features, "-o", "clicks.rw",
                 "--ranker", "RankSVM")  # fmt: skip
    assert "propensities (harvest): 1.00, 0." in done.stdout
    assert "as shown" in done.stdout
    assert "model: clicks.rw" in done.stdout
    result = shell("compare", str(folder / "old.rw"), "clicks.rw", "--log", log,
                   "--features", features, "--json")  # fmt: skip
    found = json.loads(result.stdout)
    assert found["differences"]["clicks"]["interval"][0] > 0
    ranked = shell("rank", "clicks.rw", features, "--cutoff", "2")
    assert ranked.stdout


def test_train_mixes_clicks_with_judgments(shell: Shell, folder: Path) -> None:
    done = shell("train", str(folder / "log.csv"), "--clicks", "--features",
                 str(folder / "features.csv"), "--judgments", str(folder / "qrels.txt"),
                 "--weight", "0.1", "--ranker", "RankSVM", "--set", "C=1", "--json")  # fmt: skip
    found = json.loads(done.stdout)
    assert found["propensity"][0] == 1.0
    assert found["comparison"]["measure"] == "CTR"
    refused = shell("train", str(folder / "log.csv"), "--clicks", "--features",
                    str(folder / "features.csv"), "--judgments", str(folder / "qrels.txt"),
                    "--ranker", "PRank", code=3)  # fmt: skip
    assert "cannot learn from a sum" in refused.stderr


def test_train_from_pairs(shell: Shell, folder: Path) -> None:
    done = shell("train", str(folder / "pairs.csv"), "--features", str(folder / "features.csv"))
    assert "training pairs" in done.stdout
    done = shell("train", str(folder / "pairs.csv"), "--features", str(folder / "features.csv"),
                 "--ranker", "RankBoost", "--set", "n_estimators=20", "--json")  # fmt: skip
    assert json.loads(done.stdout)["training_agreement"] > 0.7
    refused = shell("train", str(folder / "pairs.csv"), code=3)
    assert "--features FILE" in refused.stderr


def test_a_log_without_clicks_option_is_refused_with_the_way_out(
    shell: Shell, folder: Path
) -> None:
    refused = shell("train", str(folder / "log.csv"), code=3)
    assert "--clicks" in refused.stderr
    refused = shell("train", "$F/train.txt", "--judgments", str(folder / "qrels.txt"), code=2)
    assert "--judgments is for logs" in refused.stderr
    refused = shell("train", str(folder / "log.csv"), "--clicks", "--features",
                    str(folder / "features.csv"), "--propensity", "1,half", code=2)  # fmt: skip
    assert "write numbers with commas" in refused.stderr
    refused = shell("train", str(folder / "log.csv"), "--clicks", "--features",
                    str(folder / "features.csv"), "--weight", "0.1", code=2)  # fmt: skip
    assert "--judgments" in refused.stderr
    refused = shell("train", str(folder / "pairs.csv"), "--features", str(folder / "features.csv"),
                    "--unseen", "0.1", code=2)  # fmt: skip
    assert "--unseen is for logs" in refused.stderr
    refused = shell("train", str(folder / "pairs.csv"), "--clicks", "--features",
                    str(folder / "features.csv"), code=3)  # fmt: skip
    assert "Omit --clicks." in refused.stderr
    refused = shell("train", str(folder / "pairs.csv"), "--features", str(folder / "features.csv"),
                    "--valid", "$F/train.txt", code=2)  # fmt: skip
    assert "--valid is for graded items" in refused.stderr
    refused = shell("compare", str(folder / "old.rw"), "--log", str(folder / "log.csv"), code=3)
    assert "--features FILE" in refused.stderr


def test_a_log_may_come_through_a_pipe(shell: Shell, folder: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    log = (folder / "log.csv").read_bytes()
    writer = threading.Thread(target=pipe.write_bytes, args=(log,))
    writer.start()
    done = shell("train", str(pipe), "--clicks", "--features", str(folder / "features.csv"),
                 "--ranker", "RankSVM", "-o", "pipe.rw")  # fmt: skip
    writer.join()
    assert "model: pipe.rw" in done.stdout


def test_training_on_clicks_as_grades_warns(shell: Shell, folder: Path) -> None:
    done = shell("train", str(folder / "log.csv"), "--y", "clicked", "--ranker", "RidgeRanker")
    assert "'clicked' is a click" in done.stderr
    assert "'position' is where the item was shown" in done.stderr


def test_features_in_the_log_itself(shell: Shell, folder: Path, tmp_path: Path) -> None:
    table = {
        tuple(line.split(",")[:2]): ",".join(line.split(",")[2:])
        for line in (folder / "features.csv").read_text().split()[1:]
    }
    lines = (folder / "log.csv").read_text().split()
    wide = [f"{lines[0]},f0,f1,f2,f3"]
    wide += [f"{line},{table[line.split(',')[1], line.split(',')[3]]}" for line in lines[1:12_001]]
    (tmp_path / "wide.csv").write_text("\n".join(wide) + "\n")
    done = shell("compare", str(folder / "old.rw"), str(folder / "new.rw"), "--log", "wide.csv",
                 "--propensity", "1,.6,.4,.3,.2,.15", "--reward", "DCG")  # fmt: skip
    assert "new - old: +" in done.stdout
    shell("train", "wide.csv", "--clicks", "--ranker", "RankSVM", "-o", "wide.rw")
    assert rw.load_scorer(tmp_path / "wide.rw").feature_names == ("f0", "f1", "f2", "f3")


def test_check_and_info_know_logs_and_pairs(shell: Shell, folder: Path, tmp_path: Path) -> None:
    done = shell("check", str(folder / "log.csv"))
    assert "PASS  items move" in done.stdout
    done = shell("info", str(folder / "log.csv"), "--json")
    found = json.loads(done.stdout)
    assert found["format"] == "log"
    assert found["n_sessions"] == 6000
    assert "PASS  contradictions" in shell("check", str(folder / "pairs.csv")).stdout
    assert json.loads(shell("info", str(folder / "pairs.csv"), "--json").stdout)["weighted"]
    (tmp_path / "bad.csv").write_text("session,query,position,item,clicked\n1,q,x,a,1\n")
    assert "position" in shell("check", "bad.csv", code=3).stdout


def test_check_flags_clicks_as_grades_and_positions_as_features(
    shell: Shell, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    rows = [f"{q},{k},{rng.random():.3f},{rng.integers(2)}" for q in range(9) for k in range(1, 6)]
    (tmp_path / "clicks.csv").write_text("\n".join(["query,position,bm25,clicked", *rows]) + "\n")
    done = shell("check", "clicks.csv", "--y", "clicked", code=1)
    assert "FAIL  position among the features" in done.stdout
    assert "WARN  clicks as grades" in done.stdout
    assert "--clicks --features" in done.stdout


def test_the_store_of_the_service_is_a_log(tmp_path: Path) -> None:
    pytest.importorskip("apsw")
    from rankwright.exceptions import DataError
    from rankwright.service import read_log
    from rankwright.service.log.entries import LoggedFeedback, encode
    from rankwright.service.log.store import Store

    store = Store(tmp_path / "feedback.db")
    body = encode(LoggedFeedback(id="1", grades={"a": 2.0}))
    store.append("feedback", "e1/1", body, event="e1").result()
    store.close()
    with pytest.raises(DataError, match="no event with shown items"):
        read_log(str(tmp_path / "feedback.db"))


def test_a_log_in_a_file_needs_no_package_of_the_service(folder: Path, tmp_path: Path) -> None:
    hidden = "import sys; sys.modules.update(dict.fromkeys(['apsw', 'starlette', 'jinja2']));"
    run = "from rankwright.cli.app import main; main()"
    log, features = str(folder / "log.csv"), str(folder / "features.csv")
    model = str(tmp_path / "clicks.rw")
    for words in (
        ("train", log, "--clicks", "--features", features, "--ranker", "RankSVM", "-o", model),
        ("compare", str(folder / "old.rw"), str(folder / "new.rw"), "--log", log, "--features",
         features),
    ):  # fmt: skip
        done = subprocess.run([sys.executable, "-c", hidden + run, *words], capture_output=True)
        assert done.returncode == 0, done.stderr.decode()


@pytest.fixture(scope="module")
def store(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log and its features as a service keeps them, and a list of a recommender."""
    pytest.importorskip("apsw")
    from rankwright.service.log.entries import Event, LoggedFeedback, encode
    from rankwright.service.log.store import Store

    path = tmp_path_factory.mktemp("store") / "feedback.db"
    items = rw.read_items(folder / "features.csv", graded=False)
    assert items.docid is not None
    log = rw.read_log(folder / "log.csv").take(slice(0, 2000))
    rows, store, last = log.rows_in(items), Store(path), None
    for number in range(log.n_sessions):
        shown = slice(*log.starts[number : number + 2])
        ids, names = [str(d) for d in items.docid[rows[shown]]], list(items.feature_names or ())
        query, features = str(log.queries[log.query[shown]][0]), items.X[rows[shown]]
        if number % 2:  # another client sends the same features in another order
            names, features = names[::-1], features[:, ::-1]
        event = Event(query, "old", ids, b"\0" * 8 * len(ids), features.tobytes(), names)
        store.append_event(f"e{number}", encode(event))
        clicks = [d for d, c in zip(ids, log.clicked[shown], strict=True) if c]
        feedback = LoggedFeedback("1", clicks=clicks, dwell={clicks[0]: 12.5} if clicks else None)
        last = store.append("feedback", f"e{number}/1", encode(feedback), event=f"e{number}")
    store.append_event("films", encode(Event(None, "films", ["7", "8"], b"\0" * 16)))
    assert last is not None
    last.result()
    store.close()
    return path


def test_info_and_check_read_the_store_of_the_service(shell: Shell, store: Path) -> None:
    about = json.loads(shell("info", str(store), "--json").stdout)
    assert (about["format"], about["n_sessions"]) == ("store", 2001)
    assert "PASS  readable: ImpressionLog(" in shell("check", str(store)).stdout
    dwell = rw.service.read_log(store).dwell
    assert dwell is not None
    assert set(dwell[~np.isnan(dwell)]) == {12.5}
    assert "--clicks" in shell("train", str(store), code=3).stderr
    from rankwright.data.io.logs.features import read_log_features

    for read in (rw.read_log, read_log_features):
        with pytest.raises(rw.DataError, match=r"Read it with service\."):
            read(store)


def test_train_and_compare_take_features_from_the_store(
    shell: Shell, store: Path, folder: Path
) -> None:
    from rankwright.service.learning.labels import read_impression_features

    shown = read_impression_features(store)
    table = rw.read_items(folder / "features.csv", graded=False)
    known = {(str(q), d): x for q, d, x in zip(table.qid, table.docid, table.X, strict=True)}  # type: ignore[arg-type]
    for q, d, x in zip(shown.qid, shown.docid, shown.X, strict=True):  # type: ignore[arg-type]
        assert x.tolist() == known[str(q), d].tolist()
    done = shell("train", str(store), "--clicks", "--ranker", "RankSVM", "-o", "stored.rw")
    assert "model: stored.rw" in done.stdout
    models = str(folder / "old.rw"), str(folder / "new.rw")
    by_store = shell("compare", *models, "--log", str(store))
    assert "2 of " in by_store.stderr  # the list of the recommender has no features
    by_table = shell("compare", *models, "--log", str(store), "--features",
                     str(folder / "features.csv"))  # fmt: skip
    assert by_store.stdout == by_table.stdout
    assert "new - old: +" in by_store.stdout


def test_a_warning_is_shown_once_and_names_the_option(
    shell: Shell, folder: Path, tmp_path: Path
) -> None:
    lines = (folder / "features.csv").read_text().split()
    more = [f"{line.split(',')[0]},new{k}-{n},1,1,1,1" for k, line in enumerate(lines[1:])
            for n in range(4)]  # fmt: skip
    (tmp_path / "more.csv").write_text("\n".join([*lines, *more]) + "\n")
    done = shell("train", str(folder / "log.csv"), "--clicks", "--features", "more.csv",
                 "--ranker", "RankSVM", "-o", "more.rw")  # fmt: skip
    assert done.stderr.count("were never shown") == 1
    assert "pass --unseen 0.1 to prefer" in done.stderr
