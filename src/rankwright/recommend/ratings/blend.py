"""Lists from ratings: several rating models as ranking features of one ranker (the default)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone

from rankwright._typing import FloatArray, IntArray
from rankwright.data.behavior.attributes import SideFeatures
from rankwright.data.behavior.ratings import Ratings, first_twice
from rankwright.exceptions import DataError, Message, ParameterError, RankwrightWarning, Setting
from rankwright.feedback.base import Grades
from rankwright.rankers import schema
from rankwright.rankers.base import Ranker
from rankwright.rankers.schema import Holds
from rankwright.recommend.events.histories import extended
from rankwright.recommend.explanations import Liked, RatingExplanation, Viewer
from rankwright.recommend.lists import POOL, ListBlock, Selection, nearest_users, user_cosine
from rankwright.recommend.ratings.base import ItemMeans, RatingModel, RatingRows, Reasons
from rankwright.recommend.ratings.factors import MatrixFactorization
from rankwright.recommend.ratings.neighbors import ItemKNN, UserSimilarity
from rankwright.recommend.ratings.per_user import caller_level
from rankwright.runtime import map_blocks, n_threads, ranges, single_threaded_blas

# Models sum squares of ratings in float32.
LARGEST_RATING, LEAST_SPREAD = 1e15, 1e-6
SHARE = 0.1  # of the ratings in a fold
ENOUGH = 20_000  # held-out ratings to train the ranker on; folds are added until there are so many
MODELS: tuple[type[RatingModel], ...] = (ItemMeans, ItemKNN, UserSimilarity, MatrixFactorization)


class Blend(BaseEstimator):  # type: ignore[misc]
    """A ranker whose features are the scores of several rating models (stacking).

    The authors of RankBoost note that boosting can combine whole ranking algorithms. Each rating
    model is fitted without a tenth of the ratings and scores that tenth. The ranker learns from
    these scores, with users as queries, and the models are fitted once more on all ratings. Where
    a tenth is too small, other tenths are held out as well. If held-out ratings contain no
    preference (very few ratings), matrix factorization is used alone.

    Parameters
    ----------
    ranker : the ranker that combines the models; None is MPRank with hardly any regularization
    random_state : seed of the folds and of the matrix factorization

    Attributes
    ----------
    models_ : list of RatingModel, one of each of ``MODELS``
    ranker_ : the fitted ranker, or None
    """

    weight_is_agreement: ClassVar = True
    _constraints: ClassVar = {
        "ranker": schema.optional(schema.instance_of("a ranker", Ranker)),
        "random_state": schema.at_least(0),
    }

    def __init__(self, ranker: Ranker | None = None, random_state: int = 0) -> None:
        self.ranker = ranker
        self.random_state = random_state

    def fit(self, ratings: Ratings) -> Self:
        self._ratings, self.ranker_ = ratings, None
        self.models_ = [kind() for kind in MODELS]
        self.models_[-1].set_params(random_state=self.random_state)
        uniform = np.random.default_rng(self.random_state).random(len(ratings))
        fold = (uniform / SHARE).astype(np.int64)
        n_folds = min(round(1 / SHARE), int(np.ceil(ENOUGH / (SHARE * len(ratings)))))
        one_fold = np.bincount(fold).max() == len(ratings)  # nothing would be left to fit
        held_out = Grades.from_ratings(ratings.take(fold < n_folds))
        # Matrices are small here: threads inside BLAS would only wait for each other.
        with single_threaded_blas():
            if not one_fold and held_out.total_weight > 0:
                self.ranker_ = self._fit_ranker(ratings, fold, n_folds)
            for model in self.models_:
                model.fit(ratings) if self.ranker_ is None else model.refit(ratings)
        return self

    def _fit_ranker(self, ratings: Ratings, fold: IntArray, n_folds: int) -> Any:
        """Train the ranker on scores of ratings that the models have not seen."""
        from rankwright.rankers.magnitude.mprank import MPRank

        features = np.zeros((len(ratings), len(MODELS)))
        for number in range(n_folds):
            train, held_out = ratings.take(fold != number), ratings.take(fold == number)
            for model in self.models_:
                model.fit(train)
            known = RatingRows.by_user(train)
            features[fold == number] = predict_rows(
                lambda user, items: self._features(*known.row(user), items),  # noqa: B023
                held_out,
                len(MODELS),
            )
        used = fold < n_folds
        # Hardly any regularization, on small scales too.
        loose = MPRank(C=1e6 / min(1.0, float(ratings.value.var())))
        ranker = loose if self.ranker is None else clone(self.ranker)
        return ranker.fit(features[used], ratings.value[used], qid=ratings.user[used])

    def prepare(self, ratings: Ratings) -> None:
        """After loading: check that all this could be learned from these ratings."""
        kinds = [type(model).__name__ for model in self.models_]
        if kinds != [kind.__name__ for kind in MODELS]:
            raise DataError(f"Blend.models_ holds {', '.join(kinds)}; it needs one of each kind.")
        if self.ranker_ is not None and self.ranker_.n_features_in_ != len(MODELS):
            raise DataError(
                f"Blend.ranker_ has {self.ranker_.n_features_in_} features; it needs one for each "
                f"of the {len(MODELS)} models."
            )
        self._ratings = ratings
        for model in self.models_:
            model.check_sizes(ratings)
            model.prepare(ratings)

    @classmethod
    def learned(cls) -> dict[str, Holds]:
        return {
            "models_": Holds((RatingModel,), several=True),
            "ranker_": Holds((Ranker,), optional=True),
        }

    def scores(
        self, rated: IntArray, value: FloatArray, items: IntArray, user: int = -1
    ) -> FloatArray:
        """Scores of ``items`` for a user who gave the items ``rated`` these values."""
        if self.ranker_ is None:
            return self.models_[-1].scores(rated, value, items)
        if len(items) == 0:
            return np.zeros(0)
        # Straight to the scorer: validating these rows would cost more than scoring them.
        features = self._features(rated, value, items)
        return np.asarray(self.ranker_._fitted_scorer().decision_function(features))

    def explain(self, rated: IntArray, value: FloatArray, item: int, user: int, n: int) -> Reasons:
        """Similar users who rated the item, and what the user's own ratings add to its score."""
        similarity, factors = self.models_[2:]
        assert isinstance(similarity, UserSimilarity)
        assert isinstance(factors, MatrixFactorization)
        rows = self._ratings.by_item.order[slice(*self._ratings.by_item.ptr[item : item + 2])]
        users, points = self._ratings.user[rows], self._ratings.value[rows]
        weight = similarity.similarities(rated, value)[users]
        kept = (weight > 0) & (users != user)
        items = np.array([item])
        # Scoring again without each rating is slow; factorization tells which ratings matter.
        contributions = np.abs(factors.contributions(rated, value, item))
        candidates = np.argsort(-contributions, kind="stable")[: 4 * n]
        without = [
            self.scores(np.delete(rated, i), np.delete(value, i), items)[0] for i in candidates
        ]
        gains = self.scores(rated, value, items)[0] - np.array(without)
        first = np.argsort(-np.abs(gains), kind="stable")[:n]
        return Reasons(users[kept], points[kept], weight[kept], candidates[first], gains[first])

    def _features(self, rated: IntArray, value: FloatArray, items: IntArray) -> FloatArray:
        return np.column_stack([model.scores(rated, value, items) for model in self.models_])


