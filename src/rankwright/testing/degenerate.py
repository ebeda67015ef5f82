"""Data with little or nothing to learn from: an answer and a word of warning, never a NaN."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import clone

from rankwright.exceptions import DegenerateDataWarning
from rankwright.testing.problem import Problem, fitted, make_problem, quiet

__all__ = [
    "check_a_separable_set_is_ordered",
    "check_degenerate_data_give_finite_scores",
    "check_extreme_scales_stay_finite",
    "check_nothing_to_learn_is_said",
]


def _degenerate() -> dict[str, Problem]:
    base = make_problem()
    n = len(base.y)
    return {
        "one row": base.take(slice(0, 1)),
        "two rows": Problem(base.X[:2], np.array([0.0, 1.0]), base.qid[:2]),
        "one row per query": Problem(base.X, base.y, np.arange(n)),
        "one grade": Problem(base.X, np.ones(n), base.qid),
        "constant features": Problem(np.full_like(base.X, 2.5), base.y, base.qid),
        "zero features": Problem(np.zeros_like(base.X), base.y, base.qid),
        "one feature": Problem(base.X[:, :1].copy(), base.y, base.qid),
        "equal rows, other grades": Problem(np.tile(base.X[:1], (n, 1)), base.y, base.qid),
        "more features than rows": Problem(base.X[:3].repeat(4, axis=1), base.y[:3], base.qid[:3]),
        "doubled columns": Problem(np.hstack([base.X, base.X]), base.y, base.qid),
    }


def check_degenerate_data_give_finite_scores(ranker: Any) -> None:
    for name, problem in _degenerate().items():
        with quiet():
            model = fitted(ranker, problem)
            for scores in (model.decision_function(problem.X), model.predict(problem.X)):
                assert scores.shape == problem.y.shape, f"{name}: shape {scores.shape}"
                assert np.isfinite(scores).all(), f"{name}: a score is not finite"
            assert 0.0 <= model.score(problem.X, problem.y, qid=problem.qid) <= 1.0, name


def check_nothing_to_learn_is_said(ranker: Any) -> None:
    """One grade only: a warning at training, and a score of 1/2 with a warning."""
    problem = _degenerate()["one grade"]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = fitted(ranker, problem)
        value = model.score(problem.X, problem.y, qid=problem.qid)
    said = [w for w in caught if issubclass(w.category, DegenerateDataWarning)]
    assert len(said) >= 2, "nothing was said about data with one grade"
    assert value == 0.5, f"the score of nothing is 0.5, found {value}"


def check_extreme_scales_stay_finite(ranker: Any) -> None:
    problem = make_problem()
    for scale in (1e-150, 1e-6, 1e6):
        model = clone(ranker)
        with quiet(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(problem.X * scale, problem.y, qid=problem.qid)
            scores = model.decision_function(problem.X * scale)
        assert np.isfinite(scores).all(), f"features times {scale:g}: a score is not finite"


def check_a_separable_set_is_ordered(ranker: Any) -> None:
    """Without noise the order must be learned nearly without fault."""
    problem = make_problem(n_queries=12, n_items=20, n_features=2, noise=0.0, seed=5)
    model = fitted(ranker, problem)
    value = model.score(problem.X, problem.y, qid=problem.qid)
    assert value >= 0.9, f"a separable set was ordered with accuracy {value:.3f} only"
