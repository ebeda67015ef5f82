"""Each expert of the Recommender, and the blend of them, against dense tables and loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rankwright import MPRank
from rankwright.data.behavior.ratings import Ratings
from rankwright.data.datasets.synthetic import make_ratings
from rankwright.recommend.ratings import blend
from rankwright.recommend.ratings.base import ItemMeans, RatingRows
from rankwright.recommend.ratings.blend import Blend
from rankwright.recommend.ratings.factors import MatrixFactorization
from rankwright.recommend.ratings.neighbors import ItemKNN, UserSimilarity

N_USERS, N_ITEMS = 25, 14


@pytest.fixture(scope="module")
def ratings() -> Ratings:
    return make_ratings(N_USERS, N_ITEMS, random_state=3).ratings


def tables(ratings: Ratings) -> tuple[Any, Any]:
    value, known = np.zeros((N_USERS, N_ITEMS)), np.zeros((N_USERS, N_ITEMS), bool)
    value[ratings.user, ratings.item] = ratings.value
    known[ratings.user, ratings.item] = True
    return value, known


def averages(ratings: Ratings) -> tuple[float, Any, Any]:
    """Mean, user and item biases: five rounds of shrunken means of what the other leaves."""
    value, known = tables(ratings)
    mean = value[known].mean()
    user, item = np.zeros(N_USERS), np.zeros(N_ITEMS)
    for _ in range(5):
        for i in range(N_ITEMS):
            who = known[:, i]
            item[i] = (value[who, i] - mean - user[who]).sum() / (who.sum() + 5.0)
        for u in range(N_USERS):
            what = known[u]
            user[u] = (value[u, what] - mean - item[what]).sum() / (what.sum() + 10.0)
    return mean, user, item


def scores_of(model: Any, ratings: Ratings) -> Any:
    """The scores of all items for all users."""
    table, items = RatingRows.by_user(ratings), np.arange(N_ITEMS)
    return np.array([model.scores(*table.row(u), items) for u in range(N_USERS)])


def test_item_means(ratings: Ratings) -> None:
    mean, _, item = averages(ratings)
    wanted = np.tile(mean + item, (N_USERS, 1))
    np.testing.assert_allclose(scores_of(ItemMeans().fit(ratings), ratings), wanted)


def deviations(ratings: Ratings) -> tuple[Any, Any, Any]:
    """Base scores, deviations from mean and biases, who rated what; user biases as in scoring."""
    value, known = tables(ratings)
    mean, _, item = averages(ratings)
    own = np.where(known, value - mean - item, 0.0)
    bias = own.sum(axis=1) / (known.sum(axis=1) + 10.0)
    base = mean + item + bias[:, None]
    return base, np.where(known, value - base, 0.0), known


@pytest.mark.parametrize("n_neighbors", [4, 13])
def test_item_neighbors(ratings: Ratings, n_neighbors: int) -> None:
    model = ItemKNN(n_neighbors, shrinkage=5.0, power=1.5, damping=0.1).fit(ratings)
    base, rest, known = deviations(ratings)
    mean, user, item = averages(ratings)
    table = np.where(known, tables(ratings)[0] - mean - user[:, None] - item, 0.0)
    wanted = base.copy()
    for i in range(N_ITEMS):
        similarity = np.zeros(N_ITEMS)
        for j in range(N_ITEMS):
            both = (known[:, i] & known[:, j]).sum()
            length = np.linalg.norm(table[:, i]) * np.linalg.norm(table[:, j])
            if i != j and length > 0:
                similarity[j] = max(table[:, i] @ table[:, j] / length * both / (both + 5.0), 0.0)
        similarity[np.argsort(-similarity)[n_neighbors:]] = 0.0
        weight = similarity**1.5
        wanted[:, i] += rest @ weight / (known @ weight + 0.1)
    np.testing.assert_allclose(scores_of(model, ratings), wanted, rtol=1e-9)


@pytest.mark.parametrize("n_neighbors", [5, 1000])
def test_user_similarity(ratings: Ratings, n_neighbors: int) -> None:
    model = UserSimilarity(n_neighbors, power=1.5, damping=0.1).fit(ratings)
    base, rest, known = deviations(ratings)
    mean, user, item = averages(ratings)
    table = np.where(known, tables(ratings)[0] - mean - user[:, None] - item, 0.0)
    wanted = base.copy()
    for u in range(N_USERS):
        length = np.linalg.norm(table, axis=1) * np.linalg.norm(rest[u])
        cosine = np.divide(table @ rest[u], length, out=np.zeros(N_USERS), where=length > 0)
        weight = np.clip(cosine, 0.0, 1.0) ** 1.5
        weight[np.argsort(-weight, kind="stable")[n_neighbors:]] = 0.0
        wanted[u] += weight @ table / (weight @ known + 0.1)
    np.testing.assert_allclose(scores_of(model, ratings), wanted, rtol=1e-9)


def test_user_similarity_by_pearson_is_the_correlation_algorithm(
    ratings: Ratings,
) -> None:
    options = {"power": 1.0, "damping": 0.0, "similarity": "pearson"}
    model = UserSimilarity(N_USERS, **options).fit(ratings)
    value, known = tables(ratings)
    mean = np.array([value[u, known[u]].mean() for u in range(N_USERS)])
    table = np.where(known, value - mean[:, None], 0.0)
    wanted = np.tile(mean[:, None], (1, N_ITEMS))
    for u in range(N_USERS):
        weight = np.zeros(N_USERS)
        for other in range(N_USERS):
            both = known[u] & known[other]
            length = np.linalg.norm(table[u, both]) * np.linalg.norm(table[other, both])
            weight[other] = table[u, both] @ table[other, both] / length if length > 0 else 0.0
        for item in range(N_ITEMS):
            mass = np.abs(weight[known[:, item]]).sum()
            if mass > 0:
                wanted[u, item] += weight @ table[:, item] / mass
    np.testing.assert_allclose(scores_of(model, ratings), wanted, rtol=1e-9)


def test_factors_are_the_posterior_of_a_linear_model(ratings: Ratings) -> None:
    model = MatrixFactorization(n_components=3, n_implicit=4, max_iter=3).fit(ratings)
    value, known = tables(ratings)
    rows, columns = np.triu_indices(3)
    moments = np.zeros((N_ITEMS, 3, 3))
    moments[:, rows, columns] = model.item_moments_
    moments[:, columns, rows] = model.item_moments_
    wanted = np.empty((N_USERS, N_ITEMS))
    for u in range(N_USERS):
        what = np.flatnonzero(known[u])
        n = len(what)
        total = model.implicit_.vector[what].sum(axis=0) / np.sqrt(n)
        features = np.concatenate([total, [1.0, np.log1p(n) - 5.0]])
        average = model.implicit_.average
        prior = (average + n / (n + 10.0) * (features - average)) @ model.user_coef_
        precision = np.diag(model.user_precision_) + moments[what].sum(axis=0) / model.noise_
        right = model.user_precision_ * prior
        for i in what:
            right = right + model.item_factors_[i] * (value[u, i] - model.mean_) / model.noise_
        wanted[u] = model.mean_ + model.item_factors_ @ np.linalg.solve(precision, right)
    np.testing.assert_allclose(scores_of(model, ratings), wanted, rtol=1e-7)


def test_one_sweep_updates_items_given_users_in_closed_form(ratings: Ratings) -> None:
    """A refit of one sweep: users given items, noise given both, items given users."""
    model = MatrixFactorization(n_components=2, n_implicit=3, max_iter=2).fit(ratings)
    users, items = model._sides(ratings)
    items.mean, items.moments = model.item_factors_.copy(), model.item_moments_.copy()
    items.update_prior()
    users.precision, noise = model.user_precision_.copy(), model.noise_
    before = users.prior.copy()
    error = users.update(items, noise)
    value, known = tables(ratings)
    rows, columns = np.triu_indices(2)
    moments = np.zeros((N_ITEMS, 2, 2))
    moments[:, rows, columns] = items.moments
    moments[:, columns, rows] = items.moments
    wanted, squares = np.empty((N_USERS, 2)), 0.0
    for u in range(N_USERS):
        what = known[u]
        rest = value[u, what] - model.mean_
        precision = np.diag(model.user_precision_) + moments[what].sum(axis=0) / noise
        right = model.user_precision_ * before[u] + rest @ items.mean[what] / noise
        wanted[u] = np.linalg.solve(precision, right)
        second = np.outer(wanted[u], wanted[u]) + np.linalg.inv(precision)
        # E (r - u . v)^2 = r^2 - 2 r u . v + trace(E uu' E vv')
        squares += (rest**2 - 2 * rest * (items.mean[what] @ wanted[u])).sum()
        squares += np.einsum("iab,ab->", moments[what], second)
    np.testing.assert_allclose(users.mean, wanted, rtol=1e-5, atol=1e-6)
    assert error == pytest.approx(squares, rel=1e-4)


def test_the_blend_is_mprank_on_scores_of_ratings_that_were_held_out(ratings: Ratings) -> None:
    model = Blend(random_state=4).fit(ratings)
    fold = (np.random.default_rng(4).random(len(ratings)) / blend.SHARE).astype(int)
    n_folds = min(round(1 / blend.SHARE), int(np.ceil(blend.ENOUGH / (blend.SHARE * len(ratings)))))
    features = np.zeros((len(ratings), 4))
    experts: list[Any] = [kind() for kind in blend.MODELS]
    experts[-1].set_params(random_state=4)
    for number in range(n_folds):
        train = ratings.take(fold != number)
        known = RatingRows.by_user(train)
        for column, expert in enumerate(experts):
            expert.fit(train)
            for row in np.flatnonzero(fold == number):
                own, item = known.row(int(ratings.user[row])), ratings.item[row : row + 1]
                features[row, column] = expert.scores(*own, item)[0]
    used = fold < n_folds
    wanted = MPRank(C=1e6).fit(features[used], ratings.value[used], qid=ratings.user[used])
    np.testing.assert_allclose(model.ranker_.coef_, wanted.coef_, rtol=1e-5, atol=1e-7)
    own = RatingRows.by_user(ratings).row(0)
    scores = np.column_stack([m.scores(*own, np.arange(N_ITEMS)) for m in model.models_])
    np.testing.assert_allclose(
        model.scores(*own, np.arange(N_ITEMS)), wanted.decision_function(scores), rtol=1e-5
    )
