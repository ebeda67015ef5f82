"""Several rating models as ranking features of one ranker: the default recommender."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, clone

from rankwright._typing import FloatArray, IntArray
from rankwright.data.behavior.ratings import Ratings
from rankwright.exceptions import DataError
from rankwright.feedback.base import Grades
from rankwright.parallel import map_blocks, n_threads, ranges, single_threaded_blas
from rankwright.rankers import schema
from rankwright.rankers.base import Ranker
from rankwright.rankers.schema import Holds
from rankwright.recommend.models.base import ItemMeans, RatingModel, Reasons, Table
from rankwright.recommend.models.factors import MatrixFactorization
from rankwright.recommend.models.neighbors import ItemKNN, UserSimilarity

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

    def __init__(self, ranker: Any = None, random_state: int = 0) -> None:
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
            known = Table.by_user(train)
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
        return np.asarray(self.ranker_._scorer().decision_function(features))

    def explain(self, rated: IntArray, value: FloatArray, item: int, user: int, n: int) -> Reasons:
        """Similar users who rated the item, and what the user's own ratings add to its score."""
        similarity, factors = self.models_[2:]
        assert isinstance(similarity, UserSimilarity)
        assert isinstance(factors, MatrixFactorization)
        rows = self._ratings.by_item.order[slice(*self._ratings.by_item.ptr[item : item + 2])]
        users, points = self._ratings.user[rows], self._ratings.value[rows]
        weight = similarity.similarity(rated, value)[users]
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
    table, order = Table.by_user(ratings), ratings.by_user.order
    scores = np.zeros((len(ratings), n_columns) if n_columns else len(ratings))

    def block(users: tuple[int, int]) -> None:
        for user in range(*users):
            items = table.row(user)[0]
            if len(items):
                scores[order[table.ptr[user] : table.ptr[user + 1]]] = score(user, items)

    map_blocks(block, ranges(ratings.n_users, 4 * n_threads()))
    return scores
