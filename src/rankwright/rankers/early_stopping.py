"""Validation sets and early stopping for rankers that train in rounds, epochs or passes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from copy import copy, deepcopy
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from rankwright._typing import FloatArray, IntArray, Matrix, RandomState
from rankwright.data.queries import Queries
from rankwright.exceptions import DataError, ParameterError
from rankwright.feedback.base import Feedback, Grades
from rankwright.metrics.evaluation import Evaluator
from rankwright.metrics.measure import Measure
from rankwright.rankers import schema

MeasureFunction = Callable[[FloatArray, FloatArray, IntArray], float]


def function_of(measure: Any) -> MeasureFunction | None:
    """The measure if it is a function of scores, grades and queries, else None."""
    is_function = callable(measure) and not isinstance(measure, Measure | type)
    return measure if is_function else None


def _is_measure(value: Any) -> bool:
    if function_of(value) is not None:
        return True
    try:
        Measure.parse(value)
    except (ValueError, TypeError, AttributeError):
        return False
    return True


class EarlyStopping(BaseEstimator):  # type: ignore[misc]
    """Stop training when a measure on validation queries no longer improves.

    The model keeps the iterations up to the best one. The measure is computed on ``eval_set`` of
    ``fit``; without an ``eval_set``, some of the training queries are held out.

    Parameters
    ----------
    measure : str, Measure or function, default "NDCG@10"
        A function takes the scores, the grades and the numbers of the queries of the validation
        rows, and returns a number; higher is better. Model files do not contain functions: a loaded
        model has None instead of such an EarlyStopping.
    n_iter_no_change : int >= 1, default 50
        Stop when this many iterations in a row were no better than the best one.
    smoothing : float, 0 <= share < 1, default 0.3
        For rankers that add up rounds (LambdaMART, RankBoost, FRank, AdaBoostRanker): the best
        round is that of the running mean of the measure, over rounds whose numbers differ by up to
        this share. On few validation queries the best single value is a lucky one. Rankers that
        change in place (RankNet, the online rankers) keep the best single iteration.
    wait_share : float >= 0, default 0.0
        Wait for this share of the best iteration's number too, if that is more: with 0.5, a best
        iteration of 300 is waited on until 450. Late in training, improvements come more slowly.
    validation_fraction : float, default 0.2
        The fraction of the queries to hold out, drawn at random. Not used with an ``eval_set``.
    random_state : int, RandomState or None, default 0
    restore_best : bool, default True
        Keep the iterations up to the best one; False keeps all up to the stop.

    Examples
    --------
    >>> from rankwright import RankBoost
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.normal(size=(400, 3)), np.repeat(np.arange(40), 10)
    >>> y = (X[:, 0] + rng.normal(size=400) > 1).astype(int)
    >>> model = RankBoost(n_estimators=200, early_stopping=EarlyStopping(n_iter_no_change=10))
    >>> model = model.fit(X, y, qid=qid)
    >>> model.best_iteration_ < len(model.validation_) < 200
    True
    """

    _constraints: ClassVar = {
        "measure": schema.Constraint("the name of a measure, or a function", _is_measure),
        "n_iter_no_change": schema.at_least(1),
        "smoothing": schema.between(0.0, 0.9),
        "wait_share": schema.number(0.0),
        "validation_fraction": schema.between(0.01, 0.9),
        "random_state": schema.random_state(),
        "restore_best": schema.boolean(),
    }

    def __init__(
        self,
        *,
        measure: str | Measure | MeasureFunction = "NDCG@10",
        n_iter_no_change: int = 50,
        smoothing: float = 0.3,
        wait_share: float = 0.0,
        validation_fraction: float = 0.2,
        random_state: RandomState = 0,
        restore_best: bool = True,
    ) -> None:
        self.measure = measure
        self.n_iter_no_change = n_iter_no_change
        self.smoothing = smoothing
        self.wait_share = wait_share
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.restore_best = restore_best

    @classmethod
    def from_parameter(cls, value: EarlyStopping | bool | int | None) -> EarlyStopping | None:
        """The meaning of a ranker's ``early_stopping``; None for no early stopping."""
        if value is None or value is False:
            return None
        if isinstance(value, cls):
            stopping: EarlyStopping = value
        else:
            stopping = cls() if value is True else cls(n_iter_no_change=int(value))
        schema.check_parameters(stopping)
        return stopping

    def hold_out(self, X: Matrix, feedback: Feedback, owner: str) -> tuple[Grades, EvalSet]:
        """The feedback with weight zero for the held-out queries, and the held-out rows."""
        if not isinstance(feedback, Grades) or feedback.queries.n_queries < 2:
            kind = "a single query" if isinstance(feedback, Grades) else type(feedback).__name__
            raise ParameterError(
                f"{owner}(early_stopping=...) without eval_set holds out queries, and the training "
                f"data are {kind}. Pass grades with a qid of two or more queries, or an eval_set.",
                parameter="early_stopping",
            )
        n = feedback.queries.n_queries
        n_held_out = min(max(1, round(self.validation_fraction * n)), n - 1)
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        held_out = np.zeros(n, bool)
        held_out[rng.permutation(n)[:n_held_out]] = True
        rows = np.flatnonzero(held_out[feedback.queries.codes])
        weights: Any = {name: getattr(feedback, name) for name in ("sample_weight", "magnitude")}
        weights["query_weight"] = np.where(held_out, 0.0, feedback.query_weight)
        rest = Grades(feedback.y, feedback.queries, **weights)
        queries = Queries.from_ids(feedback.queries.codes[rows])
        return rest, EvalSet(X[rows], feedback.y[rows], queries, rows)


