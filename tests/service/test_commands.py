"""The verbs around the service: train on its log, serve a demonstration."""

from __future__ import annotations

import re

import pytest

import rankwright as rw
from rankwright.cli.app import app, main
from rankwright.exceptions import ParameterError, RankwrightWarning
from rankwright.service import create_app
from rankwright.service.demo import demo_settings
from rankwright.service.learning.labels import items_from_log
from rankwright.service.log.entries import Judgment, encode
from rankwright.service.log.reader import LogReader


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    return demo_settings(str(tmp_path_factory.mktemp("demo")))


def test_the_demonstration_has_models_of_every_task_and_a_log(demo):
    service = create_app(demo).service
    assert set(service.models.active_versions()) == {"rank", "recommend", "fuse"}
    kinds = {info.kind for info in service.models.infos()}
    assert kinds == {"RidgeRanker", "RankBoost", "Recommender", "LearnedFusion", "BayesianPRank"}
    service.close()
    assert service.learner.live.progress.n_learned == 300


def test_a_ranker_is_trained_on_the_log(demo, tmp_path, capsys):
    output = str(tmp_path / "new.rw")
    app(["train", "--log", demo.store, "--ranker", "RankSVM", "-o", output], exit_on_error=False)
    assert "validation" in capsys.readouterr().out
    log = LogReader(demo.store)
    items = items_from_log(log)
    log.close()
    assert (items.n_queries, items.n_features) == (300, 10)
    scores = rw.load(output).decision_function(items.X)
    assert rw.evaluate(scores, items.y, items.qid, ["NDCG@10"])["NDCG@10"] > 0.8


def test_training_takes_data_or_a_log(demo):
    for words in (["train"], ["train", "a.txt", "--log", demo.store]):
        with pytest.raises(ParameterError, match="--log"):
            app(words, exit_on_error=False)
    with pytest.raises(FileNotFoundError):
        app(["train", "--log", "none.db"], exit_on_error=False)


@pytest.mark.parametrize(
    "words, word",
    [
        (["--learn", "RankBoost"], "cannot learn while serving"),
        (["--set", "C=1"], "--set needs --learn"),
        (["--grades", "5"], "--grades 5"),
        (["--host", "0.0.0.0"], "--token-file"),
        (
            ["--retention-days", "-1"],
            "--retention-days -1: .* above 0",
        ),  # it would delete the whole log
        (["--rate-limit", "0"], "--rate-limit 0: .* above 0"),
    ],
)
def test_settings_that_cannot_work_are_refused(tmp_path, monkeypatch, capsys, words, word):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["rankwright", "serve", *words])
    with pytest.raises(SystemExit) as ending:
        main()
    assert ending.value.code == 2
    assert re.search(word, capsys.readouterr().err)


def judge(client, key, who, value, document="a0", action="judge", **more):
    """A judgment of a document with the features f2 and f1, in this order; or an undo."""
    about = {} if action == "undo" else {"query": "q", "documents": (document,), "value": value}
    rows = {"features": [[2.0, 1.0]], "names": ["f2", "f1"]} if action == "judge" else {}
    body = encode(Judgment(action, "grades", **(about | rows | more)))
    client.service.store.append("judgment", key, body, user=who).result()


def test_exports_and_training_include_what_judges_said(serve):
    """The median of the judges' last grades counts, before the last grade of feedback."""
    names = {"columns": {"f1": [0.5, 0.25, 0.75], "f2": [1.5, 1.25, 1.75]}}
    client = serve(learn="PRank")
    shown = client.post("/v1/rank", {"query": "q", "ids": ["a0", "a1", "a2"], **names}).json()
    client.feedback(shown["event"], grades={"a0": 5, "a1": 1})
    assert client.get("/v1/log?format=qrels").text == "q 0 a0 5\nq 0 a1 1\n"
    for key, who, value in (("1", "ann", 0), ("2", "ann", 1), ("3", "bob", 4), ("4", "eve", 4)):
        judge(client, key, who, value)
    assert client.get("/v1/log?format=qrels").text == "q 0 a1 1\nq 0 a0 4\n"  # of 1, 4, 4
    judge(client, "5", "eve", None, action="undo", of="4")
    assert client.get("/v1/log?format=qrels").text == "q 0 a1 1\nq 0 a0 3\n"  # 2.5, rounded up
    judge(client, "6", "bob", None, action="cannot")
    judge(client, "7", "ann", 2, document="new")
    assert client.get("/v1/log?format=letor").text == (
        "1 qid:q 1:0.25 2:1.25 #docid = a1\n"
        "1 qid:q 1:1.0 2:2.0 #docid = a0\n"  # columns in the order of the list
        "2 qid:q 1:1.0 2:2.0 #docid = new\n"
    )
    assert client.get("/v1/log?format=qrels&user=ann").text == "q 0 a0 1\nq 0 new 2\n"
    assert client.get("/v1/log?format=qrels&labels=clicks").text == ""
    client.service.store.flush()
    items = items_from_log(client.service.store)
    assert items.X.tolist() == [[0.25, 1.25], [1, 2], [1, 2]]
    assert (items.y.tolist(), list(items.feature_names)) == ([1, 1, 2], ["f1", "f2"])


def test_judgments_alone_are_enough_to_train(serve):
    client = serve()
    judge(client, "1", "ann", 2)
    judge(client, "2", "ann", 0, document="b", features=[[5.0, 6.0]])
    items = items_from_log(client.service.store)
    assert (items.X.tolist(), items.y.tolist()) == ([[2, 1], [5, 6]], [2, 0])
    judge(client, "3", "ann", 1, document="c", features=[[5.0]], names=["other"])
    with pytest.warns(RankwrightWarning, match="2 of 3 graded items have no features, or others"):
        assert items_from_log(client.service.store).X.tolist() == [[5]]
