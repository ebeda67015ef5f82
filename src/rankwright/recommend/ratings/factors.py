"""Bayesian matrix factorization with implicit features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import FloatArray, IntArray
from rankwright.data.behavior.ratings import Ratings
from rankwright.exceptions import DataError
from rankwright.rankers import schema
from rankwright.rankers.schema import Holds, floats, floats32, real
from rankwright.recommend.ratings.base import RatingModel, RatingRows

OVERSAMPLING, N_ITERATIONS = 20, 6  # of the randomized singular value decomposition
N_REFIT = 5  # sweeps of a refit
TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, eq=False)
class ImplicitFeatures:
    """Features of a user from which items the user rated, whatever the ratings were.

    The features are the sum of the vectors of the rated items over the square root of their
    number, a constant, and the logarithm of the number. They are shrunk toward the average user:
    a user with n ratings moves n / (n + ``damping``) of the way.
    """

    vector: FloatArray  # (n_items, n_implicit)
    average: FloatArray  # (n_implicit + 2,) features of the average user
    damping: float  # > 0

    def __post_init__(self) -> None:
        arrays = all(isinstance(array, np.ndarray) for array in (self.vector, self.average))
        if not arrays or self.vector.ndim != 2 or self.average.shape != (self.vector.shape[1] + 2,):
            raise DataError(
                "implicit features: vector must have shape (n_items, n) and average (n + 2,)."
            )
        numbers = np.concatenate([self.vector.ravel(), self.average, [self.damping]])
        if numbers.dtype.kind != "f" or not np.isfinite(numbers).all() or not self.damping > 0:
            raise DataError(
                "implicit features: a value is not a finite number, or damping is not above 0."
            )

    @classmethod
    def fit(
        cls, ratings: Ratings, n_implicit: int, damping: float = 10.0, seed: int = 0
    ) -> tuple[ImplicitFeatures, FloatArray, FloatArray]:
        """Learn them from the leading singular vectors of the matrix of who rated what.

        Its entries are 1 over the root of the user's times the item's number of ratings. Returns
        also the features of all users, as ``describe`` gives them, and those of all items.
        """
        users, items = ratings.user_counts, ratings.item_counts
        value = 1.0 / np.sqrt(users[ratings.user] * items[ratings.item])
        left, singular, right = _svd(ratings, value, n_implicit, seed)
        features = _with_counts(left * np.sqrt(ratings.n_users), users)
        vector = right * np.sqrt(ratings.n_users) / singular
        vector /= np.sqrt(np.maximum(items, 1))[:, None]
        implicit = cls(vector, features.mean(axis=0), damping)
        of_items = _with_counts(right * np.sqrt(ratings.n_items), items)
        return implicit, implicit._shrunk(features, users), of_items

    def describe(self, rated: IntArray) -> FloatArray:
        """The features of a user who rated these items."""
        n = np.array([len(rated)])
        total = self.vector[rated].sum(axis=0) / np.sqrt(max(len(rated), 1))
        return np.asarray(self._shrunk(_with_counts(total[None], n), n)[0])

    def _shrunk(self, features: FloatArray, counts: IntArray) -> FloatArray:
        weight = (counts / (counts + self.damping))[:, None]
        return np.asarray(self.average + weight * (features - self.average))


def _with_counts(vectors: FloatArray, counts: IntArray) -> FloatArray:
    return np.column_stack([vectors, np.ones(len(counts)), np.log1p(counts) - 5.0])


def _svd(
    ratings: Ratings, value: FloatArray, rank: int, seed: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The leading nonzero singular vectors and values (randomized, with power iterations)."""
    by_user, by_item = RatingRows.by_user(ratings, value), RatingRows.by_item(ratings, value)
    width = min(rank + OVERSAMPLING, ratings.n_users, ratings.n_items)
    basis = np.random.default_rng(seed).normal(size=(ratings.n_items, width))
    for _ in range(N_ITERATIONS):
        vectors = by_item.times(by_user.times(basis))
        # An orthonormal basis from the Gram matrix: ten times faster than QR on tall matrices. The
        # digits it loses do not matter, as the columns were orthogonal one iteration before.
        size, axes = np.linalg.eigh(vectors.T @ vectors)
        kept = size > 1e-12 * size[-1]
        basis = vectors @ (axes[:, kept] / np.sqrt(size[kept]))
    left, singular, right = np.linalg.svd(by_user.times(basis), full_matrices=False)
    rank = min(rank, int((singular > 1e-8 * singular[0]).sum()))
    return left[:, :rank], singular[:rank], basis @ right[:rank].T