def predict_rows(
    score: Callable[[int, IntArray], FloatArray], ratings: Ratings, n_columns: int = 0
) -> FloatArray:
    """``score(user, items)``, one or ``n_columns`` numbers per row of ``ratings``, on all cores."""
    table, order = RatingRows.by_user(ratings), ratings.by_user.order
    scores = np.zeros((len(ratings), n_columns) if n_columns else len(ratings))

    def block(users: tuple[int, int]) -> None:
        for user in range(*users):
            items = table.row(user)[0]
            if len(items):
                scores[order[table.ptr[user] : table.ptr[user + 1]]] = score(user, items)

    map_blocks(block, ranges(ratings.n_users, 4 * n_threads()))
    return scores


class Rated(NamedTuple):
    """What a user rated."""

    items: IntArray
    value: FloatArray
    number: int  # of a user of the data, -1 for a new one


class RatingBackend:
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
        self,
        data: Ratings,
        model: BaseEstimator,
        contents: Any = (None, None),
        titles: NDArray[Any] | None = None,
    ) -> None:
        self.data, self.model, self.titles = data, model, titles
        self.item_content, self.user_content = contents
        if self.user_content is not None:
            self.user_content.sum_deviations(data)
        self._by_user = RatingRows.by_user(data)
        self._rated = self._known = data.item_counts > 0
        if self.item_content is not None:
            self._known = self._rated | self.item_content.has_features
        # Ties are broken by average rating, then by number of ratings.
        mean = ItemMeans().fit(data).item_bias_
        self._rank = np.argsort(np.lexsort((-data.item_counts, -mean)))

    @property
    def block_size(self) -> int:
        """Users whose lists are made at once."""
        return 16 * n_threads()

    def known(self, numbers: IntArray) -> list[Rated]:
        """What users of the data rated."""
        return [Rated(*self._by_user.row(n), n) for n in np.asarray(numbers).tolist()]

    def new(self, items: IntArray, value: FloatArray, given: Mapping[Any, float]) -> list[Rated]:
        """What a new user rated, with a warning about ratings far outside the scale."""
        low, high = self.data.value.min(), self.data.value.max()
        # Some tolerance, because the data need not contain the ends of their scale.
        outside = np.maximum(low - value, value - high) > 0.5 * (high - low)
        if outside.any() and high > low:
            at = int(np.argmax(outside))
            warnings.warn(
                f"Recommender: item {list(given)[at]!r} is rated {value[at]:g}, and the ratings of "
                f"the data lie in {low:g} .. {high:g}. Give ratings on the same scale.",
                RankwrightWarning,
                stacklevel=caller_level(),
            )
        return [Rated(items, value, -1)]

    def scores(self, history: list[Rated], items: IntArray) -> FloatArray:
        """Scores of some items for one user."""
        if self.item_content is None and self.user_content is None:
            return self._model_scores(history, items)
        scores, rated = np.zeros((1, self.data.n_items)), np.flatnonzero(self._rated)
        scores[0, rated] = self._model_scores(history, rated)
        scores += self._offsets(history[0].number)
        if self.item_content is not None:
            scores = self.item_content.smooth(scores, average=True)
        return np.asarray(scores[0, items])

    def _offsets(self, user: int) -> FloatArray:
        """What users with similar features add to the scores of all items for a known user."""
        if self.user_content is None or user < 0:
            return np.zeros(self.data.n_items)
        return np.asarray(self.user_content.offsets(user))

    def _model_scores(self, history: list[Rated], items: IntArray) -> FloatArray:
        rated, value, number = history[0]
        scores: FloatArray = self.model.scores(rated, value, items, number)
        if scores.shape != items.shape:
            raise ParameterError(
                f"Recommender(ranker={self.model.ranker!r}): decision_function returns shape "
                f"{scores.shape} for {len(items)} items. Use a ranker, which gives one score each.",
                parameter="ranker",
            )
        if not np.isfinite(scores).all():
            raise DataError(
                "Recommender: a score overflows. A rating is far outside the scale of the data, or "
                "the model file holds such values. Give ratings on the scale of the data."
            )
        return scores

    def lists(self, histories: list[Rated], n: int, selection: Selection) -> ListBlock:
        """The best items for each user."""
        if len(histories) == 1:
            lists = [self._list(histories[0], n, selection)]
        else:
            with single_threaded_blas():  # the threads work on different users
                lists = map_blocks(lambda history: self._list(history, n, selection), histories)
        return ListBlock.of([items for items, _ in lists], [scores for _, scores in lists], n)

    def _list(self, history: Rated, n: int, selection: Selection) -> tuple[IntArray, FloatArray]:
        items = np.flatnonzero(self._known & selection.allowed)
        items = items[~np.isin(items, history.items)] if selection.exclude_taken else items
        scores = self.scores([history], items)
        order = np.lexsort((self._rank[items], -scores))
        order = order if selection.filter.max_per_category else order[: POOL * n]
        picked = selection.pick(items[order][None], scores[order][None], n)[0]
        return picked, scores[np.searchsorted(items, picked)]

    def similar(self, number: int) -> FloatArray:
        """The similarity of all items to an item: cosines of users."""
        return user_cosine(self.data, number)

    def similar_users(self, history: list[Rated], n: int) -> list[tuple[int, float]]:
        """The users whose ratings, less their means, point the same way."""
        data, (items, value, number) = self.data, history[0]
        mean = np.bincount(data.user, data.value, data.n_users) / np.maximum(data.user_counts, 1)
        own = np.zeros(data.n_items)
        own[items] = value - value.mean() if len(value) else 0.0
        return nearest_users(data, data.value - mean[data.user], own, number, n)

    def explain(self, history: list[Rated], number: int, n: int) -> RatingExplanation:
        """The users and the own ratings that say most about the score."""
        rated, value, user = history[0]
        if not self._known[number]:
            item = self.data.items[[number]].tolist()[0]
            raise DataError(f"explain: nobody rated item {item!r}, so nothing is known about it.")
        score = float(self.scores(history, np.array([number]))[0])
        # An item that nobody rated is explained by the item most like it.
        source = number if self._rated[number] else self.item_content.most_like(number)
        reasons = self.model.explain(rated, value, source, user, n)
        first = np.argsort(-np.abs(reasons.weight), kind="stable")[:n]
        users = self.data.users[reasons.users[first]].tolist()
        points, weight = reasons.points[first].tolist(), reasons.weight[first].tolist()
        viewers = tuple(map(Viewer, users, points, weight)) if source == number else ()
        numbers = [number, *rated[reasons.rated]]
        item, *own = self.data.items[numbers].tolist()
        liked = tuple(map(Liked, own, value[reasons.rated].tolist(), reasons.added.tolist()))
        agreement = self.model.weight_is_agreement
        middle = float(self.data.value.mean())
        titles = {}
        if self.titles is not None:
            titles = dict(zip([item, *own], self.titles[numbers].tolist(), strict=True))
        added = float(self._offsets(user)[number])
        return RatingExplanation(item, score, viewers, liked, agreement, middle, titles, added)