EARLY_STOPPING = schema.optional(
    schema.boolean(), schema.at_least(1), schema.instance_of("an EarlyStopping", EarlyStopping)
)


class EvalSet(NamedTuple):
    """Checked validation rows, their grades and queries."""

    X: Any
    y: FloatArray
    queries: Queries
    rows: IntArray | None = None  # their numbers in the training rows, if they were held out


def rows_and_grades(eval_set: object, owner: str) -> tuple[Any, Any]:
    """The X and y of an ``eval_set``: a tuple, or a list of one tuple."""
    if isinstance(eval_set, list) and len(eval_set) == 1:
        eval_set = eval_set[0]
    if isinstance(eval_set, tuple) and len(eval_set) == 2:
        return eval_set
    given = type(eval_set).__name__
    if isinstance(eval_set, list | tuple):
        given = f"a {given} of {len(eval_set)} entries"
    raise ParameterError(
        f"{owner}.fit: eval_set must be one tuple (X, y) of rows and grades, got {given}."
    )


class Validation:
    """A measure on validation rows after each iteration, and when to stop."""

    def __init__(self, rows: EvalSet, stopping: EarlyStopping | None) -> None:
        self.X, self._y, self._queries, self.rows = rows
        self._stops = stopping is not None
        self._restores = stopping is not None and stopping.restore_best
        stopping = stopping or EarlyStopping()
        self._function = function_of(stopping.measure)
        named: Any = "NDCG@10" if self._function else stopping.measure
        self._measure = Measure.parse(named)
        self._evaluator = Evaluator(self._y, self._queries, self._measure)
        self._sign = 1 if self._function else self._measure.sign
        self._patience, self._share = stopping.n_iter_no_change, stopping.wait_share
        self._smoothing = stopping.smoothing
        self.start = self._scores = np.zeros(len(self._y))  # scores before the first iteration
        self.curve: list[float] = []  # the measure after each iteration
        self.best_iteration = 0  # the first with the best (mean) value, counted from 1

    def with_columns(self, used: IntArray) -> Validation:
        """The same for a model of some of the columns."""
        narrow = copy(self)
        narrow.X = self.X[:, used]
        return narrow

    def update(self, scores: FloatArray) -> bool:
        """Measure the scores of the rows after one more iteration; whether to stop.

        The best iteration is this one or the best one before, so that its model can be kept.
        """
        value = self._value(scores)
        self.curve.append(value)
        best = self.curve[self.best_iteration - 1]
        if self.best_iteration == 0 or self._sign * value > self._sign * best:
            self.best_iteration = len(self.curve)
        return self._stop()

    def _stop(self) -> bool:
        patience = max(self._patience, self._share * self.best_iteration)
        return self._stops and len(self.curve) - self.best_iteration >= patience

    def _value(self, scores: FloatArray) -> float:
        if self._function is not None:
            value = self._function(scores, self._y, self._queries.codes)
            if not schema.number().test(value) or not np.isfinite(value):
                raise ParameterError(
                    f"EarlyStopping(measure={self._function!r}) returned {value!r}: a measure is a "
                    "finite number.",
                    parameter="measure",
                )
            return float(value)
        mean = self._evaluator.mean(scores)
        if mean is None:
            raise DataError(
                f"{self._measure} is undefined on the {self._queries.n_queries} validation queries "
                "(is every grade the same?). Pass an eval_set with good and bad rows in a query, "
                "hold out more queries, or choose another measure in EarlyStopping(measure=...)."
            )
        return mean

    def add(self, scores: FloatArray) -> bool:
        """Like ``update``, for a model that adds up rounds: the scores that one round adds.

        Any round can be the best one, since all are kept until the end.
        """
        self._scores = self._scores + scores
        self.curve.append(self._value(self.start + self._scores))
        self.best_iteration = self._best_round()
        return self._stop()

    def _best_round(self) -> int:
        if not self.curve:
            return 0
        means = nearby_means(self._sign * np.array(self.curve), self._smoothing)
        return int(np.argmax(means)) + 1

    def resume(self, scores: FloatArray, curve: Iterable[float]) -> None:
        """Go on after the iterations of this curve, which added up to these scores."""
        self._scores, self.curve = scores, [float(value) for value in curve]
        self.best_iteration = self._best_round()

    def n_kept(self, n_iterations: int) -> int:
        """How many of the iterations the model keeps."""
        return self.best_iteration if self._restores else n_iterations


