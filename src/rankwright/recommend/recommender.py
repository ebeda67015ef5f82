"""Recommendations for users of the data and for new users, with explanations."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from rankwright._typing import FloatArray, IntArray
from rankwright.data.ratings import Ratings, first_twice
from rankwright.data.vocabulary import Vocabulary, as_ids
from rankwright.exceptions import (
    DataError,
    DegenerateDataWarning,
    ParameterError,
    RankwrightWarning,
)
from rankwright.parallel import map_blocks, n_threads, single_threaded_blas
from rankwright.rankers import schema
from rankwright.rankers.schema import Holds
from rankwright.recommend.blend import Blend, predict_rows
from rankwright.recommend.models.base import Table
from rankwright.recommend.models.popularity import ItemMeans
from rankwright.recommend.per_user import RANKER, PerUser


class Recommendation(NamedTuple):
    """An item and its score; higher comes first."""

    item: Any
    score: float


class Viewer(NamedTuple):
    """A user who rated the item: the rating, and the agreement with you or what it adds."""

    user: Any
    rating: float
    weight: float


class Liked(NamedTuple):
    """A rating of your own, and what it adds to the score."""

    item: Any
    rating: float
    added: float


@dataclass(frozen=True)
class Explanation:
    """Why an item has its score.

    >>> print(Explanation("Alien", 4.25, (Viewer("bob", 5.0, 0.81),), (Liked("Heat", 5.0, 0.4),)))
    Alien: score 4.25
    because these viewers, who agree with you, rated it:
      bob gave it 5 (agreement 0.81)
    and because of what you rated:
      you gave Heat 5 (adds +0.4)
    >>> print(Explanation("Alien", 1.2, (Viewer("eve", 1.0, 0.5),), (), by_agreement=False))
    Alien: score 1.2
    because of what these viewers gave it:
      eve gave it 1 (adds +0.5)
    >>> print(Explanation("Alien", 3.9, (), ()))
    Alien: score 3.9
    because of its average rating: none of your ratings says more.
    """

    item: Any
    score: float
    viewers: tuple[Viewer, ...]
    ratings: tuple[Liked, ...]
    by_agreement: bool = True  # else the weight of a viewer is what the rating adds to the score

    def __str__(self) -> str:
        first, form = "of what these viewers gave it:", "adds {:+.2g}"
        if self.by_agreement:
            first, form = "these viewers, who agree with you, rated it:", "agreement {:.2g}"
        parts = []
        if self.viewers:
            parts.append(f"because {first}")
            for user, rating, weight in self.viewers:
                parts[-1] += f"\n  {user} gave it {rating:g} ({form.format(weight)})"
        if self.ratings:
            parts.append("because of what you rated:")
            for item, rating, added in self.ratings:
                parts[-1] += f"\n  you gave {item} {rating:g} (adds {added:+.2g})"
        if not parts:
            parts = ["because of its average rating: none of your ratings says more."]
        return f"{self.item}: score {self.score:.4g}\n" + "\nand ".join(parts)


class Recommender(BaseEstimator):  # type: ignore[misc]
    """Recommend items to users by the ratings of other users (collaborative filtering).

    With a ``ranker``, recommending is a ranking problem for each user: rows are items, features are
    the ratings of reference users, grades are the user's own ratings. A reference user who did not
    rate an item abstains; rankers without abstention get the median of that user's ratings instead.
    Without one (``ranker=None``) several rating models are combined as features of one ranker (see
    ``rankwright.recommend.blend``), which is better, and faster for many users.

    A user without preferences (no rating, one rating, all ratings equal) gets the items with the
    best average ratings; with a ``ranker`` there is also a DegenerateDataWarning. Items that nobody
    rated are never recommended. Of equal scores the item with the better average rating comes
    first, then the one with more ratings.

    Parameters
    ----------
    ranker : a ranker, a pipeline that ends in one, or None, default None
        Where its own ``random_state`` is None, that of the recommender seeds it.
    n_reference : int >= 1, default 1000
        Number of reference users (with ``ranker``); all, if there are fewer.
    reference : "random", "dense" or "similar", default "random"
        Random users, those with most ratings, or for each user the most similar ones.
    random_state : int, RandomState or None

    Attributes
    ----------
    ratings_ : Ratings
        The training data.
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
        **PerUser._constraints,
        "ranker": schema.optional(RANKER),
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
        for name, constraint in self._constraints.items():
            constraint.check(type(self).__name__, name, getattr(self, name))
        self.ratings_ = _check_ratings(ratings, type(self).__name__)
        if np.ptp(ratings.value) == 0:
            warnings.warn(
                "Recommender: all ratings are equal, so they contain no preferences: every item "
                "gets the same score, and the items with most ratings come first.",
                DegenerateDataWarning,
                stacklevel=2,
            )
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        model: Any = Blend(random_state=seed)
        if self.ranker is not None:
            model = PerUser(self.ranker, self.n_reference, self.reference, seed)
        self.model_ = model.fit(ratings)
        self._prepare()
        return self

    def _prepare(self) -> None:
        self._by_user = Table.by_user(self.ratings_)
        self._rated_items = np.flatnonzero(self.ratings_.item_counts > 0)
        self._low, self._high = self.ratings_.value.min(), self.ratings_.value.max()
        # Ties are broken by average rating, then by number of ratings.
        bias = ItemMeans().fit(self.ratings_).item_bias_
        order = np.lexsort((-self.ratings_.item_counts, -bias))
        self._popularity = np.empty(len(order), np.int64)
        self._popularity[order] = np.arange(len(order))

    def _loaded(self) -> None:
        """After loading: check that the parts fit together, and derive the rest."""
        _check_ratings(self.ratings_, type(self).__name__)
        for ids in (self.ratings_.users, self.ratings_.items):
            Vocabulary(as_ids(ids))
        self.model_.prepare(self.ratings_)
        self._prepare()

    @classmethod
    def learned(cls) -> dict[str, Holds]:
        return {"ratings_": Holds((Ratings,)), "model_": Holds((Blend, PerUser))}

    def scores(self, user: Any, items: Any = None) -> FloatArray:
        """Scores of some items (ids; None: all) for a user of the data (an id) or a new user
        ({item: rating}). Higher is better."""
        rated, value, number = self._ratings_of(user)
        return self._scores(rated, value, self._item_numbers(items), number)

    def predict_ratings(self, ratings: Ratings) -> FloatArray:
        """A score for each row of other ratings of the same users and items, see Ratings.take."""
        check_is_fitted(self)
        known = self.ratings_
        same = np.array_equal(known.users, ratings.users)
        if not (same and np.array_equal(known.items, ratings.items)):
            raise DataError(
                "predict_ratings: these ratings have other users or items than those of fit. "
                "Split one Ratings with take(train) and take(test), without compact()."
            )
        with single_threaded_blas():  # the threads work on different users
            return predict_rows(
                lambda user, items: self._scores(*self._by_user.row(user), items, user), ratings
            )

    def recommend(self, user: Any, n: int = 10) -> list[Recommendation]:
        """The best items for a user of the data, among those the user has not rated."""
        _check_n("recommend", n)
        rated, value, number = self._ratings_of_known(user)
        items = self._unrated(rated)
        return self._best(items, self._scores(rated, value, items, number), n)

    def recommend_new(self, ratings: Mapping[Any, float], n: int = 10) -> list[Recommendation]:
        """The best items for a new user, given some ratings ({item: rating}); nothing is retrained.

        A rating far outside the scale of the data is used as it is, with a warning.
        """
        _check_n("recommend_new", n)
        if not isinstance(ratings, Mapping):
            raise DataError(
                f"recommend_new got {type(ratings).__name__}: give a dict {{item: rating, ...}}."
            )
        rated, value, number = self._ratings_of(ratings)
        items = self._unrated(rated)
        return self._best(items, self._scores(rated, value, items, number), n)

    def recommend_all(self, n: int = 10, users: Any = None) -> dict[Any, list[Recommendation]]:
        """Recommendations for many users (ids; None: all) at once, on all cores."""
        check_is_fitted(self)
        ids = (self.ratings_.users if users is None else as_ids(users, "users")).tolist()
        size = max(1, -(-len(ids) // (4 * n_threads())))
        blocks = [ids[start : start + size] for start in range(0, len(ids), size)]
        with single_threaded_blas():  # the threads work on different users
            lists = map_blocks(lambda block: [self.recommend(user, n) for user in block], blocks)
        return dict(zip(ids, [best for block in lists for best in block], strict=True))

    def explain(self, user: Any, item: Any, n: int = 5) -> Explanation:
        """Why an item has its score for a user (an id, or {item: rating} of a new user).

        Returns
        -------
        explanation : Explanation
            Prints as text. From the default model: ``viewers``, the most similar users who rated
            the item, and ``ratings``, the user's own, with what each adds (how far the score falls
            without it). From a ``ranker``: ``viewers``, the reference users whose ratings of the
            item change its score most.
        """
        _check_n("explain", n)
        rated, value, number = self._ratings_of(user)
        items = self._item_numbers([item])
        if self.ratings_.item_counts[items[0]] == 0:
            raise DataError(f"explain: nobody rated item {item!r}, so nothing is known about it.")
        score = float(self._scores(rated, value, items, number)[0])
        reasons = self.model_.explain(rated, value, int(items[0]), number, n)
        first = np.argsort(-np.abs(reasons.weight), kind="stable")[:n]
        users = self.ratings_.users[reasons.users[first]].tolist()
        own = self.ratings_.items[rated[reasons.rated]].tolist()
        points, weight = reasons.points[first].tolist(), reasons.weight[first].tolist()
        viewers = tuple(map(Viewer, users, points, weight))
        liked = tuple(map(Liked, own, value[reasons.rated].tolist(), reasons.added.tolist()))
        return Explanation(item, score, viewers, liked, self.model_.weight_is_agreement)

    def _unrated(self, rated: IntArray) -> IntArray:
        return self._rated_items[~np.isin(self._rated_items, rated)]

    def _best(self, items: IntArray, scores: FloatArray, n: int) -> list[Recommendation]:
        first = np.lexsort((self._popularity[items], -scores))[:n]
        ids = self.ratings_.items[items[first]].tolist()
        return list(map(Recommendation, ids, scores[first].tolist()))

    def _scores(
        self, rated: IntArray, value: FloatArray, items: IntArray, number: int
    ) -> FloatArray:
        scores: FloatArray = self.model_.scores(rated, value, items, number)
        if scores.shape != items.shape:
            raise ParameterError(
                f"Recommender(ranker={self.ranker!r}): decision_function returns shape "
                f"{scores.shape} for {len(items)} items. Use a ranker, which gives one score each."
            )
        if not np.isfinite(scores).all():
            raise DataError(
                "Recommender: a score overflows. A rating is far outside the scale of the data, or "
                "the model file holds such values. Give ratings on the scale of the data."
            )
        return scores

    def _ratings_of(self, user: Any) -> tuple[IntArray, FloatArray, int]:
        """Rated items, ratings and number of a user of the data, or (-1) of a new user."""
        if not isinstance(user, Mapping):
            return self._ratings_of_known(user)
        check_is_fitted(self)
        for item, rating in user.items():
            if not schema.number().test(rating):
                raise DataError(f"item {item!r} is rated {rating!r}, not a finite number.")
        value = np.array(list(user.values()), dtype=np.float64)
        if not len(value):
            return np.zeros(0, np.int64), value, -1
        rated = self._item_numbers(list(user))
        low, high = self._low, self._high
        # Some tolerance, because the data need not contain the ends of their scale.
        outside = np.maximum(low - value, value - high) > 0.5 * (high - low)
        if outside.any() and high > low:
            at = int(np.argmax(outside))
            warnings.warn(
                f"Recommender: item {list(user)[at]!r} is rated {value[at]:g}, and the ratings of "
                f"the data lie in {low:g} .. {high:g}. Give ratings on the same scale.",
                RankwrightWarning,
                stacklevel=3,
            )
        return rated, value, -1

    def _ratings_of_known(self, user: Any) -> tuple[IntArray, FloatArray, int]:
        check_is_fitted(self)
        if not (isinstance(user, Hashable) and user in self.ratings_.user_vocabulary):
            raise DataError(
                f"user {user!r} is not one of the {self.ratings_.n_users} users of the data, such "
                f"as {self.ratings_.users[:1].tolist()[0]!r}. For a new user call "
                "recommend_new({item: rating, ...})."
            )
        number = int(self.ratings_.user_vocabulary.numbers([user])[0])
        return *self._by_user.row(number), number

    def _item_numbers(self, items: Any) -> IntArray:
        if items is None:
            return np.arange(self.ratings_.n_items)
        ids, known = as_ids(items, "items"), self.ratings_.item_vocabulary
        for item in ids.tolist():
            if not (isinstance(item, Hashable) and item in known):
                raise DataError(
                    f"item {item!r} is not one of the {self.ratings_.n_items} items of the data, "
                    f"such as {self.ratings_.items[:1].tolist()[0]!r}. Leave it out: nobody rated "
                    "it."
                )
        return known.numbers(ids)


def _check_ratings(ratings: Any, owner: str) -> Ratings:
    if not isinstance(ratings, Ratings):
        raise DataError(
            f"{owner}.fit got {type(ratings).__name__}: it takes Ratings. Make them with "
            "Ratings.from_arrays, Ratings.from_frame or read_ratings."
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


def _check_n(method: str, n: Any) -> None:
    if not schema.at_least(1).test(n):
        raise ParameterError(f"{method}(n={n!r}): n must be an integer >= 1.")