class MatrixFactorization(RatingModel):
    r"""Ratings as products of a user's and an item's vector, :math:`r_{ui} = \mu + u \cdot v_i`.

    Every vector has a Gaussian posterior (variational Bayes, each update in closed form). The noise
    and the prior variance of each component are learned, so the number of components is all there
    is to tune. Given the item vectors, scoring is kernel ridge regression on the user's own ratings
    (MPRank with the kernel :math:`v_i \cdot v_j`): a new user costs one small linear system.

    Which items a user rated is informative by itself. The prior mean of a user's vector is a linear
    function of :class:`ImplicitFeatures`, that of an item's vector of who rated it. On MovieLens 1M
    this matters more than all other refinements.

    Parameters
    ----------
    n_components : length of the vectors
    n_implicit : number of implicit features
    max_iter : sweeps over users and items
    damping : number of ratings at which the implicit features of a user count half
    ridge : penalty of the regression of vectors on implicit features
    random_state : seed of the random start

    Attributes
    ----------
    mean_, noise_ : mean of all ratings, and variance of a rating around its prediction
    item_factors_ : (n_items, n_components) posterior mean of the item vectors
    item_moments_ : (n_items, n_components * (n_components + 1) / 2) float32
        Their second moments, mean mean' + covariance, upper triangles row by row.
    user_precision_ : (n_components,) prior precision of the components of a user's vector
    user_coef_ : (n_implicit + 2, n_components) of its prior mean on the implicit features
    implicit_ : ImplicitFeatures
    """

    _constraints: ClassVar = {
        "n_components": schema.at_least(1),
        "n_implicit": schema.at_least(1),
        "max_iter": schema.at_least(1),
        "damping": schema.positive(),
        "ridge": schema.positive(),
        "random_state": schema.at_least(0),
    }
    _learned: ClassVar = {
        "mean_": real(),
        "noise_": real(low=TINY),
        "item_factors_": floats("n_items", "n_components"),
        "item_moments_": floats32("n_items", "n_moments"),
        "user_precision_": floats("n_components", low=TINY),
        "user_coef_": floats("n_features", "n_components"),
        "implicit_": Holds((ImplicitFeatures,)),
    }

    def __init__(
        self,
        n_components: int = 24,
        n_implicit: int = 100,
        max_iter: int = 20,
        damping: float = 10.0,
        ridge: float = 30.0,
        random_state: int = 0,
    ) -> None:
        self.n_components = n_components
        self.n_implicit = n_implicit
        self.max_iter = max_iter
        self.damping = damping
        self.ridge = ridge
        self.random_state = random_state

    def fit(self, ratings: Ratings) -> Self:
        users, items = self._sides(ratings)
        spread = max(float(ratings.value.std()), 1e-6)
        rng = np.random.default_rng(self.random_state)
        items.mean = rng.normal(0.0, 0.1 * spread, items.mean.shape)
        items.mean[:, 0] = spread  # a component that all items share: the bias of a user
        items.variance[:] = 0.01 * spread**2
        row, column = np.triu_indices(self.n_components)
        moments = items.mean[:, row] * items.mean[:, column]
        moments += items.variance[:, row] * (row == column)
        items.moments = np.ascontiguousarray(moments, np.float32)  # by rows, as the kernel reads
        items.precision = np.full(self.n_components, 10.0 / spread**2)
        noise = 0.6 * spread**2
        users.update(items, noise)
        items.update(users, noise)
        return self._sweep(users, items, noise, self.max_iter - 1)

    def refit(self, ratings: Ratings) -> Self:
        """Fit with a few sweeps that start from the present item vectors."""
        users, items = self._sides(ratings)
        items.mean, items.moments = self.item_factors_.copy(), self.item_moments_.copy()
        diagonal = self.item_moments_[:, np.equal(*np.triu_indices(self.n_components))]
        items.variance = np.asarray(diagonal, np.float64) - self.item_factors_**2
        items.update_prior()
        users.precision = self.user_precision_
        return self._sweep(users, items, self.noise_, min(N_REFIT, self.max_iter))

    def scores(self, rated: IntArray, value: FloatArray, items: IntArray) -> FloatArray:
        return np.asarray(self.mean_ + self.item_factors_[items] @ self.vector(rated, value))

    def vector(self, rated: IntArray, value: FloatArray) -> FloatArray:
        """The posterior mean of the vector of a user with these ratings."""
        prior = self.implicit_.describe(rated) @ self.user_coef_
        right = (value - self.mean_) @ self.item_factors_[rated] / self.noise_
        right += self.user_precision_ * prior
        return np.asarray(np.linalg.solve(self._system(rated), right))

    def contributions(self, rated: IntArray, value: FloatArray, item: int) -> FloatArray:
        """What each rating adds to the score of one item; the prior adds the rest."""
        pull = np.linalg.solve(self._system(rated), self.item_factors_[item])
        return np.asarray((self.item_factors_[rated] @ pull) * (value - self.mean_) / self.noise_)

    def _system(self, rated: IntArray) -> FloatArray:
        """The posterior precision of the vector of a user who rated these items."""
        total = self.item_moments_[rated].sum(axis=0, dtype=np.float64)
        system = _unpacked(total, self.n_components) / self.noise_
        system[np.diag_indices(self.n_components)] += self.user_precision_
        return system

    def check_sizes(self, ratings: Ratings, **sizes: int) -> None:
        d, vectors = self.n_components, self.implicit_.vector
        own = {"n_components": d, "n_moments": d * (d + 1) // 2}
        super().check_sizes(ratings, n_features=len(self.implicit_.average), **own)
        if len(vectors) != ratings.n_items:
            n = ratings.n_items
            raise DataError(f"implicit_ has vectors of {len(vectors)} items; the ratings have {n}.")
        # Positive semidefinite up to rounding: then the system of every user has a solution.
        rounding = 1e-5 * max(float(np.abs(self.item_moments_).max(initial=0.0)), TINY)
        try:
            np.linalg.cholesky(_unpacked(self.item_moments_, d) + rounding * np.eye(d))
        except np.linalg.LinAlgError:
            raise DataError("item_moments_: a matrix is not positive semidefinite.") from None

    def _sides(self, ratings: Ratings) -> tuple[_Side, _Side]:
        self.mean_ = float(ratings.value.mean())
        options = (self.n_implicit, self.damping, self.random_state)
        self.implicit_, users, items = ImplicitFeatures.fit(ratings, *options)
        rest = ratings.value - self.mean_
        return (
            _Side(RatingRows.by_user(ratings, rest), users, self.ridge, self.n_components),
            _Side(RatingRows.by_item(ratings, rest), items, self.ridge, self.n_components),
        )

    def _sweep(self, users: _Side, items: _Side, noise: float, max_iter: int) -> Self:
        """Alternate updates: users given items, noise given both, items given users."""
        # Above 0, because data that fit exactly would lead to a division by zero.
        least = 1e-4 * max(float(users.table.value.std()), 1e-6) ** 2
        for _ in range(max_iter):
            noise = max(users.update(items, noise) / len(users.table.value), least)
            items.update(users, noise)
        self.noise_, self.item_factors_, self.item_moments_ = noise, items.mean, items.moments
        self.user_precision_, self.user_coef_ = users.precision, users.coef
        return self


class _Side:
    """Users or items: their ratings, and the Gaussian posterior of their vectors."""

    def __init__(self, table: RatingRows, features: FloatArray, ridge: float, d: int) -> None:
        n, n_features = features.shape
        self.table, self.features = table, features
        gram = features.T @ features + ridge * np.eye(n_features)
        self.regression = np.linalg.solve(gram, features.T)
        self.mean, self.variance, self.prior = (np.zeros((n, d)) for _ in range(3))
        self.moments = np.zeros((n, d * (d + 1) // 2), np.float32)
        self.precision, self.coef = np.ones(d), np.zeros((n_features, d))

    def update(self, others: _Side, noise: float) -> float:
        """Update the posterior given the other side, then the prior; returns the squared error."""
        from rankwright.recommend.ratings._kernels import Posterior, Prior, update_factors

        given, out = (Posterior(s.mean, s.moments, s.variance) for s in (others, self))
        prior, error = Prior(self.prior, self.precision), np.zeros(len(self.mean))
        self.table.map(
            lambda block: update_factors(self.table, given, prior, noise, *block, out, error)
        )
        self.update_prior()
        return float(error.sum())

    def update_prior(self) -> None:
        """Prior means by regression on the implicit features, precisions by what is left."""
        self.coef = self.regression @ self.mean
        self.prior = self.features @ self.coef
        variance = ((self.mean - self.prior) ** 2).sum(axis=0) + self.variance.sum(axis=0)
        self.precision = len(self.mean) / np.maximum(variance, 1e-9 * len(self.mean))


def _unpacked(packed: NDArray[Any], d: int) -> FloatArray:
    """Symmetric matrices (..., d, d) from their upper triangles (..., d (d + 1) / 2)."""
    matrices = np.zeros((*packed.shape[:-1], d, d))
    rows, columns = np.triu_indices(d)
    matrices[..., rows, columns] = packed
    matrices[..., columns, rows] = packed
    return matrices
