"""BayesianPRank: its filter, its closeness to the least possible loss, its forms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import integrate, sparse, stats

import rankwright as rw
from rankwright import BayesianPRank, PRank
from rankwright.data.datasets.synthetic import make_ordinal
from rankwright.rankers.online import bayesian
from rankwright.rankers.online._kernels import bayesian as _kernels


def twin(X: Any, y: Any, prior: float, n_grades: int, diagonal: bool = False) -> tuple[Any, Any]:
    """The filter as the docstring prints it, one threshold after the other."""
    d = X.shape[1]
    mean = np.zeros(d + n_grades - 1)
    scale = prior / (X[0] @ X[0])
    S = np.diag(np.concatenate([np.full(d, scale), np.full(n_grades - 1, prior)]))
    for x, grade in zip(X, y, strict=True):
        for r in range(n_grades - 1):
            z = np.concatenate([x, -np.eye(n_grades - 1)[r]])
            side = 1.0 if grade > r else -1.0
            spread = 1.0 + z @ S @ z
            t = side * (z @ mean) / math.sqrt(spread)
            rho = math.exp(stats.norm.logpdf(t) - stats.norm.logcdf(t))
            gain = S @ z
            mean = mean + side * rho / math.sqrt(spread) * gain
            S = S - rho * (rho + t) / spread * np.outer(gain, gain)
            if diagonal:
                S = np.diag(np.diag(S))
    return mean, S


def stream(n: int = 60, d: int = 4, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.digitize(X[:, 0] - X[:, 1] + 0.3 * rng.normal(size=n), [-1, 0, 1])


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_matrix], ids=["dense", "csr"])
@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_it_is_the_printed_filter(convert: Any, covariance: str) -> None:
    X, y = stream()
    mean, S = twin(X, y, 10.0, 4, covariance == "diagonal")
    model = BayesianPRank(prior=10.0, covariance=covariance).fit(convert(X), y)
    np.testing.assert_allclose(model.mean_, mean, rtol=1e-8, atol=1e-10)
    if covariance == "full":
        np.testing.assert_allclose(model.covariance_, S, rtol=1e-7, atol=1e-9)
    else:
        np.testing.assert_allclose(model.variance_, np.diag(S), rtol=1e-8)


def test_low_rank_is_full_while_every_direction_has_its_place() -> None:
    X, y = stream()
    full = BayesianPRank(covariance="full").fit(X, y)
    some = BayesianPRank(covariance="low_rank", n_directions=200).fit(X, y)
    np.testing.assert_allclose(some.mean_, full.mean_, rtol=1e-7, atol=1e-9)
    root = np.sqrt(some.variance_)
    known = np.eye(len(root)) - some.factors_.T @ some.factors_
    np.testing.assert_allclose(root[:, None] * known * root, full.covariance_, atol=1e-9)


def test_compressing_keeps_every_variance_and_a_positive_covariance() -> None:
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(5, 8))
    factors *= 0.9 / np.linalg.norm(factors, 2)
    variances = rng.uniform(1.0, 2.0, size=8)
    wanted = variances * (1 - (factors**2).sum(axis=0))
    _kernels.compress(factors, variances, 2, False)
    np.testing.assert_allclose(variances * (1 - (factors**2).sum(axis=0)), wanted, rtol=1e-12)
    assert np.linalg.norm(factors, 2) <= 0.9 + 1e-12
    np.testing.assert_array_equal(factors[2:], 0.0)


def test_low_rank_knows_of_features_that_go_together() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(1500, 400))  # all positive: one direction that every feature shares
    latent = X @ rng.normal(size=400)
    y = np.searchsorted(np.quantile(latent, [0.25, 0.5, 0.75]), latent)
    loss = {
        form: np.abs(
            BayesianPRank(covariance=form).fit(X[:1000], y[:1000]).predict(X[1000:]) - y[1000:]
        ).mean()
        for form in ("low_rank", "diagonal")
    }
    assert loss["low_rank"] < loss["diagonal"]


@pytest.mark.parametrize("mean", [-3.0, 0.2, 2.0])
@pytest.mark.parametrize("side", [1.0, -1.0])
def test_an_answer_matches_mean_and_variance_of_the_belief_after_it(
    mean: float, side: float
) -> None:
    variance = 2.5
    belief = stats.norm(mean, math.sqrt(variance))

    def moment(power: int) -> float:
        return integrate.quad(
            lambda s: s**power * belief.pdf(s) * stats.norm.cdf(side * s), -40, 40, limit=400
        )[0]

    first, second = _kernels.posterior_change(mean, variance, side)
    after = moment(1) / moment(0)
    assert mean + first * variance == pytest.approx(after, rel=1e-7)
    spread = moment(2) / moment(0) - after**2
    assert variance - second * variance**2 == pytest.approx(spread, rel=1e-6)


def test_the_ratio_of_tails_is_smooth_far_out() -> None:
    for t in (-40.0, -12.0, -6.001, -5.999, -1.0, 3.0):
        wanted = math.exp(stats.norm.logpdf(t) - stats.norm.logcdf(t))
        assert _kernels.tail_ratio(t) == pytest.approx(wanted, rel=2e-5)


@pytest.mark.parametrize("n_rows, limit", [(5000, 1.05), (50_000, 1.02)])
def test_one_pass_comes_close_to_the_bayes_loss(n_rows: int, limit: float) -> None:
    losses, least = [], []
    for trial in range(20):
        train = make_ordinal(n_rows, random_state=trial)
        test = make_ordinal(1000, random_state=10_000 + trial)
        model = BayesianPRank(degree=2).fit(train.X, train.y)
        losses.append(np.abs(model.predict(test.X) - test.y).mean())
        least.append(np.abs(test.bayes_prediction - test.y).mean())
    assert np.mean(losses) <= limit * np.mean(least)


def test_it_is_better_than_averaged_prank_with_few_and_with_many_features() -> None:
    rng = np.random.default_rng(0)
    for X in (
        rng.normal(size=(3000, 20)) @ rng.normal(size=(20, 20)),
        sparse.random(3000, 600, 0.03, format="csr", random_state=0),
    ):
        latent = X @ rng.normal(size=X.shape[1])
        y = np.searchsorted(np.quantile(latent, [0.25, 0.5, 0.75]), latent)
        model = BayesianPRank().fit(X[:2000], y[:2000])
        assert ("covariance_" in vars(model)) == (X.shape[1] == 20)
        assert ("factors_" in vars(model)) == (X.shape[1] == 600)
        ours = np.abs(model.predict(X[2000:]) - y[2000:]).mean()
        theirs = np.abs(PRank(average=True).fit(X[:2000], y[:2000]).predict(X[2000:]) - y[2000:])
        assert ours < theirs.mean()


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_the_scale_of_the_features_does_not_matter(covariance: str) -> None:
    X, y = stream()
    one = BayesianPRank(covariance=covariance).fit(X, y)
    for factor in (2.0**20, 2.0**-20):
        other = BayesianPRank(covariance=covariance).fit(X * factor, y)
        np.testing.assert_allclose(
            other.decision_function(X * factor), one.decision_function(X), rtol=1e-6, atol=1e-8
        )


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_rows_of_zeros_before_the_first_real_row_do_no_harm(covariance: str) -> None:
    X, y = stream()
    model = BayesianPRank(covariance=covariance).start(4, [0, 1, 2, 3])
    model.partial_fit(np.zeros((3, 4)), [0, 1, 2])
    assert model.scale_ == 0.0
    assert model.partial_fit(X, y).scale_ > 0.0
    assert model.score(X, y) > 0.9


def test_the_belief_stays_a_covariance_on_a_long_stream() -> None:
    train = make_ordinal(200_000, random_state=0)
    model = BayesianPRank(degree=2).fit(train.X, train.y)
    assert np.linalg.eigvalsh((model.covariance_ + model.covariance_.T) / 2).min() > 0


def test_the_expected_grade_is_the_mean_under_the_noise() -> None:
    X, y = stream()
    model = BayesianPRank().fit(X, y + 1)
    scores = model.decision_function(X)
    noise = np.random.default_rng(0).normal(size=4000)
    drawn = (scores[:, None, None] + noise[None, :, None] >= model.thresholds_).sum(axis=2) + 1
    np.testing.assert_allclose(model.predict_expected(X), drawn.mean(axis=1), atol=0.05)


@pytest.mark.parametrize("covariance", ["full", "diagonal", "low_rank"])
def test_probabilities_of_grades_are_those_of_models_drawn_from_the_posterior(
    covariance: str,
) -> None:
    sample = make_ordinal(60, random_state=0)
    model = rw.BayesianPRank(covariance=covariance, n_directions=2).fit(sample.X, sample.y)
    probabilities = model.predict_proba(sample.X)
    assert probabilities.shape == (60, len(model.classes_))
    assert (probabilities >= 0).all()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-12)
    if covariance == "full":
        S = model.covariance_
    else:
        root = np.sqrt(model.variance_)
        S = np.diag(model.variance_)
        if covariance == "low_rank":
            F = model.factors_[: model.n_factors_]
            S = root[:, None] * (np.eye(len(root)) - F.T @ F) * root
    rng = np.random.default_rng(1)
    drawn = rng.multivariate_normal(model.mean_, S, size=40_000)
    weights, thresholds = drawn[:, :2], drawn[:, 2:]
    score = sample.X[:12] @ weights.T + rng.normal(size=len(drawn))
    above = -np.sort(-(score[:, :, None] > thresholds).mean(axis=1), axis=1)
    found = 1.0 - np.cumsum(probabilities[:12], axis=1)[:, :-1]
    np.testing.assert_allclose(found, above, atol=0.01)


def test_vote_shares_have_the_expected_grade_as_their_mean() -> None:
    sample = make_ordinal(100, random_state=2)
    for ranker in (
        rw.VotedPRank(),
        rw.VotedPRank(kernel="rbf", gamma=0.5),
        rw.OAPVoting(n_estimators=10, random_state=0),
        rw.OAPBagging(n_estimators=10, random_state=0),
    ):
        model = ranker.fit(sample.X, sample.y)
        shares = model.predict_proba(sample.X)
        np.testing.assert_allclose(shares.sum(axis=1), 1.0, rtol=1e-12)
        np.testing.assert_allclose(
            shares @ model.classes_, model.predict_expected(sample.X), rtol=1e-9
        )


def test_low_rank_on_wide_sparse_rows_learns_on_the_columns_that_occur(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    X = sparse.random(200, 900, 0.01, "csr", random_state=rng) + sparse.csr_array((200, 900))
    y = rng.integers(0, 3, 200)
    settings: Any = {"covariance": "low_rank", "n_directions": 3}
    usual = BayesianPRank(**settings).fit(X, y)
    monkeypatch.setattr(bayesian, "MANY_COLUMNS", 900)
    wide = BayesianPRank(**settings).fit(X, y)
    np.testing.assert_allclose(wide.mean_, usual.mean_, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(wide.variance_, usual.variance_, rtol=1e-8)
    stream = BayesianPRank(**settings)
    for start in range(0, 200, 23):
        rows = slice(start, start + 23)
        stream.partial_fit(X[rows], y[rows], classes=[0, 1, 2] if start == 0 else None)
    for name in ("mean_", "variance_", "factors_", "n_factors_", "scale_"):
        np.testing.assert_array_equal(getattr(stream, name), getattr(wide, name), name)
