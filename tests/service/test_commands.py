"""The verbs around the service: train on its log, serve a demonstration."""

from __future__ import annotations

import pytest

import rankwright as rw
from rankwright.cli.app import app
from rankwright.exceptions import ParameterError
from rankwright.service import LogReader, create_app
from rankwright.service.demo import demo_settings
from rankwright.service.learning.labels import items_from_log


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    return demo_settings(str(tmp_path_factory.mktemp("demo")))


def test_the_demonstration_has_models_of_every_task_and_a_log(demo):
    service = create_app(demo).service
    assert set(service.models.active_versions()) == {"rank", "recommend", "fuse"}
    kinds = {info.kind for info in service.models.infos()}
    assert kinds == {"Regression", "RankBoost", "Recommender", "LearnedFusion", "BayesianPRank"}
    service.close()
    assert service.follower.live.progress.n_learned == 300


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
    ],
)
def test_settings_that_cannot_work_are_refused(tmp_path, monkeypatch, words, word):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ParameterError, match=word):
        app(["serve", *words], exit_on_error=False)
