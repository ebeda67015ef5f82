"""Recommendations for users of the data and for somebody new, with reasons."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from rankwright.data.ratings import Ratings
from rankwright.data.vocabulary import Vocabulary, as_ids
from rankwright.exceptions import DataError, DegenerateDataWarning, ParameterError
from rankwright.parallel import map_blocks, n_threads
from rankwright.rankers import rules
from rankwright.rankers.learned import Holds
from rankwright.recommend.blend import Blend, predict_rows
from rankwright.recommend.experts import Factors, Similarity, Table
from rankwright.recommend.experts.base import FloatArray, IntArray
from rankwright.recommend.problem import check_ratings
from rankwright.recommend.reasons import Explanation, Liked, Viewer
from rankwright.recommend.reference import REFERENCE, PerUser, a_ranker

__all__ = ["Recommendation", "Recommender"]


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
    course. Items that nobody rated are never recommended.

    Parameters
    ----------
    ranker : a ranker, a pipeline that ends in one, or None, default None
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

    _rules: ClassVar = {
        "ranker": rules.either(rules.nothing(), a_ranker()),
        "n_reference": rules.at_least(1),
        "reference": rules.one_of(*REFERENCE),
        "random_state": rules.a_seed(),
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
        for name, rule in self._rules.items():
            rule.check(type(self).__name__, name, getattr(self, name))
        self.ratings_ = check_ratings(ratings, type(self).__name__)
        if np.ptp(ratings.value) == 0:
            warnings.warn(
                "Recommender: all ratings are equal, nobody prefers anything: every item gets the "
                "same score.",
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
        """Scores of some items (ids; None: all) for a user of the data; higher comes first."""
        rated, value, number = self._user(user)
        return self._scores(rated, value, self._items(items), number)

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
        return predict_rows(
            lambda user, wanted: self._scores(*self._known.row(user), wanted, user), asked
        )

    def recommend(self, user: Any, n: int = 10) -> list[Recommendation]:
        """The items, not rated by this user of the data so far, that the user will like best."""
        rated, value, number = self._user(user)
        return self._best(rated, value, n, number)

    def recommend_new(self, ratings: Mapping[Any, float], n: int = 10) -> list[Recommendation]:
        """The items that somebody with these ratings ({item: rating}) will like best.

        For people who are not in the data; nothing is learned anew.
        """
        rated, value = self._given(ratings)
        return self._best(rated, value, n, -1)

    def recommend_all(self, n: int = 10, users: Any = None) -> dict[Any, list[Recommendation]]:
        """Recommendations for many users (ids; None: all) at once, on all cores."""
        check_is_fitted(self)
        chosen = self.ratings_.users if users is None else users
        ids = np.asarray(chosen, dtype=self.ratings_.users.dtype).tolist()
        size = max(1, -(-len(ids) // (4 * n_threads())))
        blocks = [ids[at : at + size] for at in range(0, len(ids), size)]
        found = map_blocks(lambda block: [self.recommend(user, n) for user in block], blocks)
        return dict(zip(ids, [each for block in found for each in block], strict=True))

    def explain(self, user: Any, item: Any, n: int = 5) -> Explanation:
        """Why an item has its score for a user (an id, or {item: rating} of somebody new).

        Returns
        -------
        explanation : Explanation
            ``viewers``: reference users who rated the item, by what they count; ``ratings``: the
            user's own ratings, by what each adds to the score (default model only). Prints as text.
        """
        check_is_fitted(self)
        if isinstance(user, Mapping):
            (rated, value), number = self._given(user), -1
        else:
            rated, value, number = self._user(user)
        wanted = int(self._items([item])[0])
        if self.ratings_.item_counts[wanted] == 0:
            raise DataError(f"explain: nobody rated item {item!r}, so nothing is known about it.")
        score = float(self._scores(rated, value, np.array([wanted]), number)[0])
        if isinstance(self.model_, PerUser):
            viewers = self.model_.viewers(rated, value, wanted, number)
            return Explanation(item, score, self._viewers(*viewers, n), ())
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
        added = factors.reasons(rated, value, wanted)
        first = np.argsort(-np.abs(added), kind="stable")[:n]
        own = tuple(
            Liked(self.ratings_.items[rated[i]], float(value[i]), float(added[i])) for i in first
        )
        return Explanation(item, score, viewers, own)

    def _viewers(self, users: Any, points: Any, weight: Any, n: int) -> tuple[Viewer, ...]:
        first = np.argsort(-np.abs(weight), kind="stable")[:n]
        return tuple(
            Viewer(self.ratings_.users[users[i]], float(points[i]), float(weight[i])) for i in first
        )

    def _best(
        self, rated: IntArray, value: FloatArray, n: int, number: int
    ) -> list[Recommendation]:
        if not rules.at_least(1).test(n):
            raise ParameterError(f"recommend(n={n!r}): n must be an integer >= 1.")
        wanted = self._rated_items[~np.isin(self._rated_items, rated)]
        scores = self._scores(rated, value, wanted, number)
        first = np.lexsort((wanted, -scores))[:n]
        return [
            Recommendation(item, float(score))
            for item, score in zip(
                self.ratings_.items[wanted[first]].tolist(), scores[first], strict=True
            )
        ]

    def _scores(
        self, rated: IntArray, value: FloatArray, wanted: IntArray, number: int
    ) -> FloatArray:
        who = (number,) if isinstance(self.model_, PerUser) else ()
        found: FloatArray = self.model_.scores(rated, value, wanted, *who)
        if not np.isfinite(found).all():
            raise DataError(
                "Recommender: a score is beyond any number, because a rating is, or because the "
                "model file was made so. Give ratings on the scale of the data."
            )
        return found

    def _user(self, user: Any) -> tuple[IntArray, FloatArray, int]:
        check_is_fitted(self)
        if user not in self.ratings_.user_vocabulary:
            raise DataError(
                f"user {user!r} is not one of the {self.ratings_.n_users} users of the data. For "
                "somebody new use recommend_new({item: rating, ...})."
            )
        number = int(self.ratings_.user_vocabulary.numbers([user])[0])
        return *self._known.row(number), number

    def _items(self, items: Any) -> IntArray:
        if items is None:
            return np.arange(self.ratings_.n_items)
        return self.ratings_.item_vocabulary.numbers(items)

    def _given(self, ratings: Mapping[Any, float]) -> tuple[IntArray, FloatArray]:
        check_is_fitted(self)
        if not isinstance(ratings, Mapping):
            raise DataError(
                f"recommend_new got {type(ratings).__name__}: give a dict {{item: rating, ...}}."
            )
        for item, rating in ratings.items():
            if not rules.number().test(rating):
                raise DataError(
                    f"recommend_new: item {item!r} is rated {rating!r}, not a finite number."
                )
        value = np.array(list(ratings.values()), dtype=np.float64)
        if not len(value):
            return np.zeros(0, np.int64), value
        return self.ratings_.item_vocabulary.numbers(list(ratings)), value