def with_ids(ratings: Ratings, features: SideFeatures) -> Ratings:
    """The same ratings, of a catalog and users that include those with features."""
    users, items = ratings.users, ratings.items
    if features.users is not None:
        users = extended(ratings.user_vocabulary, features.users.ids)[0]
    if features.items is not None:
        items = extended(ratings.item_vocabulary, features.items.ids)[0]
    return replace(ratings, users=users, items=items)


def check_ratings(ratings: object) -> Ratings:
    """Ratings to learn from, each pair of user and item at most once."""
    if not isinstance(ratings, Ratings):
        raise DataError(
            f"Recommender.fit got {type(ratings).__name__}: it takes Ratings or Interactions. Make "
            "them with read_ratings or Ratings.from_frame, read_interactions, "
            "Interactions.from_frame or, from a sparse matrix, Interactions.from_csr."
        )
    if len(ratings) == 0:
        raise DataError("Recommender.fit got no ratings: there is nothing to learn from.")
    largest, spread = float(np.abs(ratings.value).max()), float(np.ptp(ratings.value))
    if largest > LARGEST_RATING or 0.0 < spread < LEAST_SPREAD:
        raise DataError(
            f"Recommender.fit: the ratings reach {largest:g} and differ by {spread:g}: squares of "
            "such numbers overflow or vanish. Scale them, such as to 1 .. 5."
        )
    if (repeat := first_twice(ratings)) is not None:
        row, earlier = repeat
        user, item = ratings.users[ratings.user[row]], ratings.items[ratings.item[row]]
        raise DataError(
            f"Recommender.fit: user {user} rated item {item} in row {earlier} and again in row "
            f"{row}.",
            fix=Message("Read the ratings with ", Setting("duplicates", "last"), ' or "mean".'),
        )
    return ratings
