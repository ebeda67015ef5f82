"""Items and users as vectors: a Gaussian factor model whose uncertainty is kept."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from rankwright.data.ratings import Ratings
from rankwright.exceptions import DataError
from rankwright.parallel import map_blocks
from rankwright.rankers import rules
from rankwright.rankers.learned import Holds, floats, real
from rankwright.recommend.experts.base import Expert, FloatArray, IntArray, Table, blocks_of
from rankwright.recommend.experts.tastes import Tastes, tastes_of

__all__ = ["Factors"]

N_AGAIN = 5  # sweeps of a refit
TINY = float(np.finfo(np.float64).tiny)


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
    damping : of tastes, how many ratings it takes until a user's choices count half
    ridge : pulls the dependence of vectors on choices towards none
    seed : of the random start

    Attributes
    ----------
    mean_ : float
        The mean of all ratings.
    noise_ : float
        Variance of a rating around its prediction.
    item_ : (n_items, n_components) array
        Posterior mean of the item vectors.
    moments_ : (n_items, n_components * (n_components + 1) / 2) float32 array
        Their second moments, mean mean' + covariance, upper triangles row by row.
    precision_ : (n_components,) array
        Prior precision of the components of a user's vector.
    choice_ : (n_tastes + 2, n_components) array
        Its prior mean, as coefficients on what describes the user's choices.
    tastes_ : Tastes
    """

    _rules: ClassVar = {
        "n_components": rules.at_least(1),
        "n_tastes": rules.at_least(1),
        "n_passes": rules.at_least(1),
        "damping": rules.positive(),
        "ridge": rules.positive(),
        "seed": rules.at_least(0),
    }
    _learned: ClassVar = {
        "mean_": real(),
        "noise_": real(low=TINY),
        "item_": floats("n_items", "n_components"),
        "moments_": floats("n_items", "width"),
        "precision_": floats("n_components", low=TINY),
        "choice_": floats("about", "n_components"),
        "tastes_": Holds((Tastes,)),
    }

    def __init__(
        self,
        n_components: int = 24,
        n_tastes: int = 100,
        n_passes: int = 20,
        damping: float = 10.0,
        ridge: float = 30.0,
        seed: int = 0,
    ) -> None:
        self.n_components = n_components
        self.n_tastes = n_tastes
        self.n_passes = n_passes
        self.damping = damping
        self.ridge = ridge
        self.seed = seed

    def fit(self, ratings: Ratings) -> Self:
        users, items = self._sides(ratings)
        spread = max(float(ratings.value.std()), 1e-6)
        items.mean = np.random.default_rng(self.seed).normal(0.0, 0.1 * spread, items.mean.shape)
        items.mean[:, 0] = spread  # a component that all items share: the user's generosity
        items.variance[:] = 0.01 * spread**2
        items.moments = _moments(items.mean, items.variance)
        items.precision = np.full(self.n_components, 10.0 / spread**2)
        noise = 0.6 * spread**2
        users.update(items, noise)
        items.update(users, noise)
        return self._sweep(users, items, noise, self.n_passes - 1)

    def refit(self, ratings: Ratings) -> Self:
        """Learn anew; from item vectors that are known a few sweeps are enough."""
        users, items = self._sides(ratings)
        items.mean, items.moments = self.item_.copy(), self.moments_.copy()
        items.variance = _diagonal(self.moments_, self.n_components) - self.item_**2
        items.update_prior()
        users.precision = self.precision_
        return self._sweep(users, items, self.noise_, min(N_AGAIN, self.n_passes))

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
        total = self.moments_[rated].sum(axis=0, dtype=np.float64)
        system = _unpacked(total, self.n_components) / self.noise_
        system[np.diag_indices(self.n_components)] += self.precision_
        return system, self.tastes_.describe(rated) @ self.choice_

    def check_sizes(self, ratings: Ratings) -> None:
        super().check_sizes(ratings)
        d, about = self.n_components, len(self.tastes_.average)
        shapes = [self.item_.shape[1], self.moments_.shape[1], len(self.choice_)]
        if shapes != [d, d * (d + 1) // 2, about] or len(self.tastes_.vector) != ratings.n_items:
            raise DataError("the arrays of the factors do not fit together.")
        # Positive semidefinite but for rounding: then every user's system has a solution.
        rounding = 1e-5 * max(float(np.abs(self.moments_).max(initial=0.0)), TINY)
        try:
            np.linalg.cholesky(_unpacked(self.moments_, d) + rounding * np.eye(d))
        except np.linalg.LinAlgError:
            raise DataError("moments_ are not second moments.") from None

    def _sides(self, ratings: Ratings) -> tuple[_Side, _Side]:
        self.mean_ = float(ratings.value.mean())
        self.tastes_, users, items = tastes_of(ratings, self.n_tastes, self.damping, self.seed)
        rest = replace(ratings, value=ratings.value - self.mean_)
        return (
            _Side(Table.by_user(rest), users, self.ridge, self.n_components),
            _Side(Table.by_item(rest), items, self.ridge, self.n_components),
        )

    def _sweep(self, users: _Side, items: _Side, noise: float, n_passes: int) -> Self:
        """Users given items, noise given both, items given users; again and again."""
        # Never without any noise: a set that fits exactly must not divide by zero.
        least = 1e-4 * max(float(users.table.value.std()), 1e-6) ** 2
        for _ in range(n_passes):
            noise = max(users.update(items, noise) / len(users.table.value), least)
            items.update(users, noise)
        self.noise_, self.item_, self.moments_ = noise, items.mean, items.moments
        self.precision_, self.choice_ = users.precision, users.coef
        return self


class _Side:
    """Users or items: their ratings, and the Gaussian posterior of their vectors."""

    def __init__(self, table: Table, about: FloatArray, ridge: float, n_components: int) -> None:
        n, width = table.n_rows, n_components * (n_components + 1) // 2
        self.table, self.about = table, about
        gram = about.T @ about + ridge * np.eye(about.shape[1])
        self.regression = np.linalg.solve(gram, about.T)
        self.mean: FloatArray = np.zeros((n, n_components))
        self.variance: FloatArray = np.zeros((n, n_components))
        self.moments: NDArray[np.float32] = np.zeros((n, width), np.float32)
        self.prior = np.zeros((n, n_components))
        self.precision = np.ones(n_components)
        self.coef: FloatArray = np.zeros((about.shape[1], n_components))
        self.error = np.zeros(n)

    def update(self, others: _Side, noise: float) -> float:
        """The posterior given the other side, then the prior given that; the squared error."""
        from rankwright.recommend import _kernels

        ratings = (self.table.ptr, self.table.other, self.table.value)
        theirs = (others.mean, others.moments)
        out = (self.mean, self.moments, self.variance, self.error)
        map_blocks(
            lambda block: _kernels.update_factors(
                *ratings, *theirs, *block, self.prior, self.precision, noise, *out
            ),
            blocks_of(self.table.ptr),
        )
        self.update_prior()
        return float(self.error.sum())

    def update_prior(self) -> None:
        """Prior means by regression on what describes the choices, precisions by what is left."""
        self.coef = self.regression @ self.mean
        self.prior = self.about @ self.coef
        variance = ((self.mean - self.prior) ** 2).sum(axis=0)
        variance += self.variance.sum(axis=0)
        self.precision = len(self.mean) / np.maximum(variance, 1e-9 * len(self.mean))


def _moments(mean: FloatArray, variance: FloatArray) -> NDArray[np.float32]:
    """Second moments of independent components, packed as their upper triangles."""
    rows, columns = np.triu_indices(mean.shape[1])
    moments = mean[:, rows] * mean[:, columns] + variance[:, rows] * (rows == columns)
    # NumPy lays out such picks by columns; the kernel reads rows.
    return np.ascontiguousarray(moments, np.float32)


def _diagonal(packed: NDArray[Any], d: int) -> FloatArray:
    return np.asarray(packed[..., np.equal(*np.triu_indices(d))], np.float64)


def _unpacked(packed: NDArray[Any], d: int) -> FloatArray:
    """Symmetric matrices (..., d, d) of their upper triangles (..., d (d + 1) / 2)."""
    upper = np.zeros((*packed.shape[:-1], d, d))
    rows, columns = np.triu_indices(d)
    upper[..., rows, columns] = packed
    upper[..., columns, rows] = packed
    return upper
