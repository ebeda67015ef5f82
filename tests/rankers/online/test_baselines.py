"""Widrow-Hoff and the multiclass perceptron against their printed rules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from rankwright import MulticlassPerceptron, WidrowHoff
from rankwright.exceptions import ConvergenceWarning


def stream(n: int = 200, d: int = 4, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    X = rng.integers(-16, 17, size=(n, d)) / 8.0
    return X, np.digitize(X[:, 0] - X[:, 1] + 0.3 * rng.normal(size=n), [-1, 0, 1]) + 1


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_matrix], ids=["dense", "csr"])
def test_widrow_hoff_is_the_delta_rule(convert: Any) -> None:
    X, y = stream()
    w = np.zeros(4)
    for x, grade in zip(X, y, strict=True):
        w -= 0.05 * (w @ x - grade) * x
    model = WidrowHoff(learning_rate=0.05).fit(convert(X), y)
    np.testing.assert_allclose(model.coef_, w, rtol=1e-12)
    wanted = np.clip(np.floor(X @ w + 0.5), 1, 4)
    np.testing.assert_array_equal(model.predict(convert(X)), wanted)


def test_widrow_hoff_that_diverges_says_so_and_stays_finite() -> None:
    X, y = stream()
    with pytest.warns(ConvergenceWarning, match="diverged"):
        model = WidrowHoff(learning_rate=10.0, max_iter=5).fit(X, y)
    assert np.isfinite(model.coef_).all()
    assert np.isfinite(model.decision_function(X)).all()
    assert set(model.predict(X)) <= {1, 2, 3, 4}


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_matrix], ids=["dense", "csr"])
def test_the_multiclass_perceptron_moves_two_prototypes_on_a_mistake(convert: Any) -> None:
    X, y = stream()
    prototypes, mistakes = np.zeros((4, 4)), 0
    for x, grade in zip(X, y - 1, strict=True):
        guess = int(np.argmax(prototypes @ x))
        if guess != grade:
            prototypes[grade] += x
            prototypes[guess] -= x
            mistakes += 1
    model = MulticlassPerceptron().fit(convert(X), y)
    np.testing.assert_array_equal(model.coef_, prototypes)
    assert model.n_mistakes_ == mistakes
    np.testing.assert_array_equal(model.predict(X), 1 + (X @ prototypes.T).argmax(axis=1))


def test_the_multiclass_perceptron_orders_by_grade_first() -> None:
    X, y = stream()
    model = MulticlassPerceptron(max_iter=5).fit(X, y)
    np.testing.assert_array_equal(np.round(model.decision_function(X)), model.predict(X))
