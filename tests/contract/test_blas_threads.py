"""A model has the same bits for any number of BLAS threads."""

from __future__ import annotations

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import rankwright as rw

RNG = np.random.default_rng(0)  # large enough that BLAS would share the work
X, QID = RNG.normal(size=(4_000, 220)), np.repeat(np.arange(200), 20)
Y = np.digitize(X @ RNG.normal(size=220), [-15, 0, 15])


@pytest.mark.parametrize(
    "model",
    [rw.RidgeRanker(), rw.RankNet(max_iter=2, random_state=0), rw.RankSVM(), rw.MPRank()],
    ids=lambda model: type(model).__name__,
)
def test_training_does_not_depend_on_the_number_of_blas_threads(model: rw.Ranker) -> None:
    scores = []
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            model.fit(X, Y, qid=QID)
        with threadpool_limits(1, user_api="blas"):
            scores.append(model.decision_function(X[:100]).tobytes())
    assert scores[0] == scores[1]
