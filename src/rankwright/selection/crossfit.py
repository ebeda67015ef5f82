"""Cross-fitting: fit a ranker on folds of whole queries, score the queries that it has not seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import config_context
from sklearn.base import BaseEstimator
from sklearn.utils import _safe_indexing, indexable

from rankwright._typing import BoolArray, Column, FloatArray, IntArray, MatrixLike
from rankwright.data.inputs import columns_of
from rankwright.data.queries import Queries, Split
from rankwright.data.vocabulary import Hashes, as_column, as_ids, hash_ids, hash_rows, mix
from rankwright.feedback.base import as_grades, frozen_weights
from rankwright.metrics.evaluation import evaluate
from rankwright.metrics.measure import Measure, predict_with
from rankwright.metrics.scores import Scores
from rankwright.rankers.early_stopping import EarlyStopping
from rankwright.rankers.ensemble import deviation
from rankwright.rankers.preprocessing import RankPipeline, ranker_of
from rankwright.selection.base import request_weights

FEWEST_ROWS = 20  # of a single list; below that nothing is held out


class TrainingRows(NamedTuple):
    """Features, grades, query ids (or None) and weights (or None) of some rows."""

    X: Any
    y: FloatArray
    qid: Any
    weight: Any = None

    @classmethod
    def check(
        cls, X: MatrixLike, y: ArrayLike, qid: Column, name: str, weight: ArrayLike | None = None
    ) -> Self:
        """Rows that can be indexed, with one grade, one query id and one weight per row."""
        X, grades = indexable(X, as_grades(y, name))
        if qid is not None:
            qid = as_ids(qid)
            indexable(X, qid)
        if weight is not None:
            weight = as_column(weight, "sample_weight", len(grades))
            weight = frozen_weights(weight, len(grades), "sample_weight")
        return cls(X, grades, qid, weight)

    def take(self, index: IntArray) -> TrainingRows:
        qid, weight = (None if c is None else c[index] for c in (self.qid, self.weight))
        return TrainingRows(_safe_indexing(self.X, index), self.y[index], qid, weight)

    def content_order(self) -> tuple[TrainingRows, IntArray]:
        """The rows sorted by query and content, with queries numbered in that order.

        The order in which rows and queries were given, and how queries are called, then change
        nothing that is learned. Rows of weight 0 are left out. Also returns where each row was.
        """
        weight = np.ones(len(self.y)) if self.weight is None else self.weight
        key, queries = self.hashes(), Queries.from_ids(self.qid, len(self.y))
        content = _query_hashes(key, queries)
        position = np.empty(queries.n_queries, np.int64)
        position[np.argsort(content, kind="stable")] = np.arange(queries.n_queries)
        order = np.lexsort((weight, key, position[queries.codes]))
        order = order[weight[order] > 0]
        qid = None if self.qid is None else position[queries.codes]
        return TrainingRows(self.X, self.y, qid, self.weight).take(order), order

    def hashes(self) -> Hashes:
        """A hash of the content of each row, without its weight."""
        return hash_rows(_numbers(self.X), self.y)


def _query_hashes(key: Hashes, queries: Queries) -> Hashes:
    """A hash of the different rows of each query; a repeated row counts once, like a weight."""
    order = np.lexsort((key, queries.codes))
    code, ordered = queries.codes[order], key[order]
    new = np.ones(len(order), bool)
    new[1:] = (code[1:] != code[:-1]) | (ordered[1:] != ordered[:-1])
    content = np.zeros(queries.n_queries, np.uint64)
    np.add.at(content, code[new], ordered[new])  # modulo 2**64, so in any order
    return mix(content)


def _numbers(X: Any) -> Any:
    """Rows as numbers that a hash can be computed of; text columns by hashes of their values."""
    if hasattr(X, "tocsr") or isinstance(X, np.ndarray):
        return X if X.dtype.kind in "fiub" else np.column_stack([_number(c) for c in X.T])
    columns = columns_of(X).values() if hasattr(X, "columns") else np.asarray(X).T
    return np.column_stack([_number(np.asarray(column)) for column in columns])


def _number(column: NDArray[Any]) -> FloatArray:
    try:
        return np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError):
        texts = np.array([repr(value) for value in column.tolist()])
        return hash_ids(texts).view(np.float64)


@dataclass(frozen=True, eq=False)
class CrossFitting:
    """What all candidates are fitted to and evaluated on.

    Attributes
    ----------
    rows : the training rows, sorted by content
    folds : (rows to train on, rows held out) of each fold; empty if nothing can be held out
    valid : the rows of an ``eval_set``, to stop and to evaluate by instead of the held-out rows
    judged : the rows that candidates are evaluated on; None without folds and ``eval_set``
    measures : the first one decides
    """

    rows: TrainingRows
    folds: list[Split]
    valid: TrainingRows | None
    judged: TrainingRows | None
    measures: list[Measure]

    @classmethod
    def plan(
        cls,
        rows: TrainingRows,
        valid: TrainingRows | None,
        measures: list[Measure],
        n_folds: int,
        n_repeats: int,
        seed: int,
    ) -> Self:
        """Draw the folds from the content of the queries; ``rows`` are sorted by content."""
        folds, judged = [], valid
        if n_folds > 1:
            seeds = [seed + 1000003 * repeat for repeat in range(n_repeats)]
            single = Queries.from_ids(rows.qid, len(rows.y)).n_queries == 1
            draw = _fold_rows if single else _fold_queries
            drawn = [draw(rows, measures[0], n_folds, one) for one in seeds]
            if all(fold is not None for fold in drawn):
                folds = [
                    Split(np.flatnonzero(fold != k), np.flatnonzero(fold == k))
                    for fold in drawn
                    if fold is not None
                    for k in range(int(fold.max()) + 1)
                ]
                if valid is None:  # held-out parts of a single list are lists of their own
                    judged = rows._replace(qid=drawn[0]) if single else rows
        return cls(rows, folds, valid, judged, measures)

    @property
    def n_models(self) -> int:
        """How many models of each candidate are fitted and evaluated."""
        return len(self.folds) or int(self.valid is not None)

    def part(self, number: int) -> tuple[TrainingRows, TrainingRows]:
        """The rows that a model is fitted to, and those it stops by."""
        if not self.folds:
            assert self.valid is not None
            return self.rows, self.valid
        train, test = self.folds[number]
        return self.rows.take(train), self.rows.take(test) if self.valid is None else self.valid

    def held_out_scores(self, models: list[Any]) -> tuple[FloatArray, list[float], Any]:
        """Scores of the judged rows by models that have not seen them, and each model's scale.

        The scale of a model is the standard deviation of its scores within queries, on rows it has
        not seen; its scores are divided by it. A row gets the mean over the models that have not
        seen it. Also returns their mean predictions if a measure reads predictions.
        """
        assert self.judged is not None
        n_rows = len(self.judged.y)
        total, n_models, scales = np.zeros(n_rows), np.zeros(n_rows), []
        reads = any(measure.reads_predictions for measure in self.measures)
        predicted = np.zeros(n_rows) if reads else None
        for number, model in enumerate(models):
            seen_by_none = self.valid is not None
            at = np.arange(n_rows) if seen_by_none else self.folds[number].test
            some = self.judged.take(at)
            scores = predict_with(model, "decision_function", some.X, some.qid)
            queries = Queries.from_ids(some.qid, len(scores))
            scales.append(deviation(scores, queries, some.weight))
            total[at] += scores / scales[-1]
            n_models[at] += 1
            if predicted is not None:
                predicted[at] += predict_with(model, "predict", some.X, some.qid)
        count = np.maximum(n_models, 1)
        return total / count, scales, None if predicted is None else predicted / count

    def evaluate(self, scores: FloatArray, predictions: ArrayLike | None = None) -> Scores:
        assert self.judged is not None
        y, qid = self.judged.y, self.judged.qid
        return evaluate(scores, y, qid, self.measures, predictions=predictions)


def _fold_queries(rows: TrainingRows, measure: Measure, n_folds: int, seed: int) -> IntArray | None:
    """The fold of each row, whole queries together; None if too few queries have an order.

    Queries that the measure is defined for are divided evenly, so that every fold has some.
    """
    queries = Queries.from_ids(rows.qid, len(rows.y))
    informative = _informative(rows, queries, measure)
    n_folds = min(n_folds, int(informative.sum()))
    if n_folds < 2:
        return None
    content = _query_hashes(rows.hashes(), queries)
    fold = np.empty(queries.n_queries, np.int64)
    for members in (np.flatnonzero(informative), np.flatnonzero(~informative)):
        fold[members] = _deal(content[members], n_folds, seed)
    return fold[queries.codes]


def _fold_rows(rows: TrainingRows, measure: Measure, n_folds: int, seed: int) -> IntArray | None:
    """The fold of each row of a single list, grades divided evenly; None for a short list."""
    key, first, copy = np.unique(rows.hashes(), return_index=True, return_inverse=True)
    if len(key) < FEWEST_ROWS:
        return None
    order = np.lexsort((mix(key ^ _salt(seed)), rows.y[first]))
    fold = np.empty(len(order), np.int64)
    fold[order] = np.arange(len(order)) % n_folds
    fold = fold[copy]  # equal rows share a fold
    return fold if _informative(rows, Queries.from_ids(fold), measure).all() else None


def _informative(rows: TrainingRows, queries: Queries, measure: Measure) -> BoolArray:
    """Which queries have items of different grades and a value of the measure."""
    low, high = np.full(queries.n_queries, np.inf), np.full(queries.n_queries, -np.inf)
    np.minimum.at(low, queries.codes, rows.y)
    np.maximum.at(high, queries.codes, rows.y)
    differ = low < high
    if differ.any():
        values = evaluate(np.zeros(len(rows.y)), rows.y, queries.codes, [measure])
        differ &= np.isfinite(values.per_query(measure))
    return np.asarray(differ)


def _deal(content: Hashes, n_folds: int, seed: int) -> IntArray:
    """A fold for each query by its content; queries of the same content mostly share one."""
    order = np.argsort(mix(content ^ _salt(seed)), kind="stable")
    fold = np.empty(len(content), np.int64)
    fold[order] = np.arange(len(content)) * n_folds // max(len(content), 1)
    return fold


def _salt(seed: int) -> Any:
    return mix(np.array([seed], np.int64).view(np.uint64))[0]


def fit_ranker(model: BaseEstimator, rows: TrainingRows, valid: TrainingRows | None = None) -> Any:
    """Fit a ranker or a pipeline; a ranker with early stopping stops by the validation rows."""
    metadata = {"qid": rows.qid}
    if rows.weight is not None:
        metadata |= {"sample_weight": rows.weight}
        request_weights(model)
    if valid is not None and stops_early(model):
        metadata |= {"eval_set": (valid.X, valid.y), "eval_qid": valid.qid}
    with config_context(enable_metadata_routing=True):
        return model.fit(rows.X, rows.y, **metadata)


def stops_early(model: BaseEstimator) -> bool:
    """Whether ``early_stopping`` was requested: True, a number or an EarlyStopping."""
    if hasattr(model, "steps") and not isinstance(model, RankPipeline):
        return False  # a pipeline of scikit-learn hands no validation rows on
    value = ranker_of(model).get_params(deep=False).get("early_stopping")
    return isinstance(value, EarlyStopping) or (isinstance(value, int) and value > 0)
