"""Data with little or nothing to learn from: an answer and a word of warning, never a NaN."""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import numpy as np
from sklearn.base import clone

from rankwright.exceptions import DegenerateDataWarning, MissingQueryWarning
from rankwright.testing.inputs import refused
from rankwright.testing.problems import Problem, fitted, make_problem, quiet


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