def nearby_means(curve: FloatArray, share: float) -> FloatArray:
    """The mean over the values whose numbers, from 1, differ by up to a share of their own.

    >>> nearby_means(np.array([0.0, 1.0, 0.0, 3.0, 0.0, 0.0, 0.0]), 0.25).round(2).tolist()
    [0.0, 1.0, 0.0, 1.0, 1.0, 0.0, 0.0]
    """
    number = np.arange(1, len(curve) + 1)
    reach = (share * number).astype(np.int64)
    total = np.concatenate([[0.0], np.cumsum(curve)])
    first, last = number - 1 - reach, np.minimum(number + reach, len(curve))
    # Differences of sums are rounded: equal means must be equal, so that the first one is found.
    means = np.round((total[last] - total[first]) / (last - first), 12)
    return np.where(reach == 0, curve, means)


def run_passes(
    ranker: BaseEstimator, passes: Iterator[None], validation: Validation | None
) -> None:
    """Make the passes of a ranker, validate after each, and keep the best with early stopping."""
    attributes, n_passes = vars(ranker), 0
    best: dict[str, Any] = {}
    for n_passes, _ in enumerate(passes, start=1):
        if validation is None:
            continue
        stop = validation.update(ranker._scorer().decision_function(validation.X))
        if validation.best_iteration == n_passes:
            best = {n: deepcopy(attributes[n]) for n in ranker._learned if n in attributes}
        if stop:
            break
    n_kept = validation.n_kept(n_passes) if validation else n_passes
    if n_kept < n_passes:
        attributes.update(best)
    if ranker._iterative:
        ranker.validation_ = np.array(validation.curve) if validation else None
        ranker.best_iteration_ = n_kept
