"""Independent jobs on an engine: results with the bits of one machine."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import rankwright as rw
from rankwright.data.datasets.synthetic import make_ratings
from rankwright.exceptions import DataError, ParameterError
from rankwright.persist import Checkpoint
from rankwright.recommend.events import ImplicitALS


@pytest.fixture(scope="module")
def items(judged):
    return rw.Items(np.nan_to_num(judged.X), judged.y, judged.qid)


def test_evaluate_and_compare(items, client):
    measures = ["NDCG@10", "AP", "RR"]

    def both():
        scores = [items.X[:, i].round(1) for i in (0, 4)]
        systems = {
            str(i): rw.evaluate(one, items.y, items.qid, measures) for i, one in enumerate(scores)
        }
        return systems, rw.compare(systems, n_resamples=200)

    here, table = both()
    with rw.engine(client):
        there, other = both()
    for name, scores in here.items():
        assert np.array_equal(scores.matrix, there[name].matrix, equal_nan=True)
        assert scores.query_ids.tolist() == there[name].query_ids.tolist()
    assert np.array_equal(table.p_values, other.p_values)
    assert np.array_equal(table.intervals, other.intervals)


def test_trials(items, client, model_bytes):
    def search():
        found = rw.RankSearchCV(rw.RidgeRanker(), {"alpha": [0.0, 9.0]}, cv=2, random_state=0)
        found.fit(items.X, items.y, qid=items.qid)
        tuned = rw.tune(rw.MPRank(), {"C": [0.1, 1.0]}, items, items, "AP")
        auto = rw.AutoRanker([("a", rw.RidgeRanker()), ("b", rw.MPRank())], random_state=0)
        return found, tuned, auto.fit(items.X, items.y, qid=items.qid)

    here = search()
    for where in ("local:2", client):
        with rw.engine(where):
            there = search()
        for one, other in zip(here, there, strict=True):
            assert model_bytes(one.best_estimator_) == model_bytes(other.best_estimator_)
        assert here[0].best_score_ == there[0].best_score_


@pytest.mark.filterwarnings("ignore::rankwright.exceptions.ClusterWarning")
def test_searches_and_validation_rows_from_files(items, client, tmp_path, model_bytes):
    """Queries are in several files, and columns in other orders."""
    names = [f"f{i}" for i in range(5)]
    frame = pd.DataFrame(items.X, columns=names)
    frame["label"], frame["query"] = items.y, items.qid
    for number, rows in enumerate(np.array_split(np.arange(len(frame)), 3)):
        columns = np.roll(frame.columns, number)
        frame.loc[rows, columns].to_parquet(tmp_path / f"part-{number}.parquet", index=False)
    frame.iloc[:200, ::-1].to_parquet(tmp_path / "valid.parquet", index=False)
    files, valid = str(tmp_path / "part-*.parquet"), str(tmp_path / "valid.parquet")
    boosted = {"n_estimators": 30, "early_stopping": 2, "min_samples_leaf": 5}

    def fits(X, y, qid, **validation):
        search = rw.RankSearchCV(rw.RidgeRanker(), {"alpha": [0.0, 9.0]}, cv=2, random_state=0)
        auto = rw.AutoRanker(quality=1, random_state=0)
        ranker = rw.LambdaMART(**boosted)
        return (
            search.fit(X, y, qid=qid).best_estimator_,
            auto.fit(X, y, qid=qid, **validation).best_estimator_,
            ranker.fit(X, y, qid=qid, **validation),
        )

    X = frame[names]
    known = {"eval_set": (X[:200], items.y[:200]), "eval_qid": items.qid[:200]}
    expected = fits(X, items.y, items.qid, **known)
    for where in ("local:2", client):
        with rw.engine(where):
            found = fits(files, "label", "query", eval_set=(valid, "label"), eval_qid="query")
        for one, other in zip(expected, found, strict=True):
            assert model_bytes(one) == model_bytes(other)


def test_a_checkpoint_is_refused_on_an_engine(items, tmp_path):
    auto = rw.AutoRanker([("a", rw.RidgeRanker())], checkpoint=Checkpoint(tmp_path / "auto.rw"))
    with rw.engine("local"), pytest.raises(ParameterError, match="checkpoint"):
        auto.fit(items.X, items.y, qid=items.qid)


def test_recommendations(model_bytes, client):
    ratings = make_ratings(40, 30, random_state=0).ratings
    events = rw.Interactions.from_ratings(ratings, at_least=3)
    experts = [ImplicitALS(n_factors=4, max_iter=1)]

    def train():
        model = rw.Recommender(experts=experts, random_state=0).fit(events)
        return model_bytes(model), model.recommend_all(n=3)

    here = train()
    with rw.engine(client):
        assert train() == here


def test_many_files(items, tmp_path, client):
    model = rw.RidgeRanker().fit(items.X, items.y, qid=items.qid)
    for name, rows in (("a", items.qid < 20), ("b", items.qid >= 20)):
        part = rw.Items(items.X[rows], items.y[rows], items.qid[rows])
        rw.write_letor(part, tmp_path / f"{name}.txt")
    whole = rw.evaluate(model.decision_function(items.X), items.y, items.qid, "NDCG@5")
    for where in ("local:2", client):
        with rw.engine(where):
            scores = rw.evaluate_files(model, tmp_path / "[ab].txt", "NDCG@5")
            counts = rw.score_files(model, str(tmp_path / "*.txt"), tmp_path / "out", cutoff=2)
        assert scores["NDCG@5"] == pytest.approx(whole["NDCG@5"], abs=1e-9)
        assert sum(counts.values()) == 2 * scores.n_queries
    lines = (tmp_path / "out" / "a.txt.tsv").read_text().splitlines()
    assert lines[0].split() == ["qid", "rank", "docid", "score"]
    assert [line.split()[1] for line in lines[1:5]] == ["1", "2", "1", "2"]
    rw.write_letor(items, tmp_path / "c.txt")
    with pytest.raises(DataError, match=r"\.txt and in .*c\.txt"):
        rw.evaluate_files(model, tmp_path / "*.txt")
    with pytest.raises(DataError, match="no file matches"):
        rw.evaluate_files(model, tmp_path / "*.csv")
