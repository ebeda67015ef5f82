"""A merged sum gives the scores of its terms, and of each kind there is one term at most."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from exports import random_models
from rankwright.exceptions import DataError
from rankwright.scoring.kernel import Kernel, KernelExpansion
from rankwright.scoring.linear import Additive, Linear, Slopes
from rankwright.scoring.network import Network, n_weights
from rankwright.scoring.ordinal import Ordinal
from rankwright.scoring.sums import Sum
from rankwright.scoring.transforms import Affine, LevelNumbers, Mapped
from rankwright.scoring.trees import Trees

N = 3  # features


def of_width(build: Any, rng: np.random.Generator) -> Any:
    """A random scorer of three features."""
    while (scorer := build(rng)).n_features != N:
        pass
    return scorer


def network(rng: np.random.Generator) -> Network:
    layers = [N, int(rng.integers(1, 6)), 1]
    return Network(np.array(layers), rng.normal(size=n_weights(layers)))


def expansion(rng: np.random.Generator) -> KernelExpansion:
    support = np.round(rng.normal(size=(6, N)))
    return KernelExpansion(Kernel("rbf", gamma=0.3), support, rng.normal(size=6))


def scaler(rng: np.random.Generator) -> Affine:
    return Affine(shift=rng.normal(size=N), divisor=rng.uniform(0.1, 9.0, N))


def plain(terms: Any, factors: Any, X: Any) -> Any:
    """The twin: each term on its own, in NumPy's order."""
    scores = np.zeros(X.shape[0])
    for factor, term in zip(factors, terms, strict=True):
        scores = scores + factor * term.decision_function(X)
    return scores


BUILDERS = {
    Linear: random_models.linear_with_intercept,
    Slopes: random_models.slopes,
    Additive: random_models.additive,
    Trees: random_models.trees,
    Network: network,
    KernelExpansion: expansion,
}


@pytest.mark.parametrize("kind", BUILDERS, ids=lambda kind: kind.kind)
@pytest.mark.parametrize("seed", range(5))
def test_scorers_of_one_kind_become_one(kind: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    terms = tuple(of_width(BUILDERS[kind], rng) for _ in range(4))
    factors = np.array([0.5, 2.0, 1.0, 0.1])
    X = rng.normal(size=(300, N)) * 3
    if kind in (Slopes, Additive, Trees):
        X[rng.random(X.shape) < 0.2] = np.nan
    found = Sum(terms, factors)
    assert [type(term) for term in found.merged.terms] == [kind]
    for rows in (X, np.nan_to_num(X), sparse.csr_array(np.nan_to_num(X))):
        size = np.abs(plain(terms, factors, rows)).max()
        expected = plain(terms, factors, rows)
        np.testing.assert_allclose(found.decision_function(rows), expected, 1e-12, 1e-12 * size)


def test_rows_at_thresholds_take_the_same_steps() -> None:
    rng = np.random.default_rng(1)
    for build in (random_models.additive, random_models.trees, random_models.categorical):
        terms = tuple(of_width(build, rng) for _ in range(3))
        factors = np.array([1.0, 0.25, 3.0])
        values = [np.concatenate([t.split_values(j) for t in terms]) for j in range(N)]
        X = np.column_stack([rng.choice(np.append(value, 0.0), 500) for value in values])
        found = Sum(terms, factors)
        np.testing.assert_allclose(
            found.decision_function(X), plain(terms, factors, X), rtol=1e-12, atol=1e-12
        )
        for j, value in enumerate(values):
            np.testing.assert_array_equal(found.split_values(j), np.unique(value))


def test_trees_with_and_without_categories_are_joined() -> None:
    rng = np.random.default_rng(2)
    terms = tuple(
        of_width(build, rng)
        for build in (random_models.categorical, random_models.trees, random_models.categorical)
    )
    X = np.round(rng.normal(size=(200, N)) * 10)
    np.testing.assert_allclose(
        Sum(terms, np.ones(3)).decision_function(X), plain(terms, np.ones(3), X), rtol=1e-12
    )


def test_scalers_are_folded_into_linear_functions_and_networks() -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(50, N)) * 5
    for build in (random_models.linear_with_intercept, network):
        terms = tuple(Mapped(scaler(rng), of_width(build, rng)) for _ in range(3))
        found = Sum(terms, np.array([1.0, 2.0, 3.0]))
        assert len(found.merged.terms) == 1
        assert not isinstance(found.merged.terms[0], Mapped)
        expected = plain(terms, [1.0, 2.0, 3.0], X)
        np.testing.assert_allclose(found.decision_function(X), expected, rtol=1e-11, atol=1e-12)


