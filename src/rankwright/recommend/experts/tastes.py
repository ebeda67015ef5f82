"""What somebody chose to rate, described in a few numbers; the values of ratings stay unread."""

from __future__ import annotations

from dataclasses import replace
from typing import Self

import numpy as np

from rankwright.data.ratings import Ratings
from rankwright.recommend.experts.base import FloatArray, IntArray, Table

__all__ = ["Tastes"]

# Of the randomised search for singular vectors.
OVERSAMPLING = 20
N_ITERATIONS = 6


class Tastes:
    """The leading singular vectors of the matrix of who rated what.

    Each entry of that matrix is scaled by the square roots of the user's and of the item's number
    of ratings. A user is described by the average of the chosen items' vectors (so somebody new can
    be described too), the logarithm of the number of ratings, and a constant. A few choices say
    little: with n ratings, n / (n + ``damping``) of the way from the average user is gone.
    """

    def __init__(self, n_tastes: int = 100, seed: int = 0, damping: float = 10.0) -> None:
        self.n_tastes = n_tastes
        self.seed = seed
        self.damping = damping

    def fit(self, ratings: Ratings) -> Self:
        users, items = ratings.user_counts, ratings.item_counts
        chosen = replace(ratings, value=1.0 / np.sqrt(users[ratings.user] * items[ratings.item]))
        left, spread, right = _svd(chosen, self.n_tastes, self.seed)
        self.scale_ = np.sqrt(ratings.n_users) / spread
        self.vector_ = right / np.sqrt(np.maximum(items, 1))[:, None]
        about = _with_counts(left * np.sqrt(ratings.n_users), users)
        self.average_ = about.mean(axis=0)
        self.user_ = self._damped(about, users)
        self.item_ = _with_counts(right * np.sqrt(ratings.n_items), items)
        return self

    def describe(self, rated: IntArray) -> FloatArray:
        """The numbers that describe somebody who rated these items."""
        n = np.array([len(rated)])
        total = self.vector_[rated].sum(axis=0) / np.sqrt(max(len(rated), 1))
        return np.asarray(self._damped(_with_counts((total * self.scale_)[None], n), n)[0])

    def _damped(self, about: FloatArray, counts: IntArray) -> FloatArray:
        sure = (counts / (counts + self.damping))[:, None]
        return np.asarray(self.average_ + sure * (about - self.average_))


def _with_counts(vectors: FloatArray, counts: IntArray) -> FloatArray:
    return np.column_stack([vectors, np.ones(len(counts)), np.log1p(counts) - 5.0])


def _svd(matrix: Ratings, rank: int, seed: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The leading singular vectors (randomised, with power iterations), zero ones left out."""
    by_user, by_item = Table.by_user(matrix), Table.by_item(matrix)
    width = min(rank + OVERSAMPLING, matrix.n_users, matrix.n_items)
    basis = np.random.default_rng(seed).normal(size=(matrix.n_items, width))
    for _ in range(N_ITERATIONS):
        basis = np.linalg.qr(by_item.times(by_user.times(basis)))[0]
    left, spread, turn = np.linalg.svd(by_user.times(basis), full_matrices=False)
    kept = min(rank, int((spread > 1e-8 * spread[0]).sum()))
    return left[:, :kept], spread[:kept], basis @ turn[:kept].T
