"""Progressive validation: an online ranker predicts each row of a stream, then learns from it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from rankwright._typing import Matrix, MatrixLike
from rankwright.data.inputs import checked_csr, checked_rows
from rankwright.exceptions import DataError, MeasureError, ParameterError
from rankwright.feedback.base import as_grades
from rankwright.metrics.measure import Measure

Loss = Callable[[float, float], float]
Chunk = tuple[Any, NDArray[np.float64]]
Steps = Iterator[tuple[float, float]]  # grade and prediction

BLOCK = 1024
LOSSES: dict[str, Loss] = {
    "RankLoss": lambda y, guess: abs(y - guess),
    "Misses": lambda y, guess: float(y != guess),
    "SquaredLoss": lambda y, guess: (y - guess) ** 2,
}


def progressive(
    ranker: BaseEstimator,
    X: Any,
    y: ArrayLike | Iterable[Any] | None = None,
    measures: Iterable[str | Measure] | str | Measure = ("RankLoss",),
    *,
    delay: int = 0,
    classes: ArrayLike | None = None,
    expected: bool = False,
    every: int = 1,
) -> Iterator[dict[str, Any]]:
    """Progressive validation: predict each row, then learn from it; yield the running mean loss.

    This is the time-averaged loss of the papers' figures. Only running means are kept (and rows
    that wait for their grade), so the stream may be infinite.

    Parameters
    ----------
    ranker : an online ranker, new or fitted, or a pipeline that ends with one; it learns from
        every step. Steps of a pipeline with ``partial_fit`` (OnlineScaler) learn from each row
        before it is transformed. A scikit-learn estimator with ``partial_fit`` works as well;
        before its first row its prediction is the lowest of ``classes``.
    X : (n_items, n_features) array, CSR matrix or data frame with grades ``y``; or any iterable of
        rows (``y`` iterates over grades) or of (row, grade) pairs (without ``y``); a row may also
        be a table of rows, with a list of grades, or a dictionary {feature: value} with the keys
        of the first row
    y : grades
    measures : names or functions (y, prediction) -> float
        "RankLoss" (distance of the grades), "Misses" (1 for a wrong grade), "SquaredLoss".
    delay : int >= 0, the number of steps after which the grade of a row becomes known
    classes : all grades of the stream; needed for a new ranker unless ``y`` is an array
    expected : bool
        Evaluate ``predict_expected`` (the papers' scoring of votes) instead of ``predict``.
    every : int >= 1, number of steps between results; the last step always yields

    Yields
    ------
    dict with "step" (from 1), "y", "prediction", and the mean of each measure

    Examples
    --------
    >>> from rankwright import PRank
    >>> from rankwright.data.datasets.synthetic import make_ordinal
    >>> sample = make_ordinal(2000, random_state=0)
    >>> curve = [step["RankLoss"] for step in progressive(PRank(), sample.X, sample.y)]
    >>> len(curve), bool(curve[-1] < curve[9])
    (2000, True)

    From a generator of pairs, with grades known 10 steps later:

    >>> pairs = zip(sample.X, sample.y)
    >>> *_, last = progressive(PRank(), pairs, classes=range(1, 6), delay=10, every=500)
    >>> sorted(last)
    ['RankLoss', 'prediction', 'step', 'y']
    """
    if delay < 0 or every < 1:
        raise ParameterError(
            f"progressive(delay={delay}, every={every}): delay must be >= 0 and every >= 1."
        )
    *maps, ranker = _steps(ranker)
    losses = _losses(measures)
    if classes is None and y is not None and hasattr(y, "__len__"):
        classes = np.unique(as_grades(y, "y"))
    if not hasattr(ranker, "start"):
        ranker = _Estimator(ranker, classes)
    if expected and not hasattr(ranker, "predict_expected"):
        raise ParameterError(
            f"progressive(expected=True): {ranker.name} has no predict_expected; use "
            "expected=False."
        )
    chunks = _started(ranker, _mapped(maps, _chunks(checked_rows(X), y)), classes)
    if delay == 0 and hasattr(ranker, "partial_fit_predict"):
        steps = _in_blocks(ranker, chunks, expected)
    else:
        steps = _with_delay(ranker, chunks, expected, delay)
    return _running_means(steps, losses, every)


def _running_means(steps: Steps, losses: dict[str, Loss], every: int) -> Iterator[dict[str, Any]]:
    sums = dict.fromkeys(losses, 0.0)
    report: dict[str, Any] = {}
    for step, (truth, guess) in enumerate(steps, start=1):
        for name, loss in losses.items():
            sums[name] += loss(truth, guess)
        report = {"step": step, "y": truth, "prediction": guess}
        if step % every == 0:
            yield report | {name: total / step for name, total in sums.items()}
    if report and report["step"] % every:
        yield report | {name: total / report["step"] for name, total in sums.items()}


def _in_blocks(ranker: BaseEstimator, chunks: Iterator[Chunk], expected: bool) -> Steps:
    for rows, grades in chunks:
        guesses = ranker.partial_fit_predict(rows, grades, expected=expected)
        yield from zip(grades.tolist(), guesses.tolist(), strict=True)


def _with_delay(
    ranker: BaseEstimator, chunks: Iterator[Chunk], expected: bool, delay: int
) -> Steps:
    waiting: deque[tuple[Any, Any]] = deque()
    predict = ranker.predict_expected if expected else ranker.predict
    for rows, grades in chunks:
        for i in range(len(grades)):
            row, grade = rows[i : i + 1], grades[i : i + 1]
            guess = float(predict(row)[0])
            waiting.append((row, grade))
            if len(waiting) > delay:
                ranker.partial_fit(*waiting.popleft())
            yield float(grade[0]), guess
    for row, grade in waiting:
        ranker.partial_fit(row, grade)


def _started(
    ranker: BaseEstimator, chunks: Iterator[Chunk], classes: ArrayLike | None
) -> Iterator[Chunk]:
    for rows, grades in chunks:
        if not hasattr(ranker, "classes_"):
            if classes is None:
                raise ParameterError(
                    f"progressive: {type(ranker).__name__} is not fitted and the grades of the "
                    "stream are unknown. Pass them: progressive(..., classes=[...])."
                )
            ranker.start(rows.shape[1], classes)
        yield rows, grades


def _steps(model: BaseEstimator) -> list[Any]:
    """The steps of a pipeline, or the ranker alone; the last one has partial_fit."""
    steps = [step for _, step in getattr(model, "steps", [("ranker", model)])]
    steps = [step for step in steps if step is not None and step != "passthrough"]
    if not steps or not hasattr(steps[-1], "partial_fit"):
        kind = type(steps[-1] if steps else model).__name__
        raise ParameterError(f"progressive: {kind} has no partial_fit; an online ranker is needed.")
    return steps


def _mapped(maps: list[Any], chunks: Iterator[Chunk]) -> Iterator[Chunk]:
    """Rows after the transformers of a pipeline, which learn from each row first if they can."""
    for rows, grades in chunks:
        for step in maps:
            rows = _learned_rows(step, rows)
        yield rows, grades


def _learned_rows(step: BaseEstimator, rows: NDArray[Any]) -> Any:
    if hasattr(step, "partial_fit_transform"):
        return step.partial_fit_transform(rows)
    if hasattr(step, "partial_fit"):
        single = (rows[i : i + 1] for i in range(rows.shape[0]))
        return np.vstack([step.partial_fit(row).transform(row) for row in single])
    try:
        check_is_fitted(step)
    except NotFittedError:
        raise ParameterError(
            f"progressive: the step {type(step).__name__} has no partial_fit and is not fitted. "
            "Fit it first on separate rows, or use OnlineScaler."
        ) from None
    return step.transform(rows)


class _Estimator:
    """An estimator of scikit-learn behind the methods of an online ranker."""

    def __init__(self, model: BaseEstimator, classes: Any) -> None:
        self.model, self.name = model, type(model).__name__
        takes_classes = "classes" in signature(model.partial_fit).parameters
        if takes_classes and classes is None and not hasattr(model, "classes_"):
            raise ParameterError(
                f"progressive: {self.name} is not fitted and the grades of the stream are unknown. "
                "Pass them: progressive(..., classes=[...])."
            )
        self._options = {"classes": np.unique(classes)} if takes_classes else {}
        self._first = 0.0 if classes is None else float(np.min(classes))
        self.classes_ = classes  # it needs no start

    def partial_fit(self, X: MatrixLike, y: ArrayLike) -> None:
        self.model.partial_fit(X, y, **({} if self._is_fitted() else self._options))

    def predict(self, X: Matrix) -> Any:
        return self.model.predict(X) if self._is_fitted() else np.full(X.shape[0], self._first)

    def _is_fitted(self) -> bool:
        try:
            check_is_fitted(self.model)
        except NotFittedError:
            return False
        return True


def _from_dictionary(row: Mapping[Any, Any], names: list[Any]) -> Any:
    """The values by name; the first row fills ``names``."""
    names.extend(() if names else row)
    odd = sorted(map(str, set(names) ^ set(row)))
    if odd:
        lacks = "lacks" if odd[0] in map(str, names) else "has the new feature"
        raise DataError(
            f"progressive: a row {lacks} {odd[0]!r}. Rows that are dictionaries must all have the "
            "keys of the first; for sparse rows use sklearn.feature_extraction.DictVectorizer or "
            "FeatureHasher."
        )
    return [row[name] for name in names]


def _chunks(X: Any, y: Any) -> Iterator[Chunk]:
    """The stream as matrices of rows with their grades."""
    if y is not None and hasattr(X, "to_numpy"):
        X = X.to_numpy()
    of_dictionaries = isinstance(X, list) and bool(X) and isinstance(X[0], Mapping)
    if y is not None and not of_dictionaries and (hasattr(X, "shape") or isinstance(X, list)):
        table = X if hasattr(X, "shape") else np.asarray(X, dtype=np.float64)
        grades = as_grades(y, "y")
        if table.ndim != 2 or grades.shape != (table.shape[0],):
            shapes = f"X has shape {table.shape} and y {grades.shape}"
            raise DataError(f"{shapes}: one grade per row is needed.")
        table = table if isinstance(table, np.ndarray) else checked_csr(table)
        for start in range(0, len(grades), BLOCK):
            yield table[start : start + BLOCK], grades[start : start + BLOCK]
        return
    names: list[Any] = []
    for row, grade in X if y is None else zip(X, y, strict=True):
        row = _from_dictionary(row, names) if isinstance(row, Mapping) else row
        rows = checked_csr(row) if hasattr(row, "tocsr") else np.asarray(row, np.float64, order="C")
        rows = rows.reshape(1, -1) if rows.ndim == 1 else rows
        yield rows, np.atleast_1d(np.asarray(grade, dtype=np.float64))


def _losses(measures: Any) -> dict[str, Loss]:
    if isinstance(measures, str) or callable(measures):
        measures = [measures]
    losses: dict[str, Loss] = {}
    for measure in measures:
        name = str(getattr(measure, "__name__", measure))
        is_function = callable(measure) and not hasattr(measure, "definition")
        if not is_function and name not in LOSSES:
            raise MeasureError(
                f"progressive cannot compute {name!r} row by row. It knows {', '.join(LOSSES)} and "
                "functions (y, prediction) -> float. For measures of whole lists use evaluate()."
            )
        losses[name] = measure if is_function else LOSSES[name]
    return losses
