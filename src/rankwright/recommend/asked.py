"""Users, items and ratings as people give them: checked, and turned into numbers."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from rankwright.data.ratings import Ratings
from rankwright.data.vocabulary import Vocabulary, as_ids
from rankwright.exceptions import DataError, ParameterError, RankwrightWarning
from rankwright.rankers import rules
from rankwright.recommend.experts.base import FloatArray, IntArray

__all__ = ["how_many", "items_of", "ratings_of", "user_of"]


def user_of(ratings: Ratings, user: Any) -> int:
    """The number of a user of the data."""
    if not _knows(ratings.user_vocabulary, user):
        raise DataError(
            f"user {user!r} is not one of the {ratings.n_users} users of the data, such as "
            f"{_first(ratings.users)}. For somebody new use recommend_new({{item: rating, ...}})."
        )
    return int(ratings.user_vocabulary.numbers([user])[0])


def items_of(ratings: Ratings, items: Any) -> IntArray:
    """The numbers of some items of the data; of all, if ``items`` is None."""
    if items is None:
        return np.arange(ratings.n_items)
    ids = as_ids(items, "items")
    known = ratings.item_vocabulary
    strange = [item for item in ids.tolist() if not _knows(known, item)]
    if strange:
        raise DataError(
            f"item {strange[0]!r} is not one of the {ratings.n_items} items of the data, such as "
            f"{_first(ratings.items)}. Leave it out: nobody rated it."
        )
    return known.numbers(ids)


def ratings_of(ratings: Ratings, given: Mapping[Any, float]) -> tuple[IntArray, FloatArray]:
    """The numbers of the items that somebody rated, and the ratings.

    A rating far from the scale of the data is taken as it is, with a warning.
    """
    for item, rating in given.items():
        if not rules.number().test(rating):
            raise DataError(f"item {item!r} is rated {rating!r}, not a finite number.")
    value = np.array(list(given.values()), dtype=np.float64)
    if not len(value):
        return np.zeros(0, np.int64), value
    numbers = items_of(ratings, list(given))
    low, high = ratings.value.min(), ratings.value.max()
    # Somewhat beyond is well: the data need not hold the ends of their scale.
    beyond = np.maximum(low - value, value - high) > 0.5 * (high - low)
    if beyond.any() and high > low:
        at = int(np.argmax(beyond))
        warnings.warn(
            f"Recommender: item {list(given)[at]!r} is rated {value[at]:g}, and the ratings of the "
            f"data lie in {low:g} .. {high:g}. Give ratings on the same scale.",
            RankwrightWarning,
            stacklevel=4,
        )
    return numbers, value


def how_many(method: str, n: Any) -> None:
    """Refuse a number of things asked for that is not one or more."""
    if not rules.at_least(1).test(n):
        raise ParameterError(f"{method}(n={n!r}): n must be an integer >= 1.")


def _knows(vocabulary: Vocabulary, key: Any) -> bool:
    return isinstance(key, Hashable) and key in vocabulary


def _first(ids: Any) -> str:
    """An example of how the data write their ids: text in quotes, numbers without."""
    return repr(ids[:1].tolist()[0])