def test_a_scaler_that_would_lose_digits_is_not_folded() -> None:
    far = Affine(shift=np.full(N, 1e12), divisor=np.ones(N))
    term = Mapped(far, Linear(np.array([1.0, -2.0, 0.5])))
    X = 1e12 + np.random.default_rng(0).normal(size=(20, N))
    found = Sum((term, term), np.array([0.5, 0.5])).decision_function(X)
    np.testing.assert_allclose(found, term.decision_function(X), rtol=1e-12)


def test_nested_sums_grades_and_zero_factors_are_taken_apart() -> None:
    line, step = Linear(np.ones(N)), of_width(random_models.additive, np.random.default_rng(0))
    graded = Ordinal(line, np.array([0.0]), np.array([0.0, 1.0]))
    inner = Mapped(Affine(factor=np.full(N, 2.0)), Sum((graded, line), np.array([1.0, 3.0])))
    found = Sum((inner, step, line), np.array([0.5, 0.0, 1.0]))
    (only,) = found.merged.terms
    assert isinstance(only, Linear)
    np.testing.assert_allclose(only.coef, 5.0)


def test_different_kinds_stay_terms_and_ties_stay_ties() -> None:
    rng = np.random.default_rng(4)
    terms = tuple(of_width(build, rng) for build in BUILDERS.values())
    found = Sum(terms, np.full(len(terms), 0.5))
    assert len(found.merged.terms) == len(terms)
    X = rng.normal(size=(40, N))
    X = np.vstack([X, X[::-1]])
    scores = found.decision_function(X)
    np.testing.assert_array_equal(scores[:40], scores[40:][::-1])
    np.testing.assert_allclose(scores, plain(terms, [0.5] * len(terms), X), rtol=1e-12, atol=1e-12)


def test_equal_support_rows_of_several_expansions_are_one() -> None:
    rows = np.array([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]])
    one = KernelExpansion(Kernel("rbf"), rows, np.array([1.0, 2.0]))
    two = KernelExpansion(Kernel("rbf"), rows[:1], np.array([4.0]), 0.5)
    (merged,) = Sum((one, two), np.array([1.0, 0.5])).merged.terms
    assert isinstance(merged, KernelExpansion)
    np.testing.assert_array_equal(merged.support, rows)
    np.testing.assert_array_equal(merged.coef, [3.0, 2.0])
    assert merged.intercept == 0.25


def test_a_sum_needs_terms_of_one_width() -> None:
    with pytest.raises(DataError, match="columns"):
        Sum((Linear(np.ones(2)), Linear(np.ones(3))), np.ones(2))
    with pytest.raises(DataError, match="empty"):
        Sum((), np.ones(0))


@pytest.mark.parametrize("first", [(1, 4), (2, 4)], ids=["equal maps", "other maps"])
def test_trees_behind_equal_maps_become_one_list(first: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    maps = [LevelNumbers(7, np.array(ends), np.array([4, 7])) for ends in ((1, 4), first)]
    terms = [
        Mapped(step, random_models.of_width(random_models.categorical, step.n_outputs, rng))
        for step in maps
    ]
    merged = Sum(tuple(terms), np.array([0.5, 2.0])).merged
    assert len(merged.terms) == (1 if first == (1, 4) else 2)
    X = np.column_stack([rng.normal(size=50) * 9, rng.integers(0, 2, (50, 6))])
    wanted = 0.5 * terms[0].decision_function(X) + 2.0 * terms[1].decision_function(X)
    np.testing.assert_allclose(merged.decision_function(X), wanted, rtol=1e-12)
