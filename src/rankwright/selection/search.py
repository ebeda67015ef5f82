"""A ranker that chooses its own parameters by cross-validation over queries."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from numpy.typing import ArrayLike
from sklearn import config_context
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.utils.validation import check_is_fitted

from rankwright.data.items import Items
from rankwright.data.queries import Queries
from rankwright.data.splits import fold_queries
from rankwright.exceptions import DataError, ParameterError
from rankwright.rankers.declared import as_grades
from rankwright.selection.runner import Runner, ask_ranker, fit_ranker
from rankwright.selection.trials import Trials, show_progress

__all__ = ["RankSearchCV"]


class RankSearchCV(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Search parameters by cross-validation over folds of whole queries, then train on all.

    A query is never cut: its rows are all in training or all in validation. (Cutting rows at random
    would measure how well a ranker remembers queries, not how well it ranks new ones.)

    Parameters
    ----------
    ranker : a ranker, or a pipeline that ends in one
    space, search, n_trials, n_jobs, random_state, like, progress
        As in :func:`tune`.
    measure : str, default "NDCG@10"; of a loss, such as RankLoss, the lowest is best
    n_folds : int, default 5

    Attributes
    ----------
    best_estimator_ : the ranker with the best parameters, trained on all queries
    best_params_ : dict
    best_score_ : float, mean of the measure over the folds
    trials_ : Trials; printed, they are a table

    Examples
    --------
    >>> from rankwright import RankSVM
    >>> from rankwright.testing.problem import make_problem
    >>> data = make_problem(n_queries=10)
    >>> search = RankSearchCV(RankSVM(), {"C": [0.1, 10.0]}, n_folds=3, measure="AP")
    >>> search = search.fit(data.X, data.y, qid=data.qid)
    >>> search.best_params_ in ({"C": 0.1}, {"C": 10.0})
    True
    >>> bool(search.score(data.X, data.y, qid=data.qid) > 0.8)
    True
    """

    __metadata_request__fit: ClassVar = {"qid": True}
    __metadata_request__score: ClassVar = {"qid": True}
    __metadata_request__predict: ClassVar = {"qid": True}
    __metadata_request__decision_function: ClassVar = {"qid": True}

    def __init__(
        self,
        ranker: Any,
        space: Any,
        *,
        measure: str = "NDCG@10",
        n_folds: int = 5,
        search: str = "grid",
        n_trials: int = 20,
        n_jobs: int | None = None,
        random_state: int = 0,
        like: str | None = None,
        progress: Any = False,
    ) -> None:
        self.ranker = ranker
        self.space = space
        self.measure = measure
        self.n_folds = n_folds
        self.search = search
        self.n_trials = n_trials
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.like = like
        self.progress = progress

    def fit(self, X: Any, y: ArrayLike, *, qid: Any) -> Self:
        """Search, then train the best on all rows.

        Parameters
        ----------
        X : (n_items, n_features) array, CSR matrix or data frame
        y : (n_items,) grades
        qid : (n_items,) query ids; there must be as many queries as folds
        """
        if not isinstance(self.n_folds, int) or self.n_folds < 2:
            raise ParameterError(f"RankSearchCV(n_folds={self.n_folds!r}): n_folds must be >= 2.")
        data = Items(X, as_grades(y, "y"), qid=qid)
        n_queries = Queries.from_ids(qid, len(data)).n_queries
        if n_queries < self.n_folds:
            raise DataError(
                f"{n_queries} queries cannot be cut into {self.n_folds} folds. Use fewer folds."
            )
        splits = fold_queries(data.qid, self.n_folds, random_state=self.random_state)
        folds = [(data.take(split.train), data.take(split.test)) for split in splits]
        report = show_progress(self.progress, self.measure)
        runner = Runner(self.ranker, folds, self.measure, report, self.n_jobs, self.like)
        self.trials_: Trials = runner.run(self.space, self.search, self.n_trials, self.random_state)
        best = self.trials_.best
        self.best_params_, self.best_score_ = best.params, best.value
        self.best_estimator_ = clone(self.ranker).set_params(**best.params)
        fit_ranker(self.best_estimator_, X, y, qid)
        return self

    def decision_function(self, X: Any, qid: Any = None) -> Any:
        """The score of each row; higher comes first."""
        check_is_fitted(self)
        return ask_ranker(self.best_estimator_, "decision_function", X, qid)

    def predict(self, X: Any, qid: Any = None) -> Any:
        """In the terms of ``y``: the grade for ordinal rankers, the score for the others."""
        check_is_fitted(self)
        return ask_ranker(self.best_estimator_, "predict", X, qid)

    def rank(self, X: Any, qid: Any = None) -> Any:
        """The place of each row in its query, 1 for the first."""
        scores = self.decision_function(X, qid)
        return Queries.from_ids(qid, len(scores)).places(scores)

    def score(self, X: Any, y: ArrayLike, qid: Any = None) -> float:
        """Pairwise accuracy of the best ranker, as its own ``score`` gives it."""
        check_is_fitted(self)
        with config_context(enable_metadata_routing=True):
            return float(self.best_estimator_.score(X, y, qid=qid))

    @property
    def n_features_in_(self) -> int:
        check_is_fitted(self)
        return int(self.best_estimator_.n_features_in_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type = "ranker"
        tags.target_tags.required = True
        return tags
