"""Checks around training: values float64 cannot hold, unusual scales, rows sorted by grade."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from rankwright._typing import FloatArray, IntArray, Matrix, SparseMatrix
from rankwright.exceptions import (
    DataError,
    DegenerateDataWarning,
    FeedbackError,
    ParameterError,
    RankwrightError,
    RankwrightWarning,
    StreamWarning,
)
from rankwright.feedback.base import Feedback
from rankwright.runtime import require_memory

LARGEST = 1e100  # of a feature that is multiplied or squared; sums of squares stay finite
ORDINARY = 1e12  # up to which overflow inside a ranker would be a fault of the ranker
SMALL = 1e3  # up to which even the product of a hundred values is finite
CACHED = 1 << 15  # cells of X that stay in the cache while they are read twice
MANY_COLUMNS = 100_000
MANY_ROWS = 50_000  # from which time that grows with their square is worth a warning
SAMPLED = 256  # training rows that are scored after training
FEW_ROWS = 50  # of a stream: with fewer, order and scales may be chance
MOST_RATIO = 1e3  # of the scales of two columns of a stream

_SCALE = (
    "Scale the columns first, for example with sklearn.preprocessing.StandardScaler (or with "
    "OnlineScaler on a stream)."
)


def check_weights(feedback: Feedback) -> None:
    """Raise a FeedbackError for a positive weight whose products would leave the range."""
    for _, term in feedback.terms():
        for name in ("sample_weight", "query_weight", "weight", "lower_weight", "upper_weight"):
            weight = getattr(term, name, None)
            if weight is None:
                continue
            extreme = np.flatnonzero((weight > 0) & ((weight < 1e-50) | (weight > 1e50)))
            if len(extreme):
                raise FeedbackError(
                    f"{name}[{extreme[0]}] is {weight[extreme[0]]:g}: weights are multiplied, so "
                    "they must be 0 or between 1e-50 and 1e50. Divide all weights by the largest "
                    "one, and set those that are then too small to 0."
                )


class Columns(NamedTuple):
    """The columns that hold a value other than 0, and the largest absolute value of each."""

    number: IntArray
    size: FloatArray

    @classmethod
    def of(cls, X: Matrix) -> Columns:
        if isinstance(X, np.ndarray):
            low, high = _extremes(X) if X.flags.c_contiguous else _extremes(X.T, axis=1)
            number, size = np.arange(X.shape[1]), np.maximum(high, -low)
        else:
            number, index = _stored_columns(X)
            size = np.zeros(len(number))
            np.maximum.at(size, index, np.abs(X.data))
        return cls(number[size > 0], size[size > 0])

    @property
    def largest(self) -> float:
        return float(self.size.max(initial=0.0))


def _stored_columns(X: SparseMatrix) -> tuple[IntArray, IntArray]:
    """Columns of a sparse matrix, and for each stored value which of them it is in."""
    if X.shape[1] < MANY_COLUMNS:
        return np.arange(X.shape[1]), X.indices
    number, index = np.unique(X.indices, return_inverse=True)
    return number, index


def check_sizes(ranker: BaseEstimator, X: Matrix, largest: float | None = None) -> float:
    """The largest absolute value of X; a DataError names the column if it is above LARGEST."""
    largest = _largest(X) if largest is None else largest
    if largest > LARGEST and ranker._multiplies:
        raise DataError(
            f"{type(ranker).__name__}: {_column(ranker, X)}. It multiplies values, and products of "
            f"values above {LARGEST:g} overflow. {_SCALE}"
        )
    return largest


def feature_number(where: str, feature: Any, names: Sequence[Any], n_features: int) -> int:
    """The column of a feature that is given by its number, or by name if there are names."""
    if isinstance(feature, str) and feature in names:
        return names.index(feature)
    is_number = isinstance(feature, Real) and not isinstance(feature, bool | np.bool_)
    if is_number and feature in range(n_features):
        return int(feature)
    known = "; X is an array, without names"
    if names:
        known = f", or a name: {', '.join(map(str, names[:5]))}{', ...' if len(names) > 5 else ''}"
    raise ParameterError(
        f"{where}: no feature {feature!r}. Give a number from 0 to {n_features - 1}{known}."
    )


def check_width(ranker: BaseEstimator, n_columns: int) -> None:
    """Raise a MemoryLimitError if there is no memory for two numbers for each column."""
    require_memory(
        2.0 * 8.0 * n_columns,
        f"{type(ranker).__name__}: one weight for each of {n_columns:,} columns",
        "Drop columns without values, X[:, np.unique(X.indices)], or hash feature numbers.",
    )


@contextmanager
def learning(ranker: BaseEstimator, X: Matrix, largest: float | None = None) -> Iterator[float]:
    """Training on rows of extreme size: what NumPy or SciPy raises there becomes a DataError.

    Yields the largest absolute value of X, which is found here if it is not known.
    """
    check_width(ranker, X.shape[1])
    if not ranker._may_drop_columns():
        _warn_of_empty_columns(ranker, X)
    _warn_of_quadratic_time(ranker, X.shape[0])
    largest = check_sizes(ranker, X, largest)
    ordinary = 1.0 / ORDINARY <= largest <= ORDINARY or largest == 0.0
    foreign = ArithmeticError if ordinary else (ArithmeticError, ValueError, IndexError)
    try:
        # What overflows is found by check_training_scores.
        with np.errstate() if ordinary else np.errstate(all="ignore"):
            yield largest
    except RankwrightError:
        raise
    except foreign as error:
        raise _overflow_error(ranker, X) from error


def used_columns(X: Matrix, fewest: int = 1) -> IntArray | None:
    """The columns of a wide sparse matrix with enough stored values, if most of them have not."""
    if isinstance(X, np.ndarray) or X.shape[1] < MANY_COLUMNS:
        return None
    columns, counts = np.unique(X.indices, return_counts=True)
    enough = columns[counts >= fewest]
    used = (enough if len(enough) else columns[:1]).astype(np.int64)
    return used if 0 < 2 * len(used) < X.shape[1] else None


def _warn_of_empty_columns(ranker: BaseEstimator, X: Matrix) -> None:
    """Warn of a sparse matrix whose columns are nearly all empty: time and memory count them."""
    if isinstance(X, np.ndarray) or X.shape[1] < MANY_COLUMNS or X.nnz >= X.shape[1]:
        return
    n_used = len(np.unique(X.indices))
    warnings.warn(
        f"{type(ranker).__name__}: only {n_used:,} of {X.shape[1]:,} columns hold a value, and "
        "training may take time and memory for each column. Drop the others: "
        "X[:, np.unique(X.indices)].",
        DegenerateDataWarning,
        stacklevel=7,
    )


def _warn_of_quadratic_time(ranker: BaseEstimator, n_rows: int) -> None:
    advice = ranker._advice_for_many_rows()
    if n_rows >= MANY_ROWS and advice:
        warnings.warn(
            f"{type(ranker).__name__}: time may grow with the square of the number of rows, which "
            f"is {n_rows:,}: ten times as many take up to a hundred times as long. {advice}",
            RankwrightWarning,
            stacklevel=7,
        )


def check_training_scores(
    ranker: BaseEstimator, X: Matrix, largest: float, *, has_order: bool
) -> None:
    """Raise a DataError unless the scores of training rows are finite; warn if all are equal.

    Up to 256 rows are scored: half of them spread over X, half the ones with the largest values,
    unless the largest value of X is small.
    """
    rows = _sample(X, largest)
    try:
        scorer = ranker._fitted_scorer()
        with np.errstate(over="ignore", invalid="ignore"):
            scores = scorer.decision_function(X[rows])
    except DataError as error:  # a learned value that is not finite
        raise _overflow_error(ranker, X) from error
    if not np.isfinite(scores).all():
        raise _overflow_error(ranker, X)
    if has_order and len(scores) > 1 and (scores == scores[0]).all():
        everything = scores if len(rows) == X.shape[0] else scorer.decision_function(X)
        if (everything == scores[0]).all():
            warnings.warn(
                f"{type(ranker).__name__} gives every training row the same score. The rows may be "
                f"equal or too few; {_range(X)}; or the parameters allow no "
                "better model.",
                DegenerateDataWarning,
                stacklevel=5,
            )


def check_scores(ranker: BaseEstimator, X: Matrix, scores: FloatArray) -> FloatArray:
    """The scores; a DataError names the first row whose score is not finite."""
    finite = np.isfinite(scores)
    if not finite.all():
        row = int(np.argmin(finite))
        raise DataError(
            f"{type(ranker).__name__}: the score of row {row} overflows. In X, "
            f"{_column(ranker, X)}. Scale rows as they were scaled for training."
        )
    return scores


def _overflow_error(ranker: BaseEstimator, X: Matrix) -> DataError:
    return DataError(
        f"{type(ranker).__name__}: the model overflows or is not a number, for {_range(X)}: "
        f"{_column(ranker, X)}. {_SCALE}"
    )


def _range(X: Matrix) -> str:
    values = np.abs(X if isinstance(X, np.ndarray) else X.data)
    nonzero = values[values > 0]
    if not nonzero.size:
        return f"all values of X are 0{' or NaN' if np.isnan(values).any() else ''}"
    return f"absolute values of X other than 0 run from {nonzero.min():.3g} to {nonzero.max():.3g}"


def _largest(X: Matrix) -> float:
    """The largest absolute value, without a copy of X; NaN is ignored."""
    values = X if isinstance(X, np.ndarray) else X.data
    if not values.size:
        return 0.0
    low, high = _extremes(values if values.flags.c_contiguous else values.T)
    largest = float(max(np.fmax.reduce(high, axis=None), -np.fmin.reduce(low, axis=None)))
    return largest if largest == largest else 0.0


def _extremes(X: FloatArray, axis: int = 0) -> tuple[FloatArray, FloatArray]:
    """The smallest and the largest values along an axis; X is read from memory once."""
    step = max(1, CACHED // max(1, X[:1].size))
    blocks = (X[start : start + step] for start in range(0, len(X), step))
    pairs = [(np.fmin.reduce(block, axis), np.fmax.reduce(block, axis)) for block in blocks]
    lows, highs = zip(*pairs, strict=True)
    if axis == 0:
        return np.fmin.reduce(lows), np.fmax.reduce(highs)
    return np.concatenate(lows), np.concatenate(highs)


def _column(ranker: BaseEstimator, X: Matrix) -> str:
    """The column with the largest absolute value, by number and name, and that value."""
    if isinstance(X, np.ndarray):
        index = int(np.nanargmax(np.abs(X)))
        column, value = index % X.shape[1], float(X.flat[index])
    else:
        index = int(np.nanargmax(np.abs(X.data)))
        column, value = int(X.indices[index]), float(X.data[index])
    names = getattr(ranker, "feature_names_in_", None)
    name = "" if names is None or column >= len(names) else f" ({names[column]!r})"
    return f"column {column}{name} holds {value:.3g}"


def _sample(X: Matrix, largest: float) -> IntArray:
    n = X.shape[0]
    if n <= SAMPLED:
        return np.arange(n)
    spread = np.linspace(0, n - 1, SAMPLED // 2).astype(np.int64)
    if largest <= SMALL:
        return spread
    if isinstance(X, np.ndarray):
        low, high = _extremes(X, axis=1)
        size = np.fmax(high, -low)
    else:
        size = np.zeros(n)
        filled = np.flatnonzero(np.diff(X.indptr))
        if len(filled):
            size[filled] = np.fmax.reduceat(np.abs(X.data), X.indptr[filled])
    size = np.where(np.isnan(size), 0.0, size)
    large = np.argpartition(size, n - SAMPLED // 2)[n - SAMPLED // 2 :]
    return np.union1d(large, spread)


def warn_of_sorted_grades(ranker: BaseEstimator, y: FloatArray) -> None:
    """Warn if equal grades arrive in one block each, as in a file sorted by grade.

    The updates of the last block then undo those of the others.
    """
    if ranker.shuffle or len(y) < FEW_ROWS:
        return
    n_grades, n_blocks = len(np.unique(y)), 1 + int(np.count_nonzero(np.diff(y)))
    if 1 < n_grades == n_blocks <= len(y) // 2:
        warnings.warn(
            f"{type(ranker).__name__} learns from rows in the order given, and they are sorted by "
            f"grade ({len(y)} rows in {n_blocks} blocks of equal grades). Set shuffle=True, or "
            "shuffle the rows before partial_fit.",
            StreamWarning,
            stacklevel=5,
        )


def warn_of_scales(ranker: BaseEstimator, X: Matrix) -> float:
    """Warn if the largest absolute values of two columns differ by more than a thousand.

    Returns the largest of all.
    """
    number, size = columns = Columns.of(X)
    if X.shape[0] < FEW_ROWS or not len(size):
        return columns.largest
    low, high = int(np.argmin(size)), int(np.argmax(size))
    if size[high] > MOST_RATIO * size[low]:
        warnings.warn(
            f"{type(ranker).__name__}: column {number[high]} holds values up to "
            f"{size[high]:.3g}, column {number[low]} only up to {size[low]:.3g}. An online ranker "
            "learns little from the smaller ones. Scale the columns, for example with "
            "make_pipeline(OnlineScaler(), ...) or StandardScaler.",
            StreamWarning,
            stacklevel=5,
        )
    return columns.largest
