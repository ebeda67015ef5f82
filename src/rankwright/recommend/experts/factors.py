"""Items and users as vectors: a Gaussian factor model whose uncertainty is kept."""

from __future__ import annotations

from typing import Self

import numpy as np

from rankwright.data.ratings import Ratings
from rankwright.parallel import map_blocks
from rankwright.recommend.experts.base import Expert, FloatArray, IntArray, Table, blocks_of
from rankwright.recommend.experts.tastes import Tastes

__all__ = ["Factors"]


class Factors(Expert):
    r"""Ratings as products of a user's and an item's vector, :math:`r_{ui} = \mu + u \cdot v_i`.

    Both sides are uncertain: each vector has a Gaussian posterior (variational Bayes, every
    update in closed form), the noise and the spread of each component are learned, so there is
    nothing to tune but the number of components. Given the item vectors, the score of a user is
    kernel ridge regression on the user's own ratings, i.e. MPRank with the item kernel
    :math:`v_i \cdot v_j`; that is why somebody new costs one small linear system.

    What a user chose to rate says something before any rating is read: the prior mean of a user's
    vector is a linear function of the :class:`Tastes` of the chosen items, that of an item's vector
    of who rated it. On MovieLens 1M this is worth more than all other refinements.

    Parameters
    ----------
    n_components : length of the vectors
    n_tastes : number of directions in which choices are described
    n_passes : sweeps over users and items
    seed : of the random start

    Attributes
    ----------
    item_ : (n_items, n_components) array
        Posterior mean of the item vectors.
    noise_ : float
        Variance of a rating around its prediction.
    """

    def __init__(
        self, n_components: int = 24, n_tastes: int = 100, n_passes: int = 20, seed: int = 0
    ) -> None:
        self.n_components = n_components
        self.n_tastes = n_tastes
        self.n_passes = n_passes
        self.seed = seed

    def fit(self, ratings: Ratings) -> Self:
        self.mean_ = float(ratings.value.mean())
        spread = max(float(ratings.value.std()), 1e-6)
        self.tastes_ = Tastes(self.n_tastes, self.seed).fit(ratings)
        users = _Side(Table.by_user(ratings), self.mean_, self.tastes_.user_, self.n_components)
        items = _Side(Table.by_item(ratings), self.mean_, self.tastes_.item_, self.n_components)
        items.start(np.random.default_rng(self.seed), spread)
        noise = 0.6 * spread**2
        for number in range(self.n_passes):
            error = users.update(items, noise)
            if number > 0:
                # Never without any noise: a set that fits exactly must not divide by zero.
                noise = max(error / len(ratings), 1e-4 * spread**2)
            items.update(users, noise)
        self.noise_ = noise
        self.item_, self._moments = items.mean, items.moments()
        self.precision_, self.choice_ = users.precision, users.coef
        return self

    def scores(self, rated: IntArray, value: FloatArray, wanted: IntArray) -> FloatArray:
        return np.asarray(self.mean_ + self.item_[wanted] @ self.vector(rated, value))

    def vector(self, rated: IntArray, value: FloatArray) -> FloatArray:
        """The posterior mean of the vector of somebody with these ratings."""
        system, prior = self._system(rated)
        right = (value - self.mean_) @ self.item_[rated] / self.noise_ + self.precision_ * prior
        return np.asarray(np.linalg.solve(system, right))

    def reasons(self, rated: IntArray, value: FloatArray, wanted: int) -> FloatArray:
        """What each rating contributes to the score of one item; the rest is the prior's."""
        system, _ = self._system(rated)
        pull = np.linalg.solve(system, self.item_[wanted])
        return np.asarray((self.item_[rated] @ pull) * (value - self.mean_) / self.noise_)

    def _system(self, rated: IntArray) -> tuple[FloatArray, FloatArray]:
        d = self.item_.shape[1]
        system = np.zeros((d, d))
        system[np.triu_indices(d)] = (
            self._moments[rated].sum(axis=0, dtype=np.float64) / self.noise_
        )
        system = system + np.triu(system, 1).T
        system[np.diag_indices(d)] += self.precision_
        return system, self.tastes_.describe(rated) @ self.choice_


class _Side:
    """Users or items: ratings, and the Gaussian posterior of their vectors."""

    ridge = 30.0

    def __init__(self, table: Table, mean: float, about: FloatArray, n_components: int) -> None:
        n, width = table.n_rows, n_components * (n_components + 1) // 2
        self.table, self.rest, self.about = table, table.value - mean, about
        gram = about.T @ about + self.ridge * np.eye(about.shape[1])
        self.fitting = np.linalg.solve(
            gram, about.T
        )  # times means: their coefficients on ``about``
        self.mean, self.covariance = np.zeros((n, n_components)), np.zeros((n, width))
        self.diagonal = np.flatnonzero(np.equal(*np.triu_indices(n_components)))
        self.prior = np.zeros((n, n_components))
        self.precision = np.ones(n_components)
        self.coef: FloatArray = np.zeros((about.shape[1], n_components))
        self.error = np.zeros(n)

    def start(self, rng: np.random.Generator, spread: float) -> None:
        self.mean = rng.normal(0.0, 0.1 * spread, self.mean.shape)
        self.mean[:, 0] = spread  # a component that all items share: the user's generosity
        self.covariance[:, self.diagonal] = 0.01 * spread**2
        self.precision = np.full(len(self.precision), 10.0 / spread**2)

    def moments(self) -> FloatArray:
        from rankwright.recommend import _kernels

        moments = np.empty(self.covariance.shape, np.float32)
        _kernels.pack_moments(self.mean, self.covariance, moments)
        return moments

    def update(self, others: _Side, noise: float) -> float:
        """The posterior given the other side, then the prior given that; the squared error."""
        from rankwright.recommend import _kernels

        data = (self.table.ptr, self.table.other, self.rest, others.mean, others.moments())
        out = (self.mean, self.covariance, self.error)
        map_blocks(
            lambda block: _kernels.update_factors(
                *data, *block, self.prior, self.precision, noise, *out
            ),
            blocks_of(self.table.ptr),
        )
        self._update_prior()
        return float(self.error.sum())

    def _update_prior(self) -> None:
        self.coef = self.fitting @ self.mean
        self.prior = self.about @ self.coef
        variance = ((self.mean - self.prior) ** 2).sum(axis=0)
        variance += self.covariance[:, self.diagonal].sum(axis=0)
        self.precision = len(self.mean) / np.maximum(variance, 1e-9 * len(self.mean))
