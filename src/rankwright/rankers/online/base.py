"""Base classes of online rankers: streams of examples, passes over them, threshold models."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import ClassifierTags, check_random_state
from sklearn.utils.validation import check_is_fitted

from rankwright._typing import Column, FloatArray, IntArray, Matrix, MatrixLike
from rankwright.data.vocabulary import read_only
from rankwright.exceptions import (
    ConvergenceWarning,
    DataError,
    DegenerateDataWarning,
    ParameterError,
)
from rankwright.feedback.base import (
    Feedback,
    Grades,
    as_classes,
    as_grades,
    codes_of,
    refuse_grade,
    stream_classes,
)
from rankwright.rankers import checks, schema
from rankwright.rankers.base import Ranker
from rankwright.rankers.early_stopping import EARLY_STOPPING, EvalSet, Validation, run_passes
from rankwright.rankers.foreign_names import explains_names
from rankwright.rankers.kernels import Gram
from rankwright.rankers.schema import Learned, floats, integer
from rankwright.runtime import exclusive
from rankwright.scoring.base import Scorer
from rankwright.scoring.linear import Linear
from rankwright.scoring.ordinal import Ordinal, nearest
from rankwright.scoring.transforms import Mapped, Monomials

MOST_GRADES = 1000
MAPPED_ROWS = 4096  # rows that are mapped to polynomial features at once
FIRST_ROW = np.zeros(1, np.int64)

PASS_CONSTRAINTS: dict[str, schema.Constraint] = {
    "max_iter": schema.at_least(1),
    "shuffle": schema.boolean(),
    "random_state": schema.random_state(),
    "early_stopping": EARLY_STOPPING,
}
STREAM: dict[str, Learned] = {
    "classes_": floats("n_grades"),
    "n_mistakes_": integer(low=0),
    "n_seen_": integer(low=0),
    "validation_": floats("n_passes", optional=True),
    "best_iteration_": integer(low=0, optional=True),
}


@cache
def kernels(module: str) -> Any:
    """A module of compiled passes, loaded when the first example comes."""
    return import_module(f"rankwright.rankers.online._kernels.{module}")


class Examples(NamedTuple):
    """Rows with their grades, in the order in which they are learned from.

    A dense matrix is ``X``; a CSR matrix is ``data``, ``indices`` and ``indptr``, with X None. Two
    dense tables are ``X``, which weights are multiplied with, and ``data``, which they move along.
    Kernels get it as a plain tuple, which numba unpacks faster; this matters for single rows.

    Attributes
    ----------
    grade : (n_rows,) the grade of every row, 0 .. n_grades - 1
    order : (n_examples,) the row of each example
    """

    X: Any
    data: Any
    indices: Any
    indptr: Any
    grade: IntArray
    order: IntArray

    @classmethod
    def of(cls, X: Matrix, grade: IntArray, order: IntArray) -> Examples:
        # Read-only views, whatever the arrays are: kernels are compiled for one kind.
        if isinstance(X, np.ndarray):
            return cls(read_only(X), None, None, None, grade, order)
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        data, indices, indptr = map(read_only, (X.data, X.indices, X.indptr))
        return cls(None, data, indices, indptr, grade, order)

    def blocks(self, size: int) -> Iterator[tuple[int, Examples]]:
        """Blocks of at most ``size`` examples, each with the index of its first."""
        if len(self.order) <= size:
            yield 0, self
            return
        for start in range(0, len(self.order), size):
            yield start, self._replace(order=self.order[start : start + size])

    def first_row(self, n_features: int) -> FloatArray:
        """The row of the first example as a dense (1, n_features) table."""
        row = self.order[0]
        if self.X is not None:
            return np.array(self.X[row : row + 1])
        dense = np.zeros((1, n_features))
        stored = slice(self.indptr[row], self.indptr[row + 1])
        dense[0, self.indices[stored]] = self.data[stored]
        return dense


def with_room(view: NDArray[Any], n_rows: int) -> Any:
    """A table of at least ``n_rows`` rows that begins with those of ``view``.

    It is the table behind the view when that is large enough, else a copy twice as large.

    >>> table = with_room(np.zeros((3, 2)), 5)
    >>> table.shape, with_room(table[:4], 6) is table, with_room(table[:4], 9).shape
    ((6, 2), True, (9, 2))
    """
    base = view.base
    if (
        isinstance(base, np.ndarray)
        and base.flags.writeable
        and view.flags.c_contiguous
        and view.ctypes.data == base.ctypes.data
        and (base.dtype, base.shape[1:]) == (view.dtype, view.shape[1:])
        and len(base) >= n_rows
    ):
        return base
    table = np.zeros((max(n_rows, 2 * len(view)), *view.shape[1:]), view.dtype)
    table[: len(view)] = view
    return table


def repeated_rows(grades: Grades) -> IntArray:
    """The number of each row, repeated by its weight, in the order of X."""
    weight = grades.row_weight
    fractional = np.flatnonzero(weight != np.round(weight))
    if len(fractional):
        row = int(fractional[0])
        raise DataError(
            f"row {row} has weight {weight[row]:g}. An online ranker repeats rows, so weights must "
            "be integers: 0, 1, 2, ..."
        )
    order: IntArray = np.repeat(np.arange(len(weight)), weight.astype(np.int64))
    if len(order) == 0:
        raise DataError("every row has weight 0, so there is nothing to learn from.")
    return order


class OnlineRanker(Ranker):
    """Base of the online ordinal rankers.

    They learn from rows in the order given. ``qid`` is used only by ``score``, not in training.
    There is no ``sample_weight``, because the update for a row depends on the rows before it, so
    copies are not interchangeable. To weight a row, repeat it, or pass ``Grades`` with integer
    weights to ``fit_feedback``, which repeats each row in sequence.
    """

    _family: ClassVar = "online"
    __metadata_request__partial_fit: ClassVar = {"qid": True}

    _scores_as: ClassVar = "linear"
    _order_matters: ClassVar = True
    _iterative: ClassVar = True

    max_iter: int = 1
    shuffle: bool = False
    random_state: Any = None

    classes_: FloatArray
    n_mistakes_: int
    n_seen_: int

    @abstractmethod
    def _begin(self, n_features: int) -> None:
        """Set the learned attributes to their values before the first example."""

    @abstractmethod
    def _pass(self, examples: Examples, predict: bool) -> tuple[Any, int, int]:
        """Learn from the examples; the predictions before each, mistakes, skipped.

        Predictions are indices of grades, or mean grades; they may be missing unless ``predict``.
        """

    def _map(self, n_features: int) -> Monomials | None:
        """The map from rows to the features that are learned from, if there is one."""
        return None

    def _map_scale(self, n_features: int) -> FloatArray | None:
        """What to multiply mapped rows with before they are added to the weights; None: 1."""
        return None

    def _gram(self, n_features: int) -> Gram | None:
        """The kernel, if the model is a sum of kernels over support rows."""
        return None

    def _end_pass(self) -> None:
        """Tidy up after one pass of ``fit`` over all rows."""

    @explains_names
    def fit(  # type: ignore[override]
        self,
        X: MatrixLike,
        y: ArrayLike,
        *,
        qid: ArrayLike | None = None,
        eval_set: tuple[MatrixLike, ArrayLike] | None = None,
        eval_qid: ArrayLike | None = None,
    ) -> Self:
        """Fit from scratch: make ``max_iter`` passes over the rows, in the order given.

        Parameters
        ----------
        X : (n_items, n_features) array, CSR matrix or data frame
        y : (n_items,) grades, any numbers; higher is better
        qid : (n_items,) query ids; not used in training
        eval_set : (X, y) of validation queries, for ``early_stopping`` and ``validation_``
        eval_qid : query ids of the validation rows
        """
        return super().fit(X, y, qid=qid, eval_set=eval_set, eval_qid=eval_qid)

    @exclusive
    def partial_fit(
        self,
        X: MatrixLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        *,
        qid: Column | None = None,
    ) -> Self:
        """Update the model with more rows, in the order given.

        Splitting a stream into several calls gives the same model, bit for bit, as one ``fit``.

        Parameters
        ----------
        X : (n_items, n_features) array, CSR matrix or data frame
        y : (n_items,) grades
        classes : all grades that may occur in the stream, at the first call; by default those in
            ``y``. An undeclared grade in a later call is an error.
        qid : accepted for API consistency; not used
        """
        self._learn_stream(X, y, classes, predict=False)
        return self

    @exclusive
    def partial_fit_predict(
        self,
        X: MatrixLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        *,
        expected: bool = False,
    ) -> FloatArray:
        """Test, then train: return the grade predicted for each row before learning from it.

        The same as ``predict`` (or ``predict_expected``) and ``partial_fit`` row by row, in one
        call.
        """
        predictions = self._learn_stream(X, y, classes, predict=True)
        if predictions.dtype == np.float64:  # mean grades of several models
            return np.asarray(predictions if expected else nearest(self.classes_, predictions))
        return np.asarray(self.classes_[predictions])

    @exclusive
    def start(self, n_features: int, classes: ArrayLike) -> Self:
        """Initialize an untrained model, so that ``predict`` works before the first row."""
        self._check_parameters()
        self.n_features_in_, self.n_queries_in_ = int(n_features), 1
        self.__dict__.pop("feature_names_in_", None)
        self._begin_with(as_classes(classes))
        return self

    @exclusive
    def predict_expected(self, X: MatrixLike) -> FloatArray:
        """Predict the expected grade in units of ``y``; by default the same as ``predict``."""
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        scorer: Any = self._scorer()
        expected: FloatArray = getattr(scorer, "expected", scorer.predict)(X)
        return expected

    @exclusive
    def _learn(
        self, X: Matrix, feedback: Feedback, eval_set: EvalSet | None = None, **arguments: Any
    ) -> Self:
        assert isinstance(feedback, Grades)
        self.n_queries_in_ = feedback.queries.n_queries
        checks.warn_of_sorted_grades(self, feedback.y)
        with checks.learning(self, X, self._warn_of_scales(X)) as largest:
            self._fit(X, *self._with_validation(X, feedback, eval_set))
        checks.check_training_scores(self, X, largest, has_order=len(self.classes_) > 1)
        return self

    def _warn_of_scales(self, X: Matrix) -> float | None:
        """The largest absolute value of X, if it was found on the way."""
        return None if self._is_pairwise() else checks.warn_of_scales(self, X)

    def _fit(self, X: Matrix, feedback: Any, validation: Validation | None = None) -> None:
        run_passes(self, self._passes(X, feedback), validation)

    def _passes(self, X: Matrix, feedback: Grades) -> Iterator[None]:
        order = repeated_rows(feedback)
        self._begin_with(np.unique(feedback.y[order]))
        grade = np.searchsorted(self.classes_, feedback.y).astype(np.int64)
        rng = check_random_state(self.random_state) if self.shuffle else None
        for _ in range(self.max_iter):
            shuffled = order if rng is None else rng.permutation(order)
            self._learn_rows(X, grade, shuffled, first=0, predict=False)
            self._end_pass()
            yield

    def _begin_with(self, classes: FloatArray) -> None:
        if len(classes) > MOST_GRADES:
            raise DataError(
                f"{type(self).__name__}: y has {len(classes)} different grades, at most "
                f"{MOST_GRADES} are supported. Bin y first, for example into ten grades of equal "
                "size: np.searchsorted(np.quantile(y, np.arange(0.1, 1, 0.1)), y)."
            )
        if len(classes) < 2:
            warnings.warn(
                f"{type(self).__name__}: there is only one grade, so there is no order to learn. "
                "On a stream, declare all grades: partial_fit(X, y, classes=...).",
                DegenerateDataWarning,
                stacklevel=2,
            )
        for name in self._learned:  # other settings may have left other attributes
            self.__dict__.pop(name, None)
        self.classes_ = classes + 0.0  # there is one zero, whichever row comes first
        self.n_mistakes_ = self.n_seen_ = 0
        self._begin(self.n_features_in_)

    def _learn_stream(self, X: Any, y: Any, classes: ArrayLike | None, predict: bool) -> Any:
        first = "classes_" not in self.__dict__
        if not first and classes is None and self._is_one_plain_row(X, y):
            grade = np.array([self._code_of(float(y[0]))])
            return self._learn_rows(X, grade, FIRST_ROW, self.n_seen_, predict)
        self._check_parameters()
        X, y = self._validated(X, y, reset=first)
        checks.check_sizes(self, X)
        values = as_grades(y, "y")
        declared = stream_classes(values, classes, None if first else self.classes_)
        if first:
            self.n_queries_in_ = 1
            self._warn_of_scales(X)
            self._begin_with(declared)
        grade, order = codes_of(self.classes_, values), np.arange(len(values))
        return self._learn_rows(X, grade, order, self.n_seen_, predict)

    def _learn_rows(
        self, X: Matrix, grade: IntArray, order: IntArray, first: int, predict: bool
    ) -> Any:
        """Learn from the rows ``order`` of X; ``first`` is the number of X[0] in the stream."""
        predictions = [self._learn_examples(e, predict) for e in self._examples(X, grade, order)]
        return predictions[0] if len(predictions) == 1 else np.concatenate(predictions)

    def _examples(self, X: Matrix, grade: IntArray, order: IntArray) -> Iterator[Examples]:
        """The rows ``order`` of X, in blocks if they are mapped."""
        features = self._map(self.n_features_in_)
        if features is None:
            yield Examples.of(X, grade, order)
            return
        scale = self._map_scale(self.n_features_in_)
        for start in range(0, len(order), MAPPED_ROWS):
            rows = order[start : start + MAPPED_ROWS]
            mapped = features.transform(X[rows])
            examples = Examples.of(mapped, grade[rows], np.arange(len(rows)))
            yield examples if scale is None else examples._replace(data=mapped * scale)

    def _learn_examples(self, examples: Examples, predict: bool) -> Any:
        predictions, mistakes, skipped = self._pass(examples, predict)
        self._count(len(examples.order), mistakes, skipped)
        return predictions

    def _count(self, n_examples: int, mistakes: int, skipped: int) -> None:
        self.n_mistakes_ += mistakes
        self.n_seen_ += n_examples
        if skipped:
            warnings.warn(self._skip_message(skipped), ConvergenceWarning, stacklevel=4)

    def _skip_message(self, skipped: int) -> str:
        return (
            f"{type(self).__name__}: the scores of {skipped} rows overflowed, and nothing was "
            "learned from these. Scale the features (StandardScaler, QueryNormalizer)."
        )

    def _is_one_plain_row(self, X: Matrix, y: FloatArray) -> bool:
        """Whether X is one valid row: checked here in 2 us, where scikit-learn takes 100."""
        return bool(
            type(X) is np.ndarray
            and X.shape == (1, self.n_features_in_)
            and X.dtype.char == "d"
            and X.flags.c_contiguous
            and type(y) in (np.ndarray, list, tuple)
            and len(y) == 1
            and np.vdot(X, X) < checks.LARGEST**2
            and "feature_names_in_" not in self.__dict__
        )

    def _stream_of(self, X: MatrixLike, y: ArrayLike) -> tuple[Matrix, IntArray]:
        """Checked rows and the indices of their grades."""
        check_is_fitted(self)
        X, y = self._validated(X, y, reset=False)
        return X, codes_of(self.classes_, as_grades(y, "y"))

    def _code_of(self, value: float) -> int:
        code = int(self.classes_.searchsorted(value))
        if code == len(self.classes_) or self.classes_[code] != value:
            refuse_grade(self.classes_, value)
        return code

    def _writable(self, *names: str) -> list[Any]:
        """These learned arrays; read-only ones of a model file are copied first."""
        own, arrays = self.__dict__, []
        for name in names:
            if name not in own:
                raise ParameterError(
                    f"{type(self).__name__} has no {name}: its parameters were changed after it "
                    "began to learn. Start over with fit() or start()."
                )
            if not own[name].flags.writeable:
                own[name] = own[name].copy()
            arrays.append(own[name])
        return arrays

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "classes_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if hasattr(self, "predict_proba"):  # of several classes, as scikit-learn expects then
            tags.classifier_tags = ClassifierTags()
        return tags


class VotingRanker(OnlineRanker):
    """An online ranker whose scorer is Votes, perhaps of mapped rows."""

    _scores_as: ClassVar = "votes"

    @exclusive
    def predict_proba(self, X: MatrixLike) -> FloatArray:
        """Return the share of votes for each grade in ``classes_``: (n_items, n_grades)."""
        check_is_fitted(self)
        X, scorer = self._validated(X, reset=False), self._scorer()
        rows = scorer.map.transform(X) if isinstance(scorer, Mapped) else X
        votes: Any = scorer.score if isinstance(scorer, Mapped) else scorer
        shares: FloatArray = votes.probabilities(rows)
        return shares


class ThresholdRanker(OnlineRanker):
    """A linear model with thresholds: the grade is the first whose threshold exceeds the score.

    Such models can be averaged, which is what the OAP ensembles do with them.
    """

    coef_: FloatArray
    thresholds_: FloatArray

    def _linear_model(self) -> tuple[FloatArray, FloatArray]:
        """Weights and thresholds, on a scale on which those of several rankers can be averaged."""
        return self.coef_, self.thresholds_

    def _is_plain_prank(self) -> bool:
        """Whether the update is PRank's own, which ensembles compute faster."""
        return False

    def _ordinal(self) -> Ordinal:
        return Ordinal(Linear(self.coef_), self.thresholds_, self.classes_)

    def _scorer(self) -> Scorer:
        features, scorer = self._map(self.n_features_in_), self._ordinal()
        return scorer if features is None else Mapped(features, scorer)
