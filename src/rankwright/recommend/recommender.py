"""Recommendations for users of the data and for somebody new, with reasons."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Mapping
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from rankwright._typing import FloatArray, IntArray
from rankwright.data.ratings import Ratings
from rankwright.data.vocabulary import Vocabulary, as_ids
from rankwright.exceptions import (
    DataError,
    DegenerateDataWarning,
    ParameterError,
    RankwrightWarning,
)
from rankwright.parallel import map_blocks, n_threads
from rankwright.rankers import schema
from rankwright.rankers.schema import Holds
from rankwright.recommend.blend import Blend, predict_rows
from rankwright.recommend.explain import Explanation, Liked, Viewer
from rankwright.recommend.models.base import Table
from rankwright.recommend.models.factors import Factors
from rankwright.recommend.models.popularity import ItemMeans
from rankwright.recommend.models.user_similarity import Similarity
from rankwright.recommend.per_user import REFERENCE, PerUser, a_ranker, check_ratings


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
        if not schema.number().test(rating):
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
    if not schema.at_least(1).test(n):
        raise ParameterError(f"{method}(n={n!r}): n must be an integer >= 1.")


def _knows(vocabulary: Vocabulary, key: Any) -> bool:
    return isinstance(key, Hashable) and key in vocabulary


def _first(ids: Any) -> str:
    """An example of how the data write their ids: text in quotes, numbers without."""
    return repr(ids[:1].tolist()[0])


class Recommendation(NamedTuple):
    """An item and its score; higher comes first."""

    item: Any
    score: float


class Recommender(BaseEstimator):  # type: ignore[misc]
    """Which items will somebody like, judged by what others think.

    With a ``ranker``, recommending is a ranking problem for each user: rows are items, features are
    the ratings of reference users, the user's own ratings are the grades. A reference user who did
    not rate an item abstains; for rankers without abstention the median of the reference user's
    ratings stands in. Without one (``ranker=None``) several algorithms are combined, each a ranking
    feature of one model (see ``rankwright.recommend.blend``): better and faster for many users.

    Somebody without a preference (no rating, one rating, all ratings equal) gets the items that
    everybody likes: from a ``ranker`` with a DegenerateDataWarning, from the default as a matter of
    course. Items that nobody rated are never recommended. Of equal scores the item that everybody
    likes better comes first, then the one with more ratings.

    Parameters
    ----------
    ranker : a ranker, a pipeline that ends in one, or None, default None
        Where its own ``random_state`` is None, that of the recommender seeds it.
    n_reference : int >= 1, default 1000
        How many reference users (with ``ranker``); all, if there are fewer.
    reference : "random", "dense" or "similar", default "random"
        Which: any, those with most ratings, or for each user those who agree most.
    random_state : int, RandomState or None

    Attributes
    ----------
    ratings_ : Ratings
        What it learned from.
    model_ : Blend or PerUser

    Examples
    --------
    >>> from rankwright.data.synthetic import make_ratings
    >>> ratings = make_ratings(60, 40, random_state=0).ratings
    >>> model = Recommender(random_state=0).fit(ratings)
    >>> user = ratings.users[0]
    >>> [len(model.recommend(user, n=3)), len(model.recommend_new({ratings.items[2]: 5}, n=2))]
    [3, 2]
    """

    _constraints: ClassVar = {
        "ranker": schema.optional(a_ranker()),
        "n_reference": schema.at_least(1),
        "reference": schema.one_of(*REFERENCE),
        "random_state": schema.random_state(),
    }

    def __init__(
        self,
        *,
        ranker: Any = None,
        n_reference: int = 1000,
        reference: str = "random",
        random_state: Any = None,
    ) -> None:
        self.ranker = ranker
        self.n_reference = n_reference
        self.reference = reference
        self.random_state = random_state

    def fit(self, ratings: Ratings, y: Any = None) -> Self:
        """Learn from ratings; each pair of user and item may occur once."""
        for name, rule in self._constraints.items():
            rule.check(type(self).__name__, name, getattr(self, name))
        self.ratings_ = check_ratings(ratings, type(self).__name__)
        if np.ptp(ratings.value) == 0:
            warnings.warn(
                "Recommender: all ratings are equal, nobody prefers anything: every item gets the "
                "same score, and what most people rated comes first.",
                DegenerateDataWarning,
                stacklevel=2,
            )
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self.model_: Any
        if self.ranker is None:
            self.model_ = Blend(seed=seed).fit(ratings)
        else:
            options = (self.ranker, self.n_reference, self.reference, seed)
            self.model_ = PerUser(*options).fit(ratings)
        self._lay_out()
        return self

    def _lay_out(self) -> None:
        self._known = Table.by_user(self.ratings_)
        self._rated_items = np.flatnonzero(self.ratings_.item_counts > 0)
        # Best first, for everybody: by what users think of it, then by how many of them do.
        liked = ItemMeans().fit(self.ratings_).item_bias_
        order = np.lexsort((-self.ratings_.item_counts, -liked))
        self._popularity = np.empty(len(order), np.int64)
        self._popularity[order] = np.arange(len(order))

    def _loaded(self) -> None:
        """What a model file held: check that it fits together, and lay out the rest."""
        check_ratings(self.ratings_, type(self).__name__)
        for ids in (self.ratings_.users, self.ratings_.items):
            Vocabulary(as_ids(ids))
        self.model_.ready(self.ratings_)
        self._lay_out()

    @classmethod
    def learned(cls) -> dict[str, Holds]:
        """Every learned attribute, with what it may be."""
        return {"ratings_": Holds((Ratings,)), "model_": Holds((Blend, PerUser))}

    def scores(self, user: Any, items: Any = None) -> FloatArray:
        """Scores of some items (ids; None: all), higher comes first, for a user of the data (an id)
        or somebody new ({item: rating})."""
        rated, value, number = self._anybody(user)
        return self._scores(rated, value, items_of(self.ratings_, items), number)

    def predict_ratings(self, asked: Ratings) -> FloatArray:
        """A score for each row of other ratings over the *same* users and items, in its order.

        What comes from ``ratings.take(...)`` shares users and items, whichever rows were taken.
        """
        check_is_fitted(self)
        mine = self.ratings_
        same = asked.n_users == mine.n_users and asked.n_items == mine.n_items
        if not same or not (
            np.array_equal(asked.users, mine.users) and np.array_equal(asked.items, mine.items)
        ):
            raise DataError(
                "predict_ratings: these ratings have other users or items than those of fit. "
                "Split one Ratings with take(train) and take(test), without compact()."
            )
        with threadpool_limits(1, "blas"):  # users are the threads
            return predict_rows(
                lambda user, wanted: self._scores(*self._known.row(user), wanted, user), asked
            )

    def recommend(self, user: Any, n: int = 10) -> list[Recommendation]:
        """The items, not rated by this user of the data so far, that the user will like best."""
        rated, value, number = self._user(user)
        wanted = self._unrated(rated, n)
        return self._best(wanted, self._scores(rated, value, wanted, number), n)

    def recommend_new(self, ratings: Mapping[Any, float], n: int = 10) -> list[Recommendation]:
        """The items that somebody with these ratings ({item: rating}) will like best.

        For people who are not in the data; nothing is learned anew. An item that is not in the
        data is refused; a rating far from the scale of the data is taken as it is, with a warning.
        """
        if not isinstance(ratings, Mapping):
            raise DataError(
                f"recommend_new got {type(ratings).__name__}: give a dict {{item: rating, ...}}."
            )
        rated, value, number = self._anybody(ratings)
        wanted = self._unrated(rated, n)
        return self._best(wanted, self._scores(rated, value, wanted, number), n)

    def recommend_all(self, n: int = 10, users: Any = None) -> dict[Any, list[Recommendation]]:
        """Recommendations for many users (ids; None: all) at once, on all cores."""
        check_is_fitted(self)
        ids = (self.ratings_.users if users is None else as_ids(users, "users")).tolist()
        size = max(1, -(-len(ids) // (4 * n_threads())))
        blocks = [ids[at : at + size] for at in range(0, len(ids), size)]
        # Users are the threads: with threads inside BLAS as well, all would wait for each other.
        with threadpool_limits(1, "blas"):
            found = map_blocks(lambda block: [self.recommend(user, n) for user in block], blocks)
        return dict(zip(ids, [each for block in found for each in block], strict=True))

    def explain(self, user: Any, item: Any, n: int = 5) -> Explanation:
        """Why an item has its score for a user (an id, or {item: rating} of somebody new).

        Returns
        -------
        explanation : Explanation
            Prints as text. From the default model: ``viewers``, who rated the item and agree with
            the user, by how much they agree, and ``ratings``, the user's own, by what each adds
            (how far the score falls without it). From a ``ranker``: ``viewers``, the reference
            users whose rating of the item moves its score, by how much.
        """
        how_many("explain", n)
        rated, value, number = self._anybody(user)
        wanted = int(items_of(self.ratings_, [item])[0])
        if self.ratings_.item_counts[wanted] == 0:
            raise DataError(f"explain: nobody rated item {item!r}, so nothing is known about it.")
        score = float(self._scores(rated, value, np.array([wanted]), number)[0])
        if isinstance(self.model_, PerUser):
            viewers = self.model_.viewers(rated, value, wanted, number)
            return Explanation(item, score, self._viewers(*viewers, n), (), by_agreement=False)
        return self._explain_blend(item, wanted, score, rated, value, number, n)

    def _explain_blend(
        self, item: Any, wanted: int, score: float, rated: Any, value: Any, number: int, n: int
    ) -> Explanation:
        similar = next(e for e in self.model_.experts_ if isinstance(e, Similarity))
        factors = next(e for e in self.model_.experts_ if isinstance(e, Factors))
        rows = self.ratings_.by_item.order[slice(*self.ratings_.by_item.ptr[wanted : wanted + 2])]
        users, points = self.ratings_.user[rows], self.ratings_.value[rows]
        weight = similar.agreement(rated, value)[users]
        keep = (weight > 0) & (users != number)
        viewers = self._viewers(users[keep], points[keep], weight[keep], n)
        # The whole model is asked without each rating in turn; the factors say for which it pays.
        likely = np.argsort(-np.abs(factors.reasons(rated, value, wanted)), kind="stable")
        added = {
            int(i): score - self._without(int(i), rated, value, wanted) for i in likely[: 4 * n]
        }
        first = sorted(added, key=lambda i: -abs(added[i]))[:n]
        names = self.ratings_.items[rated[first]].tolist()
        own = map(Liked, names, value[first].tolist(), [added[i] for i in first])
        return Explanation(item, score, viewers, tuple(own))

    def _without(self, i: int, rated: IntArray, value: FloatArray, wanted: int) -> float:
        """The score of an item had the user not given one of the ratings."""
        rest = np.delete(rated, i), np.delete(value, i)
        return float(self._scores(*rest, np.array([wanted]), -1)[0])

    def _viewers(self, users: Any, points: Any, weight: Any, n: int) -> tuple[Viewer, ...]:
        first = np.argsort(-np.abs(weight), kind="stable")[:n]
        names = self.ratings_.users[users[first]].tolist()
        return tuple(map(Viewer, names, points[first].tolist(), weight[first].tolist()))

    def _unrated(self, rated: IntArray, n: int) -> IntArray:
        how_many("recommend", n)
        return self._rated_items[~np.isin(self._rated_items, rated)]

    def _best(self, wanted: IntArray, scores: FloatArray, n: int) -> list[Recommendation]:
        first = np.lexsort((self._popularity[wanted], -scores))[:n]
        items = self.ratings_.items[wanted[first]].tolist()
        return list(map(Recommendation, items, scores[first].tolist()))

    def _scores(
        self, rated: IntArray, value: FloatArray, wanted: IntArray, number: int
    ) -> FloatArray:
        who = (number,) if isinstance(self.model_, PerUser) else ()
        found: FloatArray = self.model_.scores(rated, value, wanted, *who)
        if found.shape != wanted.shape:
            raise ParameterError(
                f"Recommender(ranker={self.ranker!r}): its decision_function gives "
                f"{found.shape} for {len(wanted)} items. Use a ranker, which gives one score each."
            )
        if not np.isfinite(found).all():
            raise DataError(
                "Recommender: a score is beyond any number, because a rating is, or because the "
                "model file was made so. Give ratings on the scale of the data."
            )
        return found

    def _anybody(self, user: Any) -> tuple[IntArray, FloatArray, int]:
        """Rated items, ratings and number of a user of the data, or (-1) of somebody new."""
        if not isinstance(user, Mapping):
            return self._user(user)
        check_is_fitted(self)
        return *ratings_of(self.ratings_, user), -1

    def _user(self, user: Any) -> tuple[IntArray, FloatArray, int]:
        check_is_fitted(self)
        number = user_of(self.ratings_, user)
        return *self._known.row(number), number
