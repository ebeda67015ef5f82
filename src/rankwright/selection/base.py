"""The base of estimators that choose a ranker and then work as that ranker."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import signature
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn import config_context
from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.preprocessing import MaxAbsScaler, StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from rankwright._typing import FloatArray, IntArray, Matrix, MatrixLike
from rankwright.data.io.items import detect_kind, read_items
from rankwright.data.items import Items, first_missing
from rankwright.data.queries import Queries
from rankwright.exceptions import DataError, Message, ParameterError, Setting
from rankwright.metrics.measure import predict_with
from rankwright.rankers.base import Ranker
from rankwright.rankers.preprocessing import RankPipeline, with_encoding
from rankwright.runtime import progress


class BestRanker(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Scores, predicts and ranks as ``best_estimator_`` does, which ``fit`` of a subclass sets."""

    # qid is requested by default, so that pipelines and searches pass it on (metadata routing).
    __metadata_request__fit: ClassVar = {"qid": True}
    __metadata_request__score: ClassVar = {"qid": True}
    __metadata_request__predict: ClassVar = {"qid": True}
    __metadata_request__decision_function: ClassVar = {"qid": True}

    best_estimator_: Any
    random_state: Any

    def _seed(self) -> int | None:
        """``random_state`` as a seed that can be used several times."""
        is_state = isinstance(self.random_state, np.random.RandomState)
        return int(self.random_state.randint(2**31 - 1)) if is_state else self.random_state

    def fit_items(self, items: Items, valid: Items | None = None) -> Self:
        """Fit to items, with their queries, weights and feature names.

        ``valid`` are the items to evaluate on, instead of folds of the queries.
        """
        given = {} if valid is None else {"eval_set": (valid.X, valid.y), "eval_qid": valid.qid}
        self.fit(items.X, items.y, qid=items.qid, sample_weight=items.weight, **given)
        self.best_estimator_ = with_encoding(self.best_estimator_, items)
        return self

    def decision_function(self, X: MatrixLike, qid: ArrayLike | None = None) -> FloatArray:
        """Compute the score of each row; higher ranks first."""
        check_is_fitted(self, "best_estimator_")
        return np.asarray(predict_with(self.best_estimator_, "decision_function", X, qid))

    def predict(self, X: MatrixLike, qid: ArrayLike | None = None) -> FloatArray:
        """Predict in units of ``y``: the grade for ordinal rankers, otherwise the score."""
        check_is_fitted(self, "best_estimator_")
        return np.asarray(predict_with(self.best_estimator_, "predict", X, qid))

    def rank(self, X: MatrixLike, qid: ArrayLike | None = None) -> IntArray:
        """Return the rank of each row in its query, from 1; equal scores keep their order."""
        scores = self.decision_function(X, qid)
        return Queries.from_ids(qid, len(scores)).places(scores)

    def score(self, X: MatrixLike, y: ArrayLike, qid: ArrayLike | None = None) -> float:
        """Compute the pairwise accuracy of the best ranker."""
        check_is_fitted(self, "best_estimator_")
        with config_context(enable_metadata_routing=True):
            return float(self.best_estimator_.score(X, y, qid=qid))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type = "ranker"
        tags.target_tags.required = True
        tags.input_tags.sparse = True
        return tags


def default_measure(y: FloatArray) -> str:
    """Return NDCG@10 if the grades can be gains, else the fraction of misordered pairs."""
    return "NDCG@10" if len(y) and y.min() >= 0 and y.max() <= 30 else "Disagreement"


def scaled(estimator: BaseEstimator, X: Matrix) -> Any:
    """The estimator, behind a scaler if it needs features on one scale."""
    wants = isinstance(estimator, Ranker) and estimator._wants_scaled_features
    wants = wants and estimator.normalize is None
    if not wants or get_tags(estimator).input_tags.pairwise:
        return estimator
    scaler = MaxAbsScaler() if hasattr(X, "tocsr") else StandardScaler()
    return RankPipeline([("scale", scaler), ("rank", estimator)])


