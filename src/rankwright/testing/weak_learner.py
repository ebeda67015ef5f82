"""Checks of an estimator that is to be a weak ranking of RankBoost."""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator, clone

from rankwright.rankers.boosting.rankboost import RankBoost
from rankwright.rankers.boosting.weak_learners.estimators import IS_WEAK_ESTIMATOR, predictions
from rankwright.testing.inputs import make_problem


def check_weak_learner(estimator: BaseEstimator) -> None:
    """Check that ``RankBoost(estimator=...)`` can boost this estimator.

    It must clone, fit to potentials, predict one finite number per row, give the same predictions
    again, and lower the bound of Theorem 1, which the ranking loss must not exceed.

    >>> from sklearn.tree import DecisionTreeRegressor
    >>> check_weak_learner(DecisionTreeRegressor(max_depth=2, random_state=0))
    """
    name = type(estimator).__name__
    assert IS_WEAK_ESTIMATOR.test(estimator), f"{name} has no get_params, fit and predict"
    problem = make_problem()
    potential = problem.y - problem.y.mean()
    first, second = (clone(estimator).fit(problem.X, potential) for _ in range(2))
    values = predictions(first, problem.X)
    assert np.array_equal(values, predictions(second, problem.X)), (
        f"{name}: two fits to the same rows predict different values. Set its random_state."
    )
    assert np.ptp(values) > 0, f"{name} predicts a constant for potentials that rows explain"
    model = RankBoost(estimator=estimator, n_estimators=5)
    model.fit(problem.X, problem.y, qid=problem.qid)
    assert len(model.z_), f"{name}: no round lowered the bound on the ranking loss"
    assert (model.z_ < 1).all(), f"{name}: a round raised the bound on the ranking loss"
    assert model.train_rloss_ <= model.training_bound_ + 1e-12
