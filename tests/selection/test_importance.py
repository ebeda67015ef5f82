"""Permutation importance and partial dependence of fitted rankers."""

from __future__ import annotations

import numpy as np
import pytest

import rankwright as rw
from rankwright.exceptions import ParameterError
from rankwright.selection.importance import partial_dependence, permutation_importance


@pytest.mark.parametrize("within", [True, False])
def test_permutation_importance_finds_the_feature_that_orders_the_lists(within: bool) -> None:
    rng = np.random.default_rng(0)
    qid = np.repeat(np.arange(40), 10)
    X = np.stack([rng.normal(size=400), rng.normal(size=400), 5.0 * qid], axis=1)
    y = (X[:, 1] > 0.5).astype(int)
    model = rw.RankBoost(n_estimators=20).fit(X, y, qid=qid)
    found = permutation_importance(model, X, y, qid, within_queries=within, random_state=0)
    assert found.mean[1] > 0.2
    assert found.interval[1, 0] > 0.1
    assert found.repeats.shape == (5, 3)
    assert found.mean[2] == 0 if within else True  # constant in a query: nothing to shuffle
    np.testing.assert_allclose(found.repeats.mean(axis=0), found.mean)
    assert repr(found).splitlines()[1].startswith("x1")
    same = permutation_importance(model, X, y, qid, within_queries=within, random_state=0)
    np.testing.assert_array_equal(same.mean, found.mean)


def test_partial_dependence_of_a_step_function_is_the_step_function() -> None:
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(300, 2)), 1)
    model = rw.RankBoost(n_estimators=10).fit(X, (X[:, 0] + X[:, 1] > 0).astype(int))
    curve, found = model.contribution(0), partial_dependence(model, X, 0)
    assert found.is_step
    np.testing.assert_array_equal(found.values[:-1], curve.threshold)
    expected = curve(found.values)
    np.testing.assert_allclose(found.scores - found.scores[0], expected - expected[0], atol=1e-12)
    trees = rw.LambdaMART(n_estimators=3).fit(X, (X[:, 0] > 0).astype(int))
    assert partial_dependence(trees, X, 0).is_step
    for feature in (-1, X.shape[1], "price"):
        with pytest.raises(ParameterError, match="partial_dependence"):
            partial_dependence(model, X, feature)
    line = partial_dependence(rw.RidgeRanker().fit(X, X[:, 1]), X, "x1", n_values=5)
    assert not line.is_step
    assert np.ptp(np.diff(line.scores) / np.diff(line.values)) < 1e-9
