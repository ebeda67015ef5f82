"""Items are liked by those who like similar items."""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np

from rankwright._typing import FloatArray, IntArray
from rankwright.data.ratings import Ratings
from rankwright.parallel import map_blocks
from rankwright.rankers import schema
from rankwright.rankers.schema import floats, integers, real
from rankwright.recommend.models.base import Expert, Table, blocks_of
from rankwright.recommend.models.popularity import biases


class ItemNeighbors(Expert):
    """Item-based k-nearest neighbors on deviations from user and item averages.

    The deviation of an item is the average of the user's deviations on the items most alike to it,
    weighted by likeness: the cosine of the deviations that two items got (an item that a user did
    not rate counts as 0), to a power, so that the nearest are heard most.

    Parameters
    ----------
    n_neighbors : how many similar items are kept for each item
    shrinkage : the cosine counts n / (n + shrinkage) for n common users
    power : the cosine counts to this power
    damping : pulls the average toward 0 when little likeness stands behind it
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
        from rankwright.recommend import _kernels

        self.mean_, user_bias, self.item_bias_ = biases(ratings)
        rest = ratings.value - self.mean_ - user_bias[ratings.user] - self.item_bias_[ratings.item]
        by_user, by_item = Table.by_user(ratings), Table.by_item(ratings)
        one = (by_user.ptr, by_user.other, rest[ratings.by_user.order])
        two = (by_item.ptr, by_item.other, rest[ratings.by_item.order])
        norm = np.sqrt(np.bincount(ratings.item, rest**2, ratings.n_items))
        norm[norm == 0] = 1.0
        width = max(1, min(self.n_neighbors, ratings.n_items - 1))
        self.neighbor_ = np.full((ratings.n_items, width), -1, dtype=np.int64)
        self.similarity_ = np.zeros((ratings.n_items, width))
        out = (self.neighbor_, self.similarity_)
        map_blocks(
            lambda block: _kernels.nearest_items(*one, *two, norm, *block, self.shrinkage, *out),
            blocks_of(by_item.ptr),
        )
        self.similarity_ **= self.power
        return self.ready(ratings)

    def ready(self, ratings: Ratings) -> Self:
        """Turn the lists of neighbors round: of which items is each a neighbor, and how near."""
        item, place = np.nonzero(self.neighbor_ >= 0)
        source = self.neighbor_[item, place]
        order = np.argsort(source, kind="stable")
        counts = np.bincount(source, minlength=ratings.n_items)
        ptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        self._near = Table(ptr, item[order], self.similarity_[item, place][order])
        return self

    def scores(self, rated: IntArray, value: FloatArray, wanted: IntArray) -> FloatArray:
        generosity = value - self.mean_ - self.item_bias_[rated]
        bias = float(generosity.sum()) / (len(value) + 10.0)
        total, mass = self._near_by(rated, generosity - bias, wanted)
        pull = total / (mass + self.damping)
        return np.asarray(self.mean_ + bias + self.item_bias_[wanted] + pull)

    def _near_by(
        self, rated: IntArray, deviation: FloatArray, wanted: IntArray
    ) -> tuple[FloatArray, FloatArray]:
        """Deviations on the neighbors of each wanted item, and how much likeness stands behind.

        From the items that are wanted, or from those that were rated: whichever is less.
        """
        n_items = len(self.item_bias_)
        if self.neighbor_[wanted].size < self._near.sizes[rated].sum():
            mine, known = np.zeros(n_items), np.zeros(n_items)
            mine[rated], known[rated] = deviation, 1.0
            near, likeness = (
                self.neighbor_[wanted],
                self.similarity_[wanted],
            )  # 0 where there is none
            return (likeness * mine[near]).sum(axis=1), (likeness * known[near]).sum(axis=1)
        place, item, likeness = self._near.rows_of(rated)
        total = np.bincount(item, likeness * deviation[place], n_items)
        mass = np.bincount(item, likeness, n_items)
        return np.asarray(total[wanted], np.float64), np.asarray(mass[wanted], np.float64)
