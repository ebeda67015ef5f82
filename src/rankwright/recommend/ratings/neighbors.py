"""Nearest neighbors by ratings: similar items, similar users."""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np

from rankwright._typing import FloatArray, IntArray
from rankwright.data.behavior.ratings import Ratings
from rankwright.rankers import schema
from rankwright.rankers.schema import floats, integers, real
from rankwright.recommend.ratings.base import Biased, RatingRows, biases


class ItemKNN(Biased):
    """Item-based k-nearest neighbors on deviations from user and item averages.

    The predicted deviation of an item is the average of the user's deviations on its nearest
    items, weighted by a power of the cosine similarity between the deviations of two items (0 for
    users who did not rate both).

    Parameters
    ----------
    n_neighbors : number of neighbors kept for each item
    shrinkage : the similarity of items with n common users is multiplied by n / (n + shrinkage)
    power : exponent of the similarity
    damping : shrinks averages with little total similarity toward 0
    """

    _constraints: ClassVar = {
        "n_neighbors": schema.at_least(1),
        "shrinkage": schema.number(0.0),
        "power": schema.positive(),
        "damping": schema.positive(),
    }
    _learned: ClassVar = {
        "mean_": real(),
        "item_bias_": floats("n_items"),
        "neighbor_": integers("n_items", "n_kept", low=-1, high="n_items"),
        "similarity_": floats("n_items", "n_kept", low=0.0),
    }

    def __init__(
        self,
        n_neighbors: int = 300,
        shrinkage: float = 10.0,
        power: float = 2.0,
        damping: float = 0.005,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.shrinkage = shrinkage
        self.power = power
        self.damping = damping

    def fit(self, ratings: Ratings) -> Self:
        from rankwright.recommend.ratings._kernels import nearest_items

        self.mean_, user_bias, self.item_bias_ = biases(ratings)
        rest = ratings.value - self.mean_ - user_bias[ratings.user] - self.item_bias_[ratings.item]
        by_user, by_item = RatingRows.by_user(ratings, rest), RatingRows.by_item(ratings, rest)
        norm = np.sqrt(np.bincount(ratings.item, rest**2, ratings.n_items))
        norm[norm == 0] = 1.0
        width = max(1, min(self.n_neighbors, ratings.n_items - 1))
        self.neighbor_ = np.full((ratings.n_items, width), -1, dtype=np.int64)
        self.similarity_ = np.zeros((ratings.n_items, width))
        out = (self.neighbor_, self.similarity_)
        by_item.map(
            lambda block: nearest_items(by_user, by_item, norm, self.shrinkage, *block, *out)
        )
        self.similarity_ **= self.power
        return self.prepare(ratings)

    def prepare(self, ratings: Ratings) -> Self:
        """Invert the lists of neighbors: for each item, the items it is a neighbor of."""
        item, rank = np.nonzero(self.neighbor_ >= 0)
        source = self.neighbor_[item, rank]
        order = np.argsort(source, kind="stable")
        counts = np.bincount(source, minlength=ratings.n_items)
        ptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        self._inverted = RatingRows(ptr, item[order], self.similarity_[item, rank][order])
        return self

    def scores(self, rated: IntArray, value: FloatArray, items: IntArray) -> FloatArray:
        bias, n_items = self.user_bias(rated, value), len(self.item_bias_)
        deviation = value - self.mean_ - self.item_bias_[rated] - bias
        # Through the neighbors of the items, or through what was rated, whichever is less.
        if self.neighbor_[items].size < self._inverted.sizes(rated).sum():
            own, known = np.zeros(n_items), np.zeros(n_items)
            own[rated], known[rated] = deviation, 1.0
            neighbor, similarity = self.neighbor_[items], self.similarity_[items]  # padded with 0
            total = (similarity * own[neighbor]).sum(axis=1)
            mass = (similarity * known[neighbor]).sum(axis=1)
        else:
            index, item, similarity = self._inverted.rows(rated)
            total = np.bincount(item, similarity * deviation[index], n_items)[items]
            mass = np.bincount(item, similarity, n_items)[items]
        pull = np.asarray(total / (mass + self.damping), np.float64)
        return self.mean_ + bias + self.item_bias_[items] + pull


class UserSimilarity(Biased):
    """Deviations of all users, weighted by a power of their similarity to the user.

    With ``similarity="cosine"`` it is :class:`rankwright.VSIM` with every user as a feature, except
    that deviations are taken from user *and* item averages, in the cosine too, and only the most
    similar users count. With ``similarity="pearson"`` it is the correlation algorithm of GroupLens:
    deviations are from the users' mean ratings, two users are correlated over the items that both
    rated, and users with a negative correlation count with its sign:

        mean + sum over users of w * deviation / sum of |w|

    Parameters
    ----------
    n_neighbors : number of most similar users (or, by Pearson, most correlated ones of either sign)
        that count
    power : exponent of the similarity; users with a negative cosine do not count
    damping : shrinks averages with little total similarity toward 0
    similarity : "cosine" or "pearson", default "cosine"
        As printed, the correlation algorithm has ``power=1``, ``damping=0`` and counts all users.

    References
    ----------
    J. S. Breese, D. Heckerman, C. Kadie (1998), Empirical analysis of predictive algorithms for
    collaborative filtering.
    """

    _constraints: ClassVar = {
        "n_neighbors": schema.at_least(1),
        "power": schema.positive(),
        "damping": schema.number(0.0),
        "similarity": schema.one_of("cosine", "pearson"),
    }
    _learned: ClassVar = {
        "mean_": real(),
        "user_bias_": floats("n_users"),
        "item_bias_": floats("n_items"),
    }

    def __init__(
        self,
        n_neighbors: int = 1000,
        power: float = 2.0,
        damping: float = 0.02,
        similarity: str = "cosine",
    ) -> None:
        self.n_neighbors = n_neighbors
        self.power = power
        self.damping = damping
        self.similarity = similarity

    def fit(self, ratings: Ratings) -> Self:
        self.mean_, self.user_bias_, self.item_bias_ = biases(ratings)
        if self.similarity == "pearson":
            self.mean_ = float(ratings.value.mean())
            count = np.bincount(ratings.user, minlength=ratings.n_users)
            total = np.bincount(ratings.user, ratings.value - self.mean_, ratings.n_users)
            self.user_bias_ = np.asarray(total / np.maximum(count, 1))
            self.item_bias_ = np.zeros(ratings.n_items)
        return self.prepare(ratings)

    def prepare(self, ratings: Ratings) -> Self:
        """Group the deviations from user and item averages by user and by item."""
        bias = self.user_bias_[ratings.user] + self.item_bias_[ratings.item]
        rest = ratings.value - self.mean_ - bias
        self._by_user, self._by_item = (
            RatingRows.by_user(ratings, rest),
            RatingRows.by_item(ratings, rest),
        )
        self._norm = np.sqrt(np.bincount(ratings.user, rest**2, ratings.n_users))
        return self

    def user_bias(self, rated: IntArray, value: FloatArray) -> float:
        if self.similarity == "pearson":
            return float(value.mean()) - self.mean_ if len(value) else 0.0
        return super().user_bias(rated, value)

    def scores(self, rated: IntArray, value: FloatArray, items: IntArray) -> FloatArray:
        similarity = self.similarities(rated, value)
        weight = np.abs(similarity) ** self.power
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
        signed = counts * np.sign(similarity)
        total = np.bincount(item, signed[user] * deviation, n_items)[columns]
        mass = np.bincount(item, counts[user], n_items)[columns]
        pull = np.divide(total, mass + self.damping, out=np.zeros(len(items)), where=mass > 0)
        return np.asarray(self.mean_ + self.user_bias(rated, value) + self.item_bias_[items] + pull)

    def similarities(self, rated: IntArray, value: FloatArray) -> FloatArray:
        """The similarity of every user and a user with these ratings; cosines are 0 or more."""
        own = value - self.mean_ - self.item_bias_[rated] - self.user_bias(rated, value)
        index, user, deviation = self._by_item.rows(rated)
        product = np.bincount(user, own[index] * deviation, len(self._norm))
        if self.similarity == "pearson":  # lengths over the items that both rated
            mine = np.bincount(user, own[index] ** 2, len(self._norm))
            theirs = np.bincount(user, deviation**2, len(self._norm))
            length, lowest = np.sqrt(mine * theirs), -1.0
        else:
            length, lowest = self._norm * np.sqrt(own @ own), 0.0
        share = np.divide(product, length, out=np.zeros(len(length)), where=length > 0)
        return np.asarray(np.clip(share, lowest, 1.0))
