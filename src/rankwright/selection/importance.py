"""Which features a ranker relies on: permutation importance and partial dependence."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from rankwright._typing import FloatArray, IntArray, Matrix
from rankwright.data.inputs import checked_rows
from rankwright.data.queries import Queries
from rankwright.data.vocabulary import as_ids
from rankwright.metrics.evaluation import evaluate
from rankwright.metrics.measure import Measure, predict_with
from rankwright.rankers import schema
from rankwright.rankers.checks import feature_number

CONFIDENCE = 1.96  # standard errors: an interval that covers 95 %


@dataclass(frozen=True, eq=False)
class Importances:
    """Permutation importances. Prints as a table, largest first.

    Attributes
    ----------
    measure : Measure
    names : tuple of str
    mean : (n_features,) the mean decrease over queries and repeats; negative if shuffling helped
    interval : (n_features, 2) 95 % interval of the mean, over queries
    repeats : (n_repeats, n_features) the mean decrease of each repeat
    """

    measure: Measure
    names: tuple[str, ...]
    mean: FloatArray
    interval: FloatArray
    repeats: FloatArray

    def __repr__(self) -> str:
        width = max(map(len, self.names), default=0)
        order = np.argsort(-self.mean, kind="stable")
        rows = [
            f"{self.names[i]:{width}}  {self.mean[i]:+.4f}  "
            f"({self.interval[i, 0]:+.4f} to {self.interval[i, 1]:+.4f})"
            for i in order
        ]
        return "\n".join([f"fall of {self.measure} if a feature is shuffled", *rows])


def permutation_importance(
    model: BaseEstimator,
    X: Matrix,
    y: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    measure: str | Measure = "NDCG@10",
    within_queries: bool = True,
    n_repeats: int = 5,
    random_state: Any = None,
) -> Importances:
    """Compute how much a measure drops when the values of one feature are shuffled.

    Use rows that the model was not trained on. Shuffling within each query removes the feature's
    information about the order but keeps its distribution in the query; shuffling across queries
    also gives rows the values of other queries.

    Parameters
    ----------
    model : a fitted ranker, pipeline or saved scorer
    X : (n_items, n_features) array, CSR matrix or data frame
    y : (n_items,) grades
    qid : (n_items,) query ids, or None for one query
    measure : str or Measure, default "NDCG@10"
    within_queries : bool, default True
    n_repeats : int >= 1, default 5
    random_state : int, RandomState or None

    Examples
    --------
    >>> from rankwright import RidgeRanker
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.normal(size=(400, 2)), np.repeat(np.arange(40), 10)
    >>> y = (X[:, 1] > 0.5).astype(int)
    >>> model = RidgeRanker().fit(X, y, qid=qid)
    >>> found = permutation_importance(model, X, y, qid, random_state=0)
    >>> found.names[int(found.mean.argmax())], bool(found.interval[1, 0] > 0.1)
    ('x1', True)
    """
    schema.at_least(1).check("permutation_importance", "n_repeats", n_repeats)
    schema.boolean().check("permutation_importance", "within_queries", within_queries)
    schema.random_state().check("permutation_importance", "random_state", random_state)
    parsed, rows, names = Measure.parse(measure), _dense(X), _names(X, model)
    ids = None if qid is None else as_ids(qid)
    groups = Queries.from_ids(ids if within_queries else None, len(rows)).codes
    seed = random_state.randint(2**31 - 1) if hasattr(random_state, "randint") else random_state
    rng = np.random.default_rng(seed)

    def per_query(values: FloatArray) -> FloatArray:
        scores, predictions = score_rows(model, values, ids), None
        if parsed.reads_predictions:
            predictions = predict_with(model, "predict", values, ids)
        measured = evaluate(scores, y, ids, parsed, predictions=predictions)
        return parsed.sign * measured.per_query(parsed)

    whole = per_query(rows)
    falls = np.empty((n_repeats, rows.shape[1], len(whole)))
    for repeat in range(n_repeats):
        order = _shuffled(groups, rng)
        for feature in range(rows.shape[1]):
            changed = rows.copy()
            changed[:, feature] = rows[order, feature]
            falls[repeat, feature] = whole - per_query(changed)
    by_query = falls.mean(axis=0)
    by_query = by_query[:, np.isfinite(by_query).all(axis=0)]  # queries without a value are skipped
    mean, n_queries = by_query.mean(axis=1), by_query.shape[1]
    error = by_query.std(axis=1, ddof=1) / np.sqrt(n_queries) if n_queries > 1 else mean * 0
    interval = np.stack([mean - CONFIDENCE * error, mean + CONFIDENCE * error], axis=1)
    return Importances(parsed, names, mean, interval, np.nanmean(falls, axis=2))


def _shuffled(groups: IntArray, rng: np.random.Generator) -> IntArray:
    """The rows in random order inside each group, each group at the rows that it had."""
    order = np.empty(len(groups), np.int64)
    by_group = np.argsort(groups, kind="stable")
    order[by_group] = np.lexsort((rng.random(len(groups)), groups))
    return order


@dataclass(frozen=True, eq=False)
class Dependence:
    """The mean score as a function of one feature.

    Attributes
    ----------
    name : str
    values : (n,) ascending values of the feature
    scores : (n,) the mean score of the rows if the feature has that value
    is_step : bool
        Whether the score is a step function: ``scores[i]`` then holds for every value above
        ``values[i - 1]``, up to ``values[i]``.
    """

    name: str
    values: FloatArray
    scores: FloatArray
    is_step: bool

    @property
    def span(self) -> float:
        """How much the feature can change the mean score."""
        return float(self.scores.max() - self.scores.min())


def partial_dependence(
    model: BaseEstimator,
    X: Matrix,
    feature: int | str,
    *,
    values: object = None,
    n_values: int = 50,
) -> Dependence:
    """Compute the mean score of the rows of X as a function of one feature.

    (scikit-learn's function of this name takes classifiers and regressors only.) Trees and step
    functions are evaluated at their own thresholds, so that the result is exact; if there are more
    than ``n_values`` thresholds, some are skipped.

    Parameters
    ----------
    model : a fitted ranker, pipeline or saved scorer
    X : (n_items, n_features) array, CSR matrix or data frame
    feature : int or str, a column of X
    values : values to try; by default thresholds of the model, or quantiles of the column
    n_values : int >= 2, default 50

    Examples
    --------
    >>> from rankwright import RankBoost
    >>> X = np.arange(8.0)[:, None]
    >>> model = RankBoost(n_estimators=1).fit(X, [0, 0, 0, 1, 1, 1, 1, 1])
    >>> curve = partial_dependence(model, X, 0)
    >>> curve.values, curve.is_step, bool(curve.scores[0] < curve.scores[1])
    (array([2., 7.]), True, True)
    """
    schema.at_least(2).check("partial_dependence", "n_values", n_values)
    rows, names = _dense(X), _names(X, model)
    column = feature_number("partial_dependence", feature, names, rows.shape[1])
    splits = _split_values(model, column)
    if values is None:
        values = _grid(rows[:, column], splits, n_values)
    grid = np.unique(np.asarray(values, np.float64))
    changed = np.repeat(rows[None], len(grid), axis=0)
    changed[:, :, column] = grid[:, None]
    scores = score_rows(model, changed.reshape(-1, rows.shape[1]), None)
    means = scores.reshape(len(grid), -1).mean(axis=1)
    return Dependence(names[column], grid, means, splits is not None)


def _grid(column: FloatArray, splits: FloatArray | None, n_values: int) -> FloatArray:
    finite = column[np.isfinite(column)]
    if not len(finite):
        return np.zeros(1)
    if splits is None:
        return np.quantile(finite, np.linspace(0, 1, n_values))
    inside = splits[(splits >= finite.min()) & (splits < finite.max())]
    if len(inside) >= n_values:
        inside = inside[np.linspace(0, len(inside) - 1, n_values - 1).round().astype(np.int64)]
    return np.append(inside, finite.max())


def _split_values(model: BaseEstimator, feature: int) -> FloatArray | None:
    """The thresholds of a model on a feature; None if its score is not a step function of it."""
    model = getattr(model, "best_estimator_", model)
    if hasattr(model, "_fitted_scorer"):
        scorer = model._fitted_scorer()
    else:
        scorer = None if getattr(model, "transforms", True) else model.scorer
    return None if scorer is None else scorer.split_values(feature)


def score_rows(model: BaseEstimator, rows: NDArray[Any], qid: ArrayLike | None) -> FloatArray:
    """The scores of rows whose columns are in the order of the model's features."""
    with warnings.catch_warnings():
        # The rows were taken from the data that named the features.
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        return np.asarray(predict_with(model, "decision_function", rows, qid))


def _dense(X: Matrix) -> FloatArray:
    X = checked_rows(X.to_numpy() if hasattr(X, "to_numpy") else X)
    return np.array(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)


def _names(X: Matrix, model: BaseEstimator) -> tuple[str, ...]:
    names = getattr(checked_rows(X), "columns", getattr(model, "feature_names_in_", None))
    if names is None:
        names = [f"x{i}" for i in range(np.shape(X)[1])]
    return tuple(str(name) for name in names)
