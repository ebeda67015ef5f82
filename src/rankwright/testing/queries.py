"""Queries: ids of any type, in any order, or none."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import clone

from rankwright.exceptions import MissingQueryWarning
from rankwright.testing.problem import fitted, make_problem

__all__ = [
    "check_places_follow_scores",
    "check_query_ids_may_be_of_any_type",
    "check_row_order_has_no_effect",
    "check_score_is_pairwise_accuracy",
    "check_score_without_queries_warns",
]


def check_query_ids_may_be_of_any_type(ranker: Any) -> None:
    problem = make_problem()
    wanted = fitted(ranker, problem).decision_function(problem.X)
    kinds = {
        "text": [f"query {i}" for i in problem.qid],
        "tuples": [("q", int(i)) for i in problem.qid],
        "large numbers": problem.qid + 2**62,
        "negative": -problem.qid - 1,
        "mixed": [int(i) if i % 2 else str(i) for i in problem.qid],
    }
    for name, qid in kinds.items():
        found = fitted(ranker, problem, qid=qid).decision_function(problem.X)
        np.testing.assert_array_equal(found, wanted, err_msg=f"qid as {name}")


def check_row_order_has_no_effect(ranker: Any) -> None:
    """For rankers that learn from the set, not from the sequence, of rows."""
    if ranker._order_matters:
        return
    problem = make_problem()
    wanted = fitted(ranker, problem).decision_function(problem.X)
    shuffled = problem.take(np.random.default_rng(1).permutation(len(problem.y)))
    found = fitted(ranker, shuffled).decision_function(problem.X)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-7)


def check_places_follow_scores(ranker: Any) -> None:
    """rank() gives 1 .. n inside every query, from the highest score to the lowest."""
    problem = make_problem()
    model = fitted(ranker, problem)
    scores, places = model.decision_function(problem.X), model.rank(problem.X, problem.qid)
    for query in np.unique(problem.qid):
        rows = np.flatnonzero(problem.qid == query)
        np.testing.assert_array_equal(np.sort(places[rows]), np.arange(len(rows)) + 1)
        in_order = rows[np.argsort(places[rows])]
        assert (np.diff(scores[in_order]) <= 0).all(), "a lower score stands above a higher one"


def check_score_is_pairwise_accuracy(ranker: Any) -> None:
    problem = make_problem()
    model = fitted(ranker, problem)
    scores, shares = model.decision_function(problem.X), []
    for query in np.unique(problem.qid):
        rows = problem.qid == query
        gap = np.subtract.outer(scores[rows], scores[rows])
        pairs = np.subtract.outer(problem.y[rows], problem.y[rows]) > 0
        shares.append(((gap[pairs] > 0) + 0.5 * (gap[pairs] == 0)).mean())
    found = model.score(problem.X, problem.y, qid=problem.qid)
    np.testing.assert_allclose(found, np.mean(shares), rtol=1e-12)


def check_score_without_queries_warns(ranker: Any) -> None:
    problem = make_problem()
    model = fitted(ranker, problem)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.score(problem.X, problem.y)
    assert any(issubclass(w.category, MissingQueryWarning) for w in caught), "no warning"
    with warnings.catch_warnings():
        warnings.simplefilter("error", MissingQueryWarning)
        clone(ranker).fit(problem.X, problem.y).score(problem.X, problem.y)
