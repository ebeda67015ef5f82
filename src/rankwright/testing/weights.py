"""Weights: a row of weight 2 counts as two rows, a query of weight 2 as two queries."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
from sklearn.base import clone

from rankwright.testing.inputs import refused
from rankwright.testing.problem import Problem, fitted, make_problem

__all__ = [
    "check_a_query_of_weight_two_is_two_queries",
    "check_a_row_of_weight_two_is_two_rows",
    "check_bad_weights_are_refused",
    "check_query_weights_in_any_form",
]


def check_a_row_of_weight_two_is_two_rows(ranker: Any) -> None:
    """Weights 0, 1, 2 equal leaving out, keeping and repeating the row, in place."""
    if not _has(ranker, "sample_weight"):
        return
    problem = make_problem()
    weight = np.random.default_rng(2).integers(0, 3, len(problem.y))
    copies = problem.take(np.repeat(np.arange(len(problem.y)), weight))
    wanted = fitted(ranker, copies).decision_function(problem.X)
    found = fitted(ranker, problem, sample_weight=weight).decision_function(problem.X)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-7)


def check_a_query_of_weight_two_is_two_queries(ranker: Any) -> None:
    if not _has(ranker, "query_weight"):
        return
    problem = make_problem()
    again = problem.take(problem.qid == 1)
    copies = Problem(
        np.vstack([problem.X, again.X]),
        np.concatenate([problem.y, again.y]),
        np.concatenate([problem.qid, again.qid + 100]),
    )
    wanted = fitted(ranker, copies).decision_function(problem.X)
    found = fitted(ranker, problem, query_weight=[1, 2, 1, 1, 1, 1]).decision_function(problem.X)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-7)


def check_query_weights_in_any_form(ranker: Any) -> None:
    """A weight per query, per row, or in a table by id: the same."""
    if not _has(ranker, "query_weight"):
        return
    problem, per_query = make_problem(), np.array([1.0, 2.0, 0.5, 1.0, 3.0, 1.0])
    forms = [per_query, per_query[problem.qid], dict(enumerate(per_query))]
    first, *others = [
        fitted(ranker, problem, query_weight=form).decision_function(problem.X) for form in forms
    ]
    for other in others:
        np.testing.assert_array_equal(other, first)


def check_bad_weights_are_refused(ranker: Any) -> None:
    problem = make_problem()
    cases: list[tuple[str, Any]] = []
    if _has(ranker, "sample_weight"):
        negative = np.ones(len(problem.y))
        negative[2] = -1.0
        cases += [("sample_weight", negative), ("sample_weight", np.ones(3))]
    if _has(ranker, "query_weight"):
        cases += [("query_weight", np.full(6, np.nan)), ("query_weight", np.ones(4))]
    for name, value in cases:
        with refused(ValueError, name.split("_")[1]):
            clone(ranker).fit(problem.X, problem.y, qid=problem.qid, **{name: value})


def _has(ranker: Any, argument: str) -> bool:
    return argument in inspect.signature(ranker.fit).parameters
