"""Lists, scores and reasons of a recommender that learned from ratings."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from rankwright._typing import FloatArray, IntArray
from rankwright.data.behavior.interactions import Interactions
from rankwright.data.behavior.ratings import Ratings, first_twice
from rankwright.exceptions import DataError, ParameterError, RankwrightWarning
from rankwright.parallel import map_blocks, n_threads, single_threaded_blas
from rankwright.recommend.experts.histories import Histories, extended
from rankwright.recommend.explanations import (
    Explanation,
    Liked,
    Recommendation,
    Viewer,
    as_list,
)
from rankwright.recommend.lists import POOL, Selection
from rankwright.recommend.models.base import Table
from rankwright.recommend.models.popularity import ItemMeans


class Rated(NamedTuple):
    """What a user rated."""

    items: IntArray
    value: FloatArray
    number: int  # of a user of the data, -1 for a new one


class FromRatings:
    """What a recommender does with ratings: order items by how high a user would rate them.

    Parameters
    ----------
    data : Ratings
    model : Blend or PerUser
    content : ItemContent or None
        Features of items: those with few ratings take part of the scores of items like them.
    titles : (n_items,) texts or None
    """

    def __init__(self, data: Ratings, model: Any, content: Any = None, titles: Any = None) -> None:
        self.data, self.model, self.content, self.titles = data, model, content, titles
        self._by_user = Table.by_user(data)
        self._rated = data.item_counts > 0
        self._rated_items = np.flatnonzero(self._rated)
        self._known = self._rated if content is None else self._rated | content.described
        self._low, self._high = data.value.min(), data.value.max()
        # Ties are broken by average rating, then by number of ratings.
        order = np.lexsort((-data.item_counts, -ItemMeans().fit(data).item_bias_))
        self._popularity = np.empty(len(order), np.int64)
        self._popularity[order] = np.arange(len(order))

    @property
    def block_size(self) -> int:
        """Users whose lists are made at once."""
        return 16 * n_threads()

    def known(self, numbers: IntArray) -> list[Rated]:
        """What users of the data rated."""
        return [Rated(*self._by_user.row(n), n) for n in np.asarray(numbers).tolist()]

    def new(self, items: IntArray, value: FloatArray, given: Mapping[Any, float]) -> list[Rated]:
        """What a new user rated, with a warning about ratings far outside the scale."""
        low, high = self._low, self._high
        # Some tolerance, because the data need not contain the ends of their scale.
        outside = np.maximum(low - value, value - high) > 0.5 * (high - low)
        if outside.any() and high > low:
            at = int(np.argmax(outside))
            warnings.warn(
                f"Recommender: item {list(given)[at]!r} is rated {value[at]:g}, and the ratings of "
                f"the data lie in {low:g} .. {high:g}. Give ratings on the same scale.",
                RankwrightWarning,
                stacklevel=4,
            )
        return [Rated(items, value, -1)]

    def scores(self, history: list[Rated], items: IntArray) -> FloatArray:
        """Scores of some items for one user."""
        if self.content is None:
            return self._model_scores(history, items)
        everything = np.zeros((1, self.data.n_items))
        everything[0, self._rated_items] = self._model_scores(history, self._rated_items)
        return np.asarray(self.content.lend(everything, average=True)[0, items])

    def _model_scores(self, history: list[Rated], items: IntArray) -> FloatArray:
        rated, value, number = history[0]
        scores: FloatArray = self.model.scores(rated, value, items, number)
        if scores.shape != items.shape:
            raise ParameterError(
                f"Recommender(ranker={self.model.ranker!r}): decision_function returns shape "
                f"{scores.shape} for {len(items)} items. Use a ranker, which gives one score each."
            )
        if not np.isfinite(scores).all():
            raise DataError(
                "Recommender: a score overflows. A rating is far outside the scale of the data, or "
                "the model file holds such values. Give ratings on the scale of the data."
            )
        return scores

    def lists(self, histories: list[Rated], n: int, chosen: Selection) -> list[Any]:
        """The best items for each user."""
        if len(histories) == 1:
            return [self._list(histories[0], n, chosen)]
        with single_threaded_blas():  # the threads work on different users
            return map_blocks(lambda history: self._list(history, n, chosen), histories)

    def _list(self, history: Rated, n: int, chosen: Selection) -> list[Recommendation]:
        items = np.flatnonzero(self._known & chosen.allowed)
        items = items[~np.isin(items, history.items)] if chosen.exclude_taken else items
        scores = self.scores([history], items)
        order = np.lexsort((self._popularity[items], -scores))
        order = order if chosen.filter.max_per_category else order[: POOL * n]
        picked = chosen.pick(items[order], scores[order], n)
        place = np.searchsorted(items, picked)
        return as_list(self.data.items[picked].tolist(), scores[place].tolist())

    def likeness(self, number: int) -> FloatArray | None:
        """None: items are alike by the cosine of their users."""
        return None

    def explain(self, history: list[Rated], number: int, n: int) -> Explanation:
        """The users and the own ratings that say most about the score."""
        item = self.data.items[[number]].tolist()[0]
        if not self._known[number]:
            raise DataError(f"explain: nobody rated item {item!r}, so nothing is known about it.")
        rated, value, user = history[0]
        score = float(self.scores(history, np.array([number]))[0])
        # An item that nobody rated is explained by the item most like it.
        source = number if self._rated[number] else self.content.most_like(number)
        reasons = self.model.explain(rated, value, source, user, n)
        first = np.argsort(-np.abs(reasons.weight), kind="stable")[:n]
        users = self.data.users[reasons.users[first]].tolist()
        own = self.data.items[rated[reasons.rated]].tolist()
        points, weight = reasons.points[first].tolist(), reasons.weight[first].tolist()
        viewers = tuple(map(Viewer, users, points, weight))
        liked = tuple(map(Liked, own, value[reasons.rated].tolist(), reasons.added.tolist()))
        agreement = self.model.weight_is_agreement
        middle = float(self.data.value.mean()) if agreement else None
        if source != number:
            viewers = ()
        return Explanation(
            item, score, viewers, liked, agreement, middle, self._titles_of(item, own)
        )

    def _titles_of(self, item: Any, others: list[Any]) -> dict[Any, str]:
        if self.titles is None:
            return {}
        ids = [item, *others]
        numbers = self.data.item_vocabulary.numbers(ids)
        return dict(zip(ids, self.titles[numbers].tolist(), strict=True))


def with_items(ratings: Ratings, ids: Any) -> Ratings:
    """The same ratings over a catalog that has these items too."""
    return replace(ratings, items=extended(ratings.item_vocabulary, ids)[0])


def histories_of(ratings: Ratings) -> Histories:
    """What each user rated."""
    return Histories.of(Interactions.from_ratings(ratings))


def check_ratings(ratings: Any, owner: str) -> Ratings:
    """Ratings to learn from, each pair of user and item at most once."""
    if not isinstance(ratings, Ratings):
        raise DataError(
            f"{owner}.fit got {type(ratings).__name__}: it takes Ratings or Interactions. Make "
            "them with read_ratings or Ratings.from_frame, read_interactions or "
            "Interactions.from_frame."
        )
    if len(ratings) == 0:
        raise DataError(f"{owner}.fit got no ratings: there is nothing to learn from.")
    twice = first_twice(ratings)
    if twice is not None:
        user, item = ratings.users[ratings.user[twice[0]]], ratings.items[ratings.item[twice[0]]]
        raise DataError(
            f"{owner}.fit: user {user} rated item {item} in row {twice[1]} and again in row "
            f'{twice[0]}. Read the ratings with duplicates="last" or "mean".'
        )
    return ratings