def check_learnable(items: Items, ranker: BaseEstimator | None = None, name: str = "items") -> None:
    """Refuse items without features or an order, and missing values the ranker does not take."""
    if items.n_features == 0 and items.read:
        raise DataError(
            f"{name}: no column is left to learn from.\n",
            items.reading,
            kind="no features",
        )
    if items.y.min() == items.y.max():
        raise DataError(
            f"{name}: every item has the grade {items.y[0]:g}, so there is no order to learn.",
            fix=Message("Check that this is the column of the grades (", Setting("y"), ")."),
        )
    needs_all = ranker is not None and not get_tags(ranker).input_tags.allow_nan
    missing = first_missing(items) if needs_all else None
    if missing is not None:
        raise DataError(
            f"{name}: {type(ranker).__name__} needs every value, and {missing}. Fill them, or use "
            "a ranker that learns from missing values, such as RankBoost."
        )


def detect_training_kind(
    path: str | os.PathLike[str],
    format: str | None = None,
    *,
    by_columns: bool = True,
    clicks: bool = False,
    item_features: str | os.PathLike[str] | None = None,
) -> str:
    """What a ranker can learn from in a file: ``"items"``, ``"log"`` or ``"pairs"``.

    Parameters
    ----------
    path, format : the file, and its format if it is known
    by_columns : False takes every table as items, whatever its columns are called
    clicks : learn from the clicks of a log of impressions
    item_features : the file of the features of the items of a log or of pairs
    """
    name, kind = os.fspath(path), detect_kind(path, format, by_columns=by_columns)
    if clicks:
        if kind == "pairs":
            fix = Message("Omit ", Setting("clicks", True), ".")
            raise DataError("it holds pairs of winner and loser.", file=name, fix=fix)
        return "log"
    if kind in ("log", "store"):
        raise DataError(
            "it is a log of impressions.",
            file=name,
            fix=Message(
                "Learn from its clicks with ",
                Setting("clicks", True),
                ", and name the features of its items with ",
                Setting("item_features", "FILE"),
                ".",
            ),
        )
    if kind == "pairs" and item_features is None:
        raise DataError(
            "it holds pairs of winner and loser.",
            file=name,
            fix=Message(
                "Name the features of these items with ", Setting("item_features", "FILE"), "."
            ),
        )
    if kind != "pairs" and item_features is not None and by_columns:
        for_logs = " is for logs (", Setting("clicks", True), ") and pairs."
        raise ParameterError(Setting("item_features"), *for_logs)
    return "items" if item_features is None else "pairs"


def read_training(
    data: str | os.PathLike[str] | Items,
    valid: str | os.PathLike[str] | None = None,
    ranker: BaseEstimator | None = None,
    **reading: Any,
) -> tuple[Items, Items | None]:
    """Read training items and validation items with the same features, and check both.

    Parameters
    ----------
    data : path of the training items, or the items
    valid : path of the validation items, or None
    ranker : the ranker that will learn from them; None for any
    **reading : as in :func:`rankwright.read_items`
    """
    items = data if isinstance(data, Items) else read_items(data, **reading)
    check_learnable(items, ranker, "items" if items is data else str(data))
    if valid is None:
        return items, None
    reading |= {"like": items, "group": "auto"}  # of its own, if it has one
    other = read_items(valid, **reading)
    check_learnable(other, ranker, str(valid))
    return items, other


def request_weights(model: BaseEstimator) -> None:
    """Make a pipeline pass ``sample_weight`` to its ranker, and to no other step."""
    steps = [step for _, step in getattr(model, "steps", ())]
    for step in steps[:-1]:
        if hasattr(step, "set_fit_request") and "sample_weight" in signature(step.fit).parameters:
            with config_context(enable_metadata_routing=True):
                step.set_fit_request(sample_weight=False)
    for ranker in steps[-1:] or [model]:
        with config_context(enable_metadata_routing=True):
            ranker.set_fit_request(sample_weight=True)


@contextmanager
def watching(
    model: BaseEstimator, work: progress.Work, stop: Callable[[], bool] | None = None
) -> Iterator[None]:
    """Show the rounds of a ranker, if that does not slow it down, and end it by ``stop``."""
    shows = work.shown and hasattr(model, "warm_start")
    if not (shows or stop) or getattr(model, "callbacks", ()) is not None:
        yield
        return

    def after(round_: Any) -> bool:
        work.update(note=f"round {round_.number}")
        return stop is not None and stop()

    model.callbacks = [after]
    try:
        yield
    finally:
        model.callbacks = None
        work.update(note="")
