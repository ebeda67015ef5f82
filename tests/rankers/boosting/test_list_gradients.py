"""Losses of lists: query_rmse and xendcg beside their formulas and finite differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rankwright as rw
from rankwright.data.queries import Queries
from rankwright.data.vocabulary import mix
from rankwright.feedback.base import Grades
from rankwright.feedback.pair_losses import QueryPairs
from rankwright.rankers.boosting.pair_losses import ListGradients, row_keys
from rankwright.runtime import Team


def drawn(seed: int) -> tuple[Any, Grades, Any]:
    rng = np.random.default_rng(seed)
    qid = np.repeat(np.arange(6), [1, 2, 3, 5, 8, 20])
    y, X = rng.integers(0, 4, len(qid)).astype(float), rng.normal(size=(len(qid), 3))
    return X, Grades(y, Queries.from_ids(qid)), rng.normal(size=len(qid))


def at(X: Any, grades: Grades, scores: Any, loss: str, seed: int = 0) -> Any:
    with Team(1) as pool:
        gradients = ListGradients(grades, [X], loss, pool)
        return gradients.rows, *gradients.at(scores[gradients.rows], seed)


@pytest.mark.parametrize("seed", range(3))
def test_query_rmse_is_the_error_after_the_best_shift_of_each_query(seed: int) -> None:
    X, grades, scores = drawn(seed)
    rows, gradient, hessian = at(X, grades, scores, "query_rmse")

    def loss(moved: Any) -> float:
        error = grades.y - moved
        return sum(
            0.5 * ((error[own] - error[own].mean()) ** 2).sum()
            for own in (np.flatnonzero(grades.queries.codes == q) for q in range(6))
            if len(np.unique(grades.y[own])) > 1
        )

    for row, slope in zip(rows, gradient, strict=True):
        step = np.zeros(len(scores))
        step[row] = 1e-5
        numeric = (loss(scores - step) - loss(scores + step)) / 2e-5
        assert slope == pytest.approx(numeric, abs=1e-6)
    np.testing.assert_array_equal(hessian, 1.0)


def uniform(keys: Any, seed: int) -> Any:
    """The numbers that xendcg draws: by a counter, so they depend on nothing else."""
    return (mix(mix(keys) ^ mix(seed)) >> np.uint64(11)) * 2.0**-53


def plain_xendcg(scores: Any, gain: Any) -> tuple[Any, Any]:
    """The series of Bruch (2021), one row after the other."""
    rho = np.exp(scores - scores.max())
    rho /= rho.sum()
    target, n = gain / gain.sum(), len(scores)
    first = target - rho
    second, third = np.zeros(n), np.zeros(n)
    for i in range(n):
        others = [j for j in range(n) if j != i]
        second[i] = rho[i] * sum(first[j] / (1 - rho[j]) for j in others)
    for i in range(n):
        others = [j for j in range(n) if j != i]
        third[i] = rho[i] * sum(second[j] / (1 - rho[j]) for j in others)
    return first + second + third, rho * (1 - rho)


@pytest.mark.parametrize("seed", range(3))
def test_xendcg_is_that_of_the_plain_formula(seed: int) -> None:
    from rankwright.data.vocabulary import hash_rows

    X, grades, scores = drawn(seed)
    rows, gradient, hessian = at(X, grades, scores, "xendcg", seed)
    keys = row_keys(hash_rows(X)[rows], QueryPairs.of(grades))
    gain = 2.0 ** grades.y[rows] - uniform(keys, seed)
    query = grades.queries.codes[rows]
    for q in np.unique(query):
        own = query == q
        slope, curve = plain_xendcg(scores[rows][own], gain[own])
        np.testing.assert_allclose(gradient[own], slope, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(hessian[own], curve, rtol=1e-9)


def test_numbers_of_a_seed_are_uniform_and_differ_by_seed() -> None:
    keys = np.arange(100_000, dtype=np.uint64)
    numbers, others = uniform(keys, 1), uniform(keys, 2)
    counts, _ = np.histogram(numbers, 20, (0.0, 1.0))
    assert abs(counts - 5000).max() < 5 * np.sqrt(5000)
    assert abs(np.corrcoef(numbers, others)[0, 1]) < 0.015


@pytest.mark.parametrize("loss", ["query_rmse", "xendcg"])
def test_a_weight_of_two_is_two_copies(loss: str) -> None:
    X, grades, scores = drawn(0)
    weight = np.where(np.arange(len(scores)) % 3 == 0, 2.0, 1.0)
    twice = np.repeat(np.arange(len(scores)), weight.astype(int))
    copies = Grades(grades.y[twice], Queries.from_ids(grades.queries.codes[twice]))
    weighted = Grades(grades.y, grades.queries, sample_weight=weight)
    rows, *terms = at(X, weighted, scores, loss)
    copied, *copied_terms = at(X[twice], copies, scores[twice], loss)
    for one, two in zip(terms, copied_terms, strict=True):
        whole = np.bincount(twice[copied], two, len(scores))[rows]
        np.testing.assert_allclose(one, whole, rtol=1e-9, atol=1e-12)


def test_xendcg_ranks_what_no_single_feature_can() -> None:
    rng = np.random.default_rng(0)
    X, qid = rng.normal(size=(600, 3)), np.repeat(np.arange(30), 20)
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    model = rw.LambdaMART(loss="xendcg", n_estimators=60, learning_rate=0.1).fit(X, y, qid=qid)
    assert model.score(X, y, qid=qid) > 0.95
