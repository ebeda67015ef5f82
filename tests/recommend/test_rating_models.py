"""Rating models against plain twins."""

from __future__ import annotations

import numpy as np
import pytest

from rankwright.data.behavior.ratings import Ratings
from rankwright.data.datasets.synthetic import make_ratings
from rankwright.recommend.ratings.base import ItemMeans, biases
from rankwright.recommend.ratings.factors import ImplicitFeatures, MatrixFactorization
from rankwright.recommend.ratings.neighbors import ItemKNN, UserSimilarity

NOBODY = np.zeros(0, np.int64), np.zeros(0)


def test_similarities_between_items_are_shrunk_cosines_to_a_power() -> None:
    ratings = make_ratings(40, 12, random_state=1).ratings
    model = ItemKNN(n_neighbors=11, shrinkage=5.0, power=2.0).fit(ratings)
    mean, user, item = biases(ratings)
    rest = ratings.value - mean - user[ratings.user] - item[ratings.item]
    table, known = np.zeros((40, 12)), np.zeros((40, 12))
    table[ratings.user, ratings.item], known[ratings.user, ratings.item] = rest, 1.0
    norm, both = np.sqrt((table**2).sum(axis=0)), known.T @ known
    cosine = table.T @ table / np.outer(norm, norm) * both / (both + 5.0)
    np.fill_diagonal(cosine, 0.0)
    found = np.zeros((12, 12))
    of, place = np.nonzero(model.neighbor_ >= 0)
    found[of, model.neighbor_[of, place]] = model.similarity_[of, place]
    np.testing.assert_allclose(found, np.maximum(cosine, 0.0) ** 2, atol=1e-12)


def test_the_nearest_items_are_kept() -> None:
    ratings = make_ratings(40, 12, random_state=1).ratings
    all_of_them, some = ItemKNN(11).fit(ratings), ItemKNN(3).fit(ratings)
    best = -np.sort(-all_of_them.similarity_, axis=1)[:, :3]
    np.testing.assert_allclose(-np.sort(-some.similarity_, axis=1), best)


def test_the_vector_of_a_user_is_the_posterior_of_the_last_sweep() -> None:
    """What scoring does in NumPy is what the training kernel does."""
    from rankwright.recommend.ratings import _kernels
    from rankwright.recommend.ratings.base import RatingRows

    ratings = make_ratings(30, 20, random_state=2).ratings
    model = MatrixFactorization(n_components=4, n_implicit=3, max_iter=4).fit(ratings)
    table = RatingRows.by_user(ratings)
    prior = np.array([model.implicit_.describe(table.row(u)[0]) for u in range(30)])
    mean, moments = np.zeros((30, 4)), np.zeros((30, 10), np.float32)
    posterior = _kernels.Posterior(mean, moments, np.zeros((30, 4)))
    _kernels.update_factors(
        table._replace(value=table.value - model.mean_),
        _kernels.Posterior(model.item_factors_, model.item_moments_, np.zeros((20, 4))),
        _kernels.Prior(prior @ model.user_coef_, model.user_precision_),
        model.noise_,
        0,
        30,
        posterior,
        np.zeros(30),
    )
    found = np.array([model.vector(*table.row(u)) for u in range(30)])
    np.testing.assert_allclose(found, mean, rtol=1e-8, atol=1e-10)


def test_own_ratings_and_the_prior_add_up_to_the_score() -> None:
    ratings = make_ratings(30, 20, random_state=2).ratings
    model = MatrixFactorization(n_components=4, n_implicit=3, max_iter=4).fit(ratings)
    rated, value = np.array([1, 4, 7]), np.array([5.0, 2.0, 4.0])
    prior_only = model.scores(rated, np.full(3, model.mean_), np.array([9]))[0]
    total = model.scores(rated, value, np.array([9]))[0]
    assert model.contributions(rated, value, 9).sum() == pytest.approx(total - prior_only)


def test_implicit_features_of_a_user_come_from_the_rated_items() -> None:
    ratings = make_ratings(30, 20, random_state=3).ratings
    implicit, users, _ = ImplicitFeatures.fit(ratings, 5)
    for user in (0, 13):
        found = implicit.describe(ratings.item[ratings.user == user])
        np.testing.assert_allclose(found, users[user], atol=1e-6)


def test_factorization_finds_low_rank_ratings() -> None:
    rng = np.random.default_rng(0)
    truth = 3 + rng.normal(size=(80, 2)) @ rng.normal(size=(2, 60))
    known = rng.random(truth.shape) < 0.4
    user, item = np.nonzero(known)
    value = truth[user, item] + 0.1 * rng.normal(size=len(user))
    ratings = Ratings(np.arange(80), np.arange(60), user, item, value)
    model = MatrixFactorization(n_components=6, max_iter=30).fit(ratings)
    items = np.flatnonzero(~known[0])
    error = model.scores(item[user == 0], value[user == 0], items) - truth[0, items]
    assert np.sqrt((error**2).mean()) < 0.3


@pytest.mark.parametrize("kind", [ItemMeans, ItemKNN, UserSimilarity, MatrixFactorization])
def test_a_user_without_ratings_gets_finite_scores(kind) -> None:
    ratings = make_ratings(30, 20, random_state=0).ratings
    assert np.isfinite(kind().fit(ratings).scores(*NOBODY, np.arange(20))).all()


@pytest.mark.parametrize("kind", [ItemMeans, ItemKNN, UserSimilarity, MatrixFactorization])
def test_one_rating_is_enough_to_be_fitted(kind) -> None:
    ratings = Ratings.from_arrays(["a"], ["X"], [4.0])
    scores = kind().fit(ratings).scores(np.array([0]), np.array([4.0]), np.array([0]))
    assert np.isfinite(scores).all()


@pytest.mark.parametrize("kind", [ItemMeans, ItemKNN, UserSimilarity, MatrixFactorization])
def test_a_model_scores_some_items_as_it_scores_all(kind) -> None:
    ratings = make_ratings(30, 40, random_state=0).ratings
    model = kind().fit(ratings)
    mine = ratings.item[:5], ratings.value[:5]
    few = model.scores(*mine, np.array([30, 2]))
    np.testing.assert_allclose(few, model.scores(*mine, np.arange(40))[[30, 2]])
