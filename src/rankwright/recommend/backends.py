"""What a recommender answers from events, and from ratings: lists, scores and reasons."""

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
from rankwright.recommend.experts.histories import Histories, Rows, check_weights, extended
from rankwright.recommend.experts.topn import CELLS, Described, TopN
from rankwright.recommend.explanations import (
    EventExplanation,
    Explanation,
    Liked,
    Taken,
    Viewer,
)
from rankwright.recommend.lists import POOL, Block, Selection
from rankwright.recommend.models.base import ItemMeans, Table

# Models sum squares of ratings in float32.
LARGEST_RATING, LEAST_SPREAD = 1e15, 1e-6


class FromEvents:
    """What a recommender does with histories: rank the whole catalog for each.

    Parameters
    ----------
    data : Histories
    model : TopN
    titles : (n_items,) texts or None
    """

    def __init__(self, data: Histories, model: TopN, titles: Any = None) -> None:
        self.data, self.model, self.titles = data, model, titles
        self.known_items = model.known_items()

    @property
    def block_size(self) -> int:
        """Users whose lists are made at once."""
        return max(1, min(256, CELLS // max(self.data.n_items, 1)))

    def known(self, numbers: IntArray) -> Rows:
        """The histories of users of the data."""
        return self.data.rows.take(np.asarray(numbers, np.int64))

    def new(self, items: IntArray, weight: FloatArray, given: Mapping[Any, float]) -> Rows:
        """The history of a new user."""
        if (weight <= 0).any():
            bad = list(given)[int(np.argmax(weight <= 0))]
            raise DataError(f"item {bad!r} has the weight {given[bad]!r}: give weights > 0.")
        check_weights(weight)
        ptr = np.array([0, len(items)])
        return Rows(ptr, items.astype(np.int32), weight.astype(np.float32))

    def scores(self, history: Rows, items: IntArray) -> FloatArray:
        """Scores of some items for one history."""
        return np.asarray(self.model.scores(history)[0, items], np.float64)

    def lists(self, histories: Rows, n: int, chosen: Selection) -> Block:
        """The best items for each history."""
        scores = self.model.scores(histories)
        hidden = np.flatnonzero(~(chosen.allowed & self.known_items))
        scores[:, hidden] = -np.inf
        if chosen.exclude_taken:
            row = np.repeat(np.arange(histories.n_rows), np.diff(histories.ptr))
            scores[row, histories.item] = -np.inf
        pool = n if chosen.is_plain else POOL * n
        if chosen.filter.max_per_category is not None:
            pool = scores.shape[1]
        best = self.model.best(scores, min(pool, scores.shape[1]))
        if chosen.is_plain:
            found = np.take_along_axis(scores, np.maximum(best, 0), axis=1)
            short = ((0, 0), (0, n - best.shape[1]))  # the catalog may have fewer items
            return Block(np.pad(best, short, constant_values=-1), np.pad(found, short))
        picked = []
        for row, ranked in zip(scores, best, strict=True):
            ranked = ranked[ranked >= 0]
            picked.append(chosen.pick(ranked, row[ranked], n))
        return Block.of(picked, [row[at] for row, at in zip(scores, picked, strict=True)], n)

    def likeness(self, number: int) -> FloatArray | None:
        """How like an item all items are by the experts; None if none looks at the history."""
        if not any(expert.personal for expert in self.model.experts_):
            return None
        rows = Rows(np.array([0, 1]), np.array([number], np.int32), np.ones(1, np.float32))
        return np.asarray(self.model.scores(rows, personal=True)[0], np.float64)

    def explain(self, history: Rows, number: int, n: int) -> EventExplanation:
        """The part of each expert, and the n items of the history that add most."""
        taken = history.row(0)[0]
        score = float(self.scores(history, np.array([number]))[0])
        parts, added = self.model.parts(history, number)
        kept = self.model.own_share(number)
        if kept < 1.0:  # the rest comes from known items that are like it
            parts, added = {name: kept * part for name, part in parts.items()}, kept * added
            parts["items like it"] = score - sum(parts.values())
        first = [at for at in np.argsort(-added, kind="stable")[:n] if added[at] > 0]
        ids = self.data.items[taken[first]].tolist() if first else []
        titles = {}
        if self.titles is not None:
            named = [number, *(int(taken[at]) for at in first)]
            keys = self.data.items[named].tolist()
            titles = dict(zip(keys, self.titles[named].tolist(), strict=True))
        reasons = tuple(map(Taken, ids, added[first].tolist()))
        item = self.data.items[[number]].tolist()[0]
        return EventExplanation(item, score, parts, reasons, titles)


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
    contents : ItemContent or None, UserMeans or None
        Features of items: those with few ratings take part of the scores of items like them. And of
        users: those with few ratings follow users like them.
    titles : (n_items,) texts or None
    """

    def __init__(
        self, data: Ratings, model: Any, contents: Any = (None, None), titles: Any = None
    ) -> None:
        self.data, self.model, self.titles = data, model, titles
        self.content, self.people = contents
        if self.people is not None:
            self.people.learn(data)
        self._by_user = Table.by_user(data)
        self._rated = data.item_counts > 0
        self._rated_items = np.flatnonzero(self._rated)
        self._known = self._rated if self.content is None else self._rated | self.content.described
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
        if self.content is None and self.people is None:
            return self._model_scores(history, items)
        everything, user = np.zeros((1, self.data.n_items)), history[0].number
        everything[0, self._rated_items] = self._model_scores(history, self._rated_items)
        everything += self._by_features(user)
        if self.content is not None:
            everything = self.content.lend(everything, average=True)
        return np.asarray(everything[0, items])

    def _by_features(self, user: int) -> FloatArray:
        """What users like a user of the data add to the scores of all items."""
        known = self.people is not None and user >= 0
        return np.asarray(self.people.added(user) if known else np.zeros(self.data.n_items))

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

    def lists(self, histories: list[Rated], n: int, chosen: Selection) -> Block:
        """The best items for each user."""
        if len(histories) == 1:
            found = [self._list(histories[0], n, chosen)]
        else:
            with single_threaded_blas():  # the threads work on different users
                found = map_blocks(lambda history: self._list(history, n, chosen), histories)
        return Block.of([items for items, _ in found], [scores for _, scores in found], n)

    def _list(self, history: Rated, n: int, chosen: Selection) -> tuple[IntArray, FloatArray]:
        items = np.flatnonzero(self._known & chosen.allowed)
        items = items[~np.isin(items, history.items)] if chosen.exclude_taken else items
        scores = self.scores([history], items)
        order = np.lexsort((self._popularity[items], -scores))
        order = order if chosen.filter.max_per_category else order[: POOL * n]
        picked = chosen.pick(items[order], scores[order], n)
        return picked, scores[np.searchsorted(items, picked)]

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
        titles, added = self._titles_of(item, own), float(self._by_features(user)[number])
        return Explanation(item, score, viewers, liked, agreement, middle, titles, added)

    def _titles_of(self, item: Any, others: list[Any]) -> dict[Any, str]:
        if self.titles is None:
            return {}
        ids = [item, *others]
        numbers = self.data.item_vocabulary.numbers(ids)
        return dict(zip(ids, self.titles[numbers].tolist(), strict=True))


def with_ids(ratings: Ratings, features: Described) -> Ratings:
    """The same ratings, of a catalog and users that include those with features."""
    users, items = ratings.users, ratings.items
    if features.users is not None:
        users = extended(ratings.user_vocabulary, features.users.ids)[0]
    if features.items is not None:
        items = extended(ratings.item_vocabulary, features.items.ids)[0]
    return replace(ratings, users=users, items=items)


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
    largest, spread = float(np.abs(ratings.value).max()), float(np.ptp(ratings.value))
    if largest > LARGEST_RATING or 0.0 < spread < LEAST_SPREAD:
        raise DataError(
            f"{owner}.fit: the ratings reach {largest:g} and differ by {spread:g}: squares of such "
            "numbers overflow or vanish. Scale them, such as to 1 .. 5."
        )
    twice = first_twice(ratings)
    if twice is not None:
        user, item = ratings.users[ratings.user[twice[0]]], ratings.items[ratings.item[twice[0]]]
        raise DataError(
            f"{owner}.fit: user {user} rated item {item} in row {twice[1]} and again in row "
            f'{twice[0]}. Read the ratings with duplicates="last" or "mean".'
        )
    return ratings
