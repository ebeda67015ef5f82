"""Rankers that make passes keep the best one on validation queries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import rankwright as rw
from rankwright import evaluate

RANKERS = [
    rw.PRank(),
    rw.PRank(average=True, update="romma"),
    rw.KernelPRank(gamma=0.5),
    rw.VotedPRank(max_rules=5),
    rw.BayesianPRank(covariance="low_rank", n_directions=2),
    rw.WidrowHoff(learning_rate=0.02),
    rw.MulticlassPerceptron(),
    rw.KeepRank(levels="ordinal"),
    rw.OnlineKeepRank(budget=20),
]
every_ranker = pytest.mark.parametrize("ranker", RANKERS, ids=str)


def problem(seed: int) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    X, qid = rng.normal(size=(120, 4)), np.repeat(np.arange(12), 10)
    return X, np.digitize(X[:, 0] - X[:, 1] + rng.normal(size=120), [-0.5, 0.8]), qid


TRAIN, VALID = problem(0), problem(1)


def fit(ranker: Any, **options: Any) -> Any:
    X, y, qid = TRAIN
    model = clone(ranker).set_params(shuffle=True, random_state=0, **options)
    return model.fit(X, y, qid=qid, eval_set=VALID[:2], eval_qid=VALID[2])


@every_ranker
def test_the_best_pass_on_the_eval_set_is_kept(ranker: Any) -> None:
    model = fit(ranker, max_iter=12, early_stopping=4)
    assert model.best_iteration_ == 1 + int(np.argmax(model.validation_))
    assert len(model.validation_) == min(model.best_iteration_ + 4, 12)
    value = evaluate(model.decision_function(VALID[0]), *VALID[1:], "NDCG@10")["NDCG@10"]
    assert value == pytest.approx(model.validation_.max())
    plain = clone(ranker).set_params(shuffle=True, random_state=0, max_iter=model.best_iteration_)
    plain.fit(*TRAIN[:2], qid=TRAIN[2])
    assert plain.validation_ is None
    assert plain.best_iteration_ == model.best_iteration_
    np.testing.assert_array_equal(
        plain.decision_function(VALID[0]), model.decision_function(VALID[0])
    )


@every_ranker
def test_an_eval_set_without_early_stopping_records_the_curve_of_all_passes(ranker: Any) -> None:
    model = fit(ranker, max_iter=3)
    assert len(model.validation_) == model.best_iteration_ == 3


def test_the_kept_pass_is_where_partial_fit_continues() -> None:
    X, y, qid = TRAIN
    model = fit(rw.PRank(average=True), max_iter=12, early_stopping=4)
    plain = rw.PRank(average=True, max_iter=model.best_iteration_, shuffle=True, random_state=0)
    plain.fit(X, y, qid=qid)
    for ranker in (model, plain):
        ranker.partial_fit(X[:30], y[:30])
    assert model.n_seen_ == plain.n_seen_ == 120 * model.best_iteration_ + 30
    np.testing.assert_array_equal(model.coef_, plain.coef_)


def test_without_an_eval_set_rows_of_held_out_queries_are_not_learned_from() -> None:
    model = rw.PRank(early_stopping=2, max_iter=3).fit(*TRAIN[:2], qid=TRAIN[2])
    assert model.n_seen_ == 100 * model.best_iteration_  # two of twelve queries are held out
