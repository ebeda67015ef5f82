"""Items and users as vectors: a Gaussian factor model whose uncertainty is kept."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import FloatArray, IntArray
from rankwright.data.ratings import Ratings
from rankwright.exceptions import DataError
from rankwright.parallel import map_blocks
from rankwright.rankers import schema
from rankwright.rankers.schema import Holds, floats, real
from rankwright.recommend.models.base import Expert, Table, blocks_of

# Of the randomized search for singular vectors.
OVERSAMPLING = 20
N_ITERATIONS = 6


@dataclass(frozen=True, eq=False)
class Tastes:
    """What the choice of items says about somebody, whoever it is.

    A user is described by the sum of the chosen items' vectors over the root of their number, the
    logarithm of that number, and a constant. A few choices say little: with n ratings,
    n / (n + ``damping``) of the way from the average user is gone.

    Parameters
    ----------
    vector : (n_items, n_tastes) array
    average : (n_tastes + 2,) array, what describes the average user
    damping : float > 0
    """

    vector: FloatArray
    average: FloatArray
    damping: float

    def __post_init__(self) -> None:
        kinds = all(isinstance(each, np.ndarray) for each in (self.vector, self.average))
        if not kinds or self.vector.ndim != 2 or self.average.shape != (self.vector.shape[1] + 2,):
            raise DataError("tastes: vectors and average do not fit together.")
        numbers = np.concatenate([self.vector.ravel(), self.average, [self.damping]])
        if numbers.dtype.kind != "f" or not np.isfinite(numbers).all() or not self.damping > 0:
            raise DataError("tastes: every value must be a finite number, damping one above 0.")

    def describe(self, rated: IntArray) -> FloatArray:
        """The numbers that describe somebody who rated these items."""
        n = np.array([len(rated)])
        total = self.vector[rated].sum(axis=0) / np.sqrt(max(len(rated), 1))
        return np.asarray(_damped(_with_counts(total[None], n), n, self.average, self.damping)[0])


def tastes_of(
    ratings: Ratings, n_tastes: int, damping: float = 10.0, seed: int = 0
) -> tuple[Tastes, FloatArray, FloatArray]:
    """Tastes by the leading singular vectors of who rated what, and what describes users and items.

    Each entry of that matrix is 1 over the square roots of the user's and of the item's number of
    ratings. The description of a user is the one that ``describe`` gives.
    """
    users, items = ratings.user_counts, ratings.item_counts
    chosen = replace(ratings, value=1.0 / np.sqrt(users[ratings.user] * items[ratings.item]))
    left, spread, right = _svd(chosen, n_tastes, seed)
    about = _with_counts(left * np.sqrt(ratings.n_users), users)
    vector = right * np.sqrt(ratings.n_users) / spread / np.sqrt(np.maximum(items, 1))[:, None]
    tastes = Tastes(vector, about.mean(axis=0), damping)
    return (
        tastes,
        _damped(about, users, tastes.average, damping),
        _with_counts(right * np.sqrt(ratings.n_items), items),
    )


def _damped(about: FloatArray, counts: IntArray, average: FloatArray, damping: float) -> FloatArray:
    sure = (counts / (counts + damping))[:, None]
    return np.asarray(average + sure * (about - average))


def _with_counts(vectors: FloatArray, counts: IntArray) -> FloatArray:
    return np.column_stack([vectors, np.ones(len(counts)), np.log1p(counts) - 5.0])


def _svd(matrix: Ratings, rank: int, seed: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The leading singular vectors (randomized, with power iterations), zero ones left out."""
    by_user, by_item = Table.by_user(matrix), Table.by_item(matrix)
    width = min(rank + OVERSAMPLING, matrix.n_users, matrix.n_items)
    basis = np.random.default_rng(seed).normal(size=(matrix.n_items, width))
    for _ in range(N_ITERATIONS):
        basis = _orthonormal(by_item.times(by_user.times(basis)))
    left, spread, turn = np.linalg.svd(by_user.times(basis), full_matrices=False)
    kept = min(rank, int((spread > 1e-8 * spread[0]).sum()))
    return left[:, :kept], spread[:kept], basis @ turn[:kept].T


def _orthonormal(vectors: FloatArray) -> FloatArray:
    """An orthonormal basis of the space of some columns that are far from dependent or are zero.

    By way of their products: ten times faster than QR on tall matrices. Its loss of digits does not
    matter between two steps of a power iteration, whose columns have been orthogonal one step ago.
    """
    size, turn = np.linalg.eigh(vectors.T @ vectors)
    kept = size > 1e-12 * size[-1]
    return np.asarray(vectors @ (turn[:, kept] / np.sqrt(size[kept])))


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
    max_iter : sweeps over users and items
    damping : of tastes, how many ratings it takes until a user's choices count half
    ridge : pulls the dependence of vectors on choices toward none
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

    _constraints: ClassVar = {
        "n_components": schema.at_least(1),
        "n_tastes": schema.at_least(1),
        "max_iter": schema.at_least(1),
        "damping": schema.positive(),
        "ridge": schema.positive(),
        "seed": schema.at_least(0),
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
        max_iter: int = 20,
        damping: float = 10.0,
        ridge: float = 30.0,
        seed: int = 0,
    ) -> None:
        self.n_components = n_components
        self.n_tastes = n_tastes
        self.max_iter = max_iter
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
        return self._sweep(users, items, noise, self.max_iter - 1)

    def refit(self, ratings: Ratings) -> Self:
        """Learn anew; from item vectors that are known a few sweeps are enough."""
        users, items = self._sides(ratings)
        items.mean, items.moments = self.item_.copy(), self.moments_.copy()
        items.variance = _diagonal(self.moments_, self.n_components) - self.item_**2
        items.update_prior()
        users.precision = self.precision_
        return self._sweep(users, items, self.noise_, min(N_AGAIN, self.max_iter))

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

    def _sweep(self, users: _Side, items: _Side, noise: float, max_iter: int) -> Self:
        """Users given items, noise given both, items given users; again and again."""
        # Never without any noise: a set that fits exactly must not divide by zero.
        least = 1e-4 * max(float(users.table.value.std()), 1e-6) ** 2
        for _ in range(max_iter):
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
