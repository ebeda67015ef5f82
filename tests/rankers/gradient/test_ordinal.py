"""OrdinalSVM and ProportionalOdds against their problems as printed, solved by other solvers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import optimize, sparse
from sklearn.svm import SVC

from rankwright import OrdinalSVM, ProportionalOdds
from rankwright.exceptions import DegenerateDataWarning


def sample(n: int = 30, d: int = 2, k: int = 3, noise: float = 0.5, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    latent = X @ np.arange(1.0, d + 1) + noise * rng.normal(size=n)
    y = np.searchsorted(np.quantile(latent, np.linspace(0, 1, k + 1)[1:-1]), latent)
    return X, y.astype(float)


def losses(X: Any, y: Any, w: Any, below: Any, above: Any, margin: float) -> float:
    """The sum over neighboring grades of the mean hinge losses of both, row by row."""
    total = 0.0
    for r in range(len(below)):
        total += np.mean([max(0.0, margin + x @ w - below[r]) for x in X[y == r]])
        total += np.mean([max(0.0, margin + above[r] - x @ w) for x in X[y == r + 1]])
    return total


def program(X: Any, y: Any, C: float, fixed: bool) -> Any:
    """The quadratic program in (w, thresholds or edges, slacks), by SLSQP."""
    n, d, k = *X.shape, int(y.max()) + 1
    n_edges = (k - 1) * (1 if fixed else 2)
    both = [(i, y[i] - (s > 0), s) for i in range(n) for s in (-1, 1)]
    entries = [(i, r, s) for i, r, s in both if 0 <= r < k - 1]
    cost = np.array([C / (y == y[i]).sum() for i, _, _ in entries])
    A, room = np.zeros((len(entries), d + n_edges + len(entries))), float(fixed)
    for row, (i, r, s) in enumerate(entries):
        edge = int(r) if fixed else 2 * int(r) + (s > 0)
        A[row, :d], A[row, d + edge], A[row, d + n_edges + row] = s * X[i], -s, 1.0
    order = np.zeros((n_edges - 1, A.shape[1]))
    for j in range(n_edges - 1):
        order[j, d + j], order[j, d + j + 1] = -1.0, 1.0
    price = np.zeros(n_edges) if fixed else np.tile([1.0, -1.0], k - 1)

    def value(z: Any) -> float:
        return float(0.5 * z[:d] @ z[:d] + price @ z[d : d + n_edges] + cost @ z[d + n_edges :])

    def slope(z: Any) -> Any:
        return np.concatenate([z[:d], price, cost])

    start = np.concatenate([np.ones(d), np.linspace(-1, 1, n_edges), np.full(len(entries), 9.0)])
    found = optimize.minimize(
        value,
        start,
        jac=slope,
        method="SLSQP",
        bounds=[(None, None)] * (d + n_edges) + [(0, None)] * len(entries),
        constraints=[
            {"type": "ineq", "fun": lambda z: A @ z - room, "jac": lambda z: A},
            {"type": "ineq", "fun": lambda z: order @ z, "jac": lambda z: order},
        ],
        options={"maxiter": 1000, "ftol": 1e-12},
    )
    assert found.success
    return found


@pytest.mark.parametrize("seed", range(3))
def test_fixed_margins_solve_the_quadratic_program(seed: int) -> None:
    X, y = sample(seed=seed)
    found = program(X, y, 3.0, fixed=True)
    model = OrdinalSVM(C=3.0, tol=1e-6).fit(X, y)
    assert model.objective_ == pytest.approx(found.fun, rel=1e-5)
    np.testing.assert_allclose(model.coef_, found.x[:2], rtol=1e-3)
    t = model.thresholds_
    own = 0.5 * model.coef_ @ model.coef_ + 3.0 * losses(X, y, model.coef_, t, t, 1.0)
    assert own == pytest.approx(found.fun, rel=1e-5)
    np.testing.assert_allclose(model.margins_, 2.0 / np.linalg.norm(model.coef_))


@pytest.mark.parametrize("seed", range(3))
def test_the_sum_of_margins_solves_its_program(seed: int) -> None:
    X, y = sample(noise=0.2, seed=seed)
    found = program(X, y, 4.0, fixed=False)
    assert found.fun < 0, "the margins are 0: the test tests nothing"
    model = OrdinalSVM(margins="sum", C=4.0, tol=1e-6).fit(X, y)
    assert model.objective_ == pytest.approx(found.fun, rel=1e-5)
    length = np.linalg.norm(found.x[:2])
    np.testing.assert_allclose(model.coef_, found.x[:2] / length, atol=1e-3)
    assert np.linalg.norm(model.coef_) == pytest.approx(1.0)
    a, b = model.thresholds_ - model.margins_ / 2, model.thresholds_ + model.margins_ / 2
    value = (b - a).sum() - 4.0 * losses(X, y, model.coef_, a, b, 0.0)
    assert value == pytest.approx(np.sqrt(-2 * found.fun), rel=1e-4)


def test_two_grades_with_fixed_margins_are_the_support_vector_machine() -> None:
    X, y = sample(n=60, k=2, noise=1.0)
    share = 5.0 / np.where(y == 0, (y == 0).sum(), (y == 1).sum())
    peer = SVC(kernel="linear", C=1.0, tol=1e-8).fit(X, y, sample_weight=share)
    model = OrdinalSVM(C=5.0, tol=1e-7).fit(X, y)
    np.testing.assert_allclose(model.coef_, peer.coef_[0], rtol=1e-4)
    np.testing.assert_allclose(model.thresholds_, -peer.intercept_, atol=1e-3)


def test_separable_grades_get_the_widest_margins_by_hand() -> None:
    X = np.array([[0.0], [1.0], [3.0], [5.0], [9.0]])
    y = [1, 1, 2, 2, 3]
    fixed = OrdinalSVM(C=1e3).fit(X, y)
    np.testing.assert_allclose(fixed.margins_, [2.0, 2.0], rtol=1e-5)  # the narrowest gap, 1 to 3
    np.testing.assert_allclose(fixed.thresholds_ / fixed.coef_, [2.0, 7.0], rtol=1e-5)
    apart = OrdinalSVM(margins="sum", C=1e3).fit(X, y)
    np.testing.assert_allclose(apart.margins_, [2.0, 4.0], rtol=1e-5)
    np.testing.assert_allclose(apart.thresholds_ / apart.coef_, [2.0, 7.0], rtol=1e-5)


def test_thresholds_ascend_where_neighboring_grades_are_reversed() -> None:
    X = np.array([[0.0], [0.1], [5.0], [5.1], [2.0], [2.1], [9.0], [9.1]])
    y = np.repeat([0.0, 1.0, 2.0, 3.0], 2)
    for margins in ("fixed", "sum"):
        model = OrdinalSVM(margins=margins).fit(X, y)
        assert (np.diff(model.thresholds_) >= 0).all()
        assert (model.margins_ >= 0).all()


def test_grades_that_overlap_too_much_have_no_sum_of_margins() -> None:
    X, y = sample(n=200, noise=5.0)
    with pytest.warns(DegenerateDataWarning):
        assert not OrdinalSVM(margins="sum", C=10.0).fit(X, y).coef_.any()
    automatic = OrdinalSVM(margins="sum").fit(X, y)
    assert automatic.C_ < 10.0
    assert automatic.score(X, y) > 0.55


def likelihood(X: Any, y: Any, w: Any, t: Any) -> float:
    """The mean negative log-likelihood from the printed formula."""
    below = 1.0 / (1.0 + np.exp(-(t - (X @ w)[:, None])))
    edges = np.column_stack([np.zeros(len(X)), below, np.ones(len(X))])
    rows = np.arange(len(X))
    return float(-np.log(edges[rows, y.astype(int) + 1] - edges[rows, y.astype(int)]).mean())


def test_proportional_odds_is_the_penalized_likelihood() -> None:
    X, y = sample(n=80, d=3, k=4, noise=2.0)

    def value(z: Any) -> float:
        t = z[3] + np.append(0.0, np.cumsum(np.exp(z[4:])))
        return float(0.5 * z[:3] @ z[:3] + 7.0 * likelihood(X, y, z[:3], t))

    found = optimize.minimize(value, np.zeros(6), method="BFGS", options={"gtol": 1e-7})
    model = ProportionalOdds(C=7.0).fit(X, y)
    assert model.objective_ == pytest.approx(found.fun, rel=1e-9)
    np.testing.assert_allclose(model.coef_, found.x[:3], atol=1e-4)
    t = found.x[3] + np.append(0.0, np.cumsum(np.exp(found.x[4:])))
    np.testing.assert_allclose(model.thresholds_, t, atol=1e-4)


def test_probabilities_are_those_of_the_model_and_predict_is_their_median() -> None:
    X, y = sample(n=200, d=3, k=4, noise=2.0)
    model = ProportionalOdds().fit(X, y)
    shares = model.predict_proba(X)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    own = -np.log(shares[np.arange(len(y)), y.astype(int)]).mean()
    assert own == pytest.approx(likelihood(X, y, model.coef_, model.thresholds_), rel=1e-9)
    median = (np.cumsum(shares, axis=1) <= 0.5).sum(axis=1)
    np.testing.assert_array_equal(model.predict(X), median)
    # Maximum likelihood of an intercept: mean shares are the observed ones, threshold by threshold.
    np.testing.assert_allclose(shares.mean(axis=0), np.bincount(y.astype(int)) / len(y), atol=0.02)


def test_the_curvature_is_the_derivative_of_the_slope() -> None:
    from rankwright.rankers.gradient.ordinal_losses import Grading, MarginLosses, OddsLosses

    X, y = sample(n=50, k=4, noise=1.0)
    grading, rng = Grading(y.astype(np.int64), np.full(50, 0.02)), np.random.default_rng(0)
    odds, fixed, summed = (
        OddsLosses(X, grading),
        MarginLosses(X, grading, fixed=True),
        MarginLosses(X, grading, fixed=False),
    )
    summed.C = 3.0
    w, v, h = rng.normal(size=2), rng.normal(size=2), 1e-6
    smooth = [(3.0, 1.0), (-3.0, 0.5)]
    for at, terms in ((odds, [(2.0, 1.0)]), (fixed, smooth), (summed, smooth)):
        one, other = (at.at(at.scores(w + s * h * v), terms) for s in (1, -1))
        here = at.at(at.scores(w), terms)
        assert (one.value - other.value) / (2 * h) == pytest.approx(here.gradient @ v, rel=1e-5)
        bend = (one.gradient - other.gradient) / (2 * h)
        np.testing.assert_allclose(here.product(v), bend, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize(
    "model", [OrdinalSVM(), OrdinalSVM(margins="sum"), ProportionalOdds()], ids=str
)
def test_sparse_rows_and_copies_give_the_same_model(model: Any) -> None:
    X, y = sample(n=60, d=3)
    coef = model.fit(X, y).coef_
    np.testing.assert_allclose(model.fit(sparse.csr_array(X), y).coef_, coef, atol=1e-5)
    weight = np.where(np.arange(60) < 20, 2.0, 1.0)
    twice = model.fit(np.vstack([X, X[:20]]), np.append(y, y[:20])).coef_
    np.testing.assert_allclose(model.fit(X, y, sample_weight=weight).coef_, twice, atol=1e-4)
