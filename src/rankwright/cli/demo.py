"""``rankwright demo``: the papers' kinds of data, generated here, and the rankers on them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

import rankwright as rw
from rankwright.data.splits import split_queries
from rankwright.data.synthetic import make_ordinal, make_queries

__all__ = ["demo"]

FloatArray = NDArray[np.float64]


def demo(*, seed: int = 0) -> None:
    """Train the rankers on generated data and print how they compare.

    Needs no network and no files.

    Parameters
    ----------
    seed
        Seeds the data and the rankers.
    """
    began = time.perf_counter()
    _ordinal_stream(seed)
    _search(seed)
    print(f"\nDone in {time.perf_counter() - began:.0f} s.")


def _ordinal_stream(seed: int) -> None:
    """The OAP-BPM paper's synthetic data, seen once, item by item; degree-2 features."""
    train, test = make_ordinal(5000, random_state=seed), make_ordinal(1000, random_state=seed + 1)
    X, X_test = _quadratic(train.X), _quadratic(test.X)
    predictions = {
        name: ranker.fit(X, train.y).predict(X_test) for name, ranker in _online(seed).items()
    }
    # Each item is a query of its own, so that the tests compare the systems item by item.
    scores = {
        name: rw.evaluate(grades, test.y, qid=np.arange(len(test.y)), measures=["RankLoss"])
        for name, grades in predictions.items()
    }
    print("Grades 1 to 5 of 1,000 items after one pass over 5,000 (rank loss, lower is better)\n")
    print(rw.compare(scores))
    print(f"no rule can expect less than {train.bayes_rank_loss:.4f} on such data")


def _online(seed: int) -> Mapping[str, Any]:
    return {
        "PRank": rw.PRank(),
        "PRank, voted": rw.VotedPRank(),
        "PRank, averaged": rw.PRank(average=True),
        "OAP-BPM": rw.OAPBPM(random_state=seed),
        "OAP-Bagg": rw.OAPBagging(random_state=seed),
        "OAP-VP": rw.OAPVoting(random_state=seed),
        "Widrow-Hoff": rw.WidrowHoff(step=0.1),
        "multiclass perceptron": rw.MulticlassPerceptron(),
    }


def _search(seed: int) -> None:
    """Queries with graded documents; half of the queries to learn from, half to test on."""
    sample = make_queries(200, random_state=seed)
    rows = split_queries(sample.qid, random_state=seed)
    X, y, qid = sample.X[rows.train], sample.y[rows.train], sample.qid[rows.train]
    measures = ["NDCG@10", "AP", "Disagreement"]

    def judge(scores: FloatArray) -> rw.metrics.Scores:
        return rw.evaluate(scores, sample.y[rows.test], sample.qid[rows.test], measures=measures)

    systems = {
        name: judge(ranker.fit(X, y, qid=qid).decision_function(sample.X[rows.test]))
        for name, ranker in _batch(seed).items()
    }
    systems["the true order"] = judge(sample.bayes_score[rows.test])
    print("\nGraded documents of 100 new queries (disagreement: lower is better)\n")
    print(rw.compare(systems))


def _batch(seed: int) -> Mapping[str, Any]:
    return {
        "regression": rw.Regression(),
        "RankSVM": rw.RankSVM(),
    }


def _quadratic(X: FloatArray) -> FloatArray:
    """The features of the polynomial kernel of degree 2."""
    a, b = X.T
    return np.column_stack([np.ones(len(X)), a, b, a * a, a * b, b * b])
