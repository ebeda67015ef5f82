"""What somebody chose to rate, described in a few numbers; the values of ratings stay unread."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rankwright.data.ratings import Ratings
from rankwright.exceptions import DataError
from rankwright.recommend.experts.base import FloatArray, IntArray, Table

__all__ = ["Tastes", "tastes_of"]

# Of the randomised search for singular vectors.
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
    """The leading singular vectors (randomised, with power iterations), zero ones left out."""
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
