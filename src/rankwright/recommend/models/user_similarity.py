"""User-based neighbors: vector similarity over all users at once."""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np

from rankwright._typing import FloatArray, IntArray
from rankwright.data.behavior.ratings import Ratings
from rankwright.rankers import schema
from rankwright.rankers.schema import floats, real
from rankwright.recommend.models.base import Table
from rankwright.recommend.models.popularity import Biased, biases


class UserSimilarity(Biased):
    """Deviations of all users, weighted by a power of their cosine similarity to the user.

    As :class:`rankwright.VSIM` with every user as a feature, except that deviations are taken from
    user *and* item averages, in the cosine too, and only the most similar users count.

    Parameters
    ----------
    n_neighbors : number of most similar users that count
    power : exponent of the cosine; users with a negative cosine do not count
    damping : shrinks averages with little total similarity toward 0
    """

    _constraints: ClassVar = {
        "n_neighbors": schema.at_least(1),
        "power": schema.positive(),
        "damping": schema.positive(),
    }
    _learned: ClassVar = {
        "mean_": real(),
        "user_bias_": floats("n_users"),
        "item_bias_": floats("n_items"),
    }

    def __init__(self, n_neighbors: int = 1000, power: float = 2.0, damping: float = 0.02) -> None:
        self.n_neighbors = n_neighbors
        self.power = power
        self.damping = damping

    def fit(self, ratings: Ratings) -> Self:
        self.mean_, self.user_bias_, self.item_bias_ = biases(ratings)
        return self.prepare(ratings)

    def prepare(self, ratings: Ratings) -> Self:
        """Group the deviations from user and item averages by user and by item."""
        bias = self.user_bias_[ratings.user] + self.item_bias_[ratings.item]
        rest = ratings.value - self.mean_ - bias
        self._by_user, self._by_item = Table.by_user(ratings, rest), Table.by_item(ratings, rest)
        self._norm = np.sqrt(np.bincount(ratings.user, rest**2, ratings.n_users))
        return self

    def scores(self, rated: IntArray, value: FloatArray, items: IntArray) -> FloatArray:
        weight = self.similarity(rated, value) ** self.power
        neighbors = np.argsort(-weight, kind="stable")[: self.n_neighbors]
        neighbors = neighbors[weight[neighbors] > 0]
        counts = np.zeros(len(weight))
        counts[neighbors] = weight[neighbors]
        # Through who rated the items, or through what the neighbors rated, whichever is less.
        if self._by_item.sizes(items).sum() < self._by_user.sizes(neighbors).sum():
            item, user, deviation = self._by_item.rows(items)
            columns, n_items = np.arange(len(items)), len(items)
        else:
            index, item, deviation = self._by_user.rows(neighbors)
            user, columns, n_items = neighbors[index], items, len(self.item_bias_)
        total = np.bincount(item, counts[user] * deviation, n_items)[columns]
        mass = np.bincount(item, counts[user], n_items)[columns]
        pull = np.asarray(total / (mass + self.damping), np.float64)
        return self.mean_ + self.user_bias(rated, value) + self.item_bias_[items] + pull

    def similarity(self, rated: IntArray, value: FloatArray) -> FloatArray:
        """The cosine of every user and a user with these ratings, 0 if it is negative."""
        own = value - self.mean_ - self.item_bias_[rated] - self.user_bias(rated, value)
        index, user, deviation = self._by_item.rows(rated)
        product = np.bincount(user, own[index] * deviation, len(self._norm))
        length = self._norm * np.sqrt(own @ own)
        cosine = np.divide(product, length, out=np.zeros(len(length)), where=length > 0)
        return np.asarray(np.clip(cosine, 0.0, 1.0))
