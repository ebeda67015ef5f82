"""VSIM against the printed formula, and its column against training without the row."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

import rankwright as rw

NAN = float("nan")


def ratings(seed: int = 0, n_items: int = 30, n_users: int = 12) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.integers(1, 6, (n_items, n_users)).astype(float)
    X[rng.random(X.shape) < 0.6] = NAN
    return X, rng.integers(1, 6, n_items).astype(float)


def printed(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> np.ndarray:
    """The formula of section 6.2.3, loop by loop."""
    weights, means = [], []
    for column in X.T:
        known = ~np.isnan(column)
        length = np.sqrt((column[known] ** 2).sum()) * np.sqrt((y**2).sum())
        weights.append((column[known] * y[known]).sum() / length if length > 0 else 0.0)
        means.append(column[known].mean() if known.any() else 0.0)
    alpha = 1 / np.abs(weights).sum()
    return np.array(
        [
            y.mean()
            + alpha
            * sum(w * (v - m) for w, v, m in zip(weights, row, means, strict=True) if v == v)
            for row in new
        ]
    )


def test_vsim_is_the_printed_formula() -> None:
    X, y = ratings()
    model = rw.VSIM().fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), printed(X, y, X), rtol=1e-12)


def test_weights_add_up_to_one() -> None:
    assert np.abs(rw.VSIM().fit(*ratings()).coef_).sum() == pytest.approx(1.0)


def test_over_rated_divides_by_the_weights_of_those_who_know_the_item() -> None:
    X = np.array([[5.0, 1.0], [1.0, 5.0], [5.0, NAN]])
    model = rw.VSIM(over="rated").fit(X, [5.0, 1.0, 5.0])
    mean = X[:, 0].mean()
    assert model.decision_function([[4.0, NAN]])[0] == pytest.approx(11 / 3 + (4.0 - mean))


def test_an_item_that_nobody_knows_gets_the_mean_grade() -> None:
    X, y = ratings()
    for over in ("all", "rated"):
        model = rw.VSIM(over=over).fit(X, y)
        assert model.decision_function(np.full((1, 12), NAN))[0] == pytest.approx(y.mean())


def test_averages_of_more_than_the_training_rows_may_be_given() -> None:
    X, y = ratings()
    model = rw.VSIM(feature_mean=np.full(12, 3.0), feature_norm=np.ones(12)).fit(X, y)
    np.testing.assert_array_equal(model.mean_, 3.0)


def test_a_csr_matrix_may_abstain_where_it_stores_nothing() -> None:
    from scipy.sparse import csr_array

    X, y = ratings()
    sparse = csr_array(np.where(np.isnan(X), 0.0, X))
    found = rw.VSIM(absent="abstain").fit(sparse, y).decision_function(sparse)
    np.testing.assert_allclose(found, rw.VSIM().fit(X, y).decision_function(X), rtol=1e-12)


@pytest.mark.parametrize("over", ["all", "rated"])
def test_the_added_column_is_vsim_learned_without_the_row(over: str) -> None:
    X, y = ratings()
    options = {"feature_mean": np.full(12, 3.0), "feature_norm": np.full(12, 9.0)}
    found = rw.rankers.VSIMFeature(over=over, **options).fit_transform(X, y)[:, -1]
    for row in (0, 7, 29):
        rest = np.arange(30) != row
        model = rw.VSIM(over=over, **options).fit(X[rest], y[rest])
        wanted = model.decision_function(X[[row]])[0] - model.intercept_
        assert found[row] == pytest.approx(wanted, abs=1e-12)


def test_the_added_column_of_new_rows_is_vsim() -> None:
    X, y = ratings()
    wanted = rw.VSIM(over="rated").fit(X, y)
    found = rw.rankers.VSIMFeature().fit(X, y).transform(X)[:, -1]
    np.testing.assert_allclose(found, wanted.decision_function(X) - y.mean(), atol=1e-12)


def test_a_pipeline_with_the_added_column_saves_and_loads(tmp_path) -> None:
    X, y = ratings()
    model = make_pipeline(rw.rankers.VSIMFeature(), rw.RankBoost(n_estimators=10)).fit(X, y)
    rw.save(model, tmp_path / "model.rw")
    loaded = rw.load(tmp_path / "model.rw")
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    scorer = rw.load_scorer(tmp_path / "model.rw")
    np.testing.assert_array_equal(scorer.decision_function(X), model.decision_function(X))


def test_unseen_zero_is_the_sum_over_all_users_with_zeros() -> None:
    X, y = ratings()
    model = rw.VSIM(unseen="zero").fit(X, y)
    np.testing.assert_array_equal(model.coef_, rw.VSIM().fit(X, y).coef_)
    filled = np.where(np.isnan(X), 0.0, X)
    means = np.array([column[~np.isnan(column)].mean() for column in X.T])
    # The printed formula on complete rows skips nothing.
    wanted = y.mean() + (filled - means) @ model.coef_
    np.testing.assert_allclose(model.decision_function(X), wanted, rtol=1e-12)


def test_where_nothing_is_unseen_both_readings_agree() -> None:
    X, y = ratings()
    full = np.where(np.isnan(X), 3.0, X)
    zero, skip = (
        rw.VSIM(unseen=how).fit(full, y).decision_function(full) for how in ("zero", "skip")
    )
    np.testing.assert_allclose(zero, skip, rtol=1e-12)
