"""Online rankers whose model is one rule: weights and ascending thresholds."""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from functools import cache
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from rankwright._typing import FloatArray, IntArray
from rankwright.exceptions import (
    ConvergenceWarning,
    DataError,
    DegenerateDataWarning,
    ParameterError,
)
from rankwright.feedback.base import Feedback
from rankwright.feedback.grades import Grades
from rankwright.feedback.labels import as_classes, as_grades, codes_of, refuse_grade
from rankwright.feedback.labels import check_same_classes as check_declared_again
from rankwright.rankers.base import Ranker
from rankwright.rankers.kernels import Gram
from rankwright.rankers.schema import Learned, floats, integer
from rankwright.scoring.base import Scorer
from rankwright.scoring.linear import Linear
from rankwright.scoring.ordinal import Ordinal
from rankwright.scoring.transforms import Mapped, Polynomial

Rows = tuple[Any, Any, Any, Any]  # (X, None, None, None) or (None, data, indices, indptr)


def rows_of(X: Any) -> Rows:
    """What a kernel takes for a matrix."""
    if isinstance(X, np.ndarray):
        return X, None, None, None
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return None, X.data, X.indices, X.indptr


def dense_row(rows: Rows, row: int, n_features: int) -> FloatArray:
    """One row as a plain (1, n_features) table."""
    X, data, indices, indptr = rows
    one = np.zeros((1, n_features))
    if X is not None:
        one[0] = X[row]
    else:
        part = slice(indptr[row], indptr[row + 1])
        one[0, indices[part]] = data[part]
    return one


def with_room(view: Any, wanted: int, *, exact: bool = False) -> Any:
    """A table of at least (``exact``: just) ``wanted`` rows that begins with those of ``view``.

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
        and (len(base) == wanted if exact else len(base) >= wanted)
    ):
        return base
    table = np.zeros((wanted if exact else max(wanted, 2 * len(view)), *view.shape[1:]), view.dtype)
    table[: len(view)] = view
    return table


def visits(grades: Grades) -> IntArray:
    """Each row as often as its weight says (once without weights), in order."""
    times = grades.row_weight
    if not np.array_equal(times, np.round(times)):
        odd = int(np.flatnonzero(times != np.round(times))[0])
        raise DataError(
            f"row {odd} has weight {times[odd]:g}. An online ranker shows a row a whole number of "
            "times: give weights 0, 1, 2, ..."
        )
    order: IntArray = np.repeat(np.arange(len(times)), times.astype(np.int64))
    if len(order) == 0:
        raise DataError("every row has weight zero: there is nothing to show.")
    return order


MOST_GRADES = 1000
MAPPED_ROWS = 4096
ONE_ROW = np.zeros(1, np.int64)

STREAM: dict[str, Learned] = {
    "classes_": floats("n_grades"),
    "n_mistakes_": integer(low=0),
    "n_seen_": integer(low=0),
}


class OnlineRanker(Ranker):
    """Base of the online ordinal rankers.

    Rows are shown in the order given; ``qid`` plays no part in learning (a grade means the same in
    every query) and serves ``score`` only. There is no ``sample_weight``: what a row teaches
    depends on what was shown before it, so a weight could not mean "so many copies, anywhere". To
    weigh a row, show it several times, or give whole numbers as the weights of
    ``Grades`` to ``fit_feedback``: the row is then shown so many times in a row.
    """

    __metadata_request__partial_fit: ClassVar = {"qid": True}

    _order_matters: ClassVar = True

    max_iter: int = 1
    shuffle: bool = False
    random_state: Any = None

    classes_: FloatArray
    n_mistakes_: int
    n_seen_: int

    @abstractmethod
    def _begin(self, n_features: int) -> None:
        """Set the learned attributes to what they are before the first row."""

    def _map(self) -> Polynomial | None:
        """The map from rows to the features that are learned from, if there is one."""
        return None

    def _end_pass(self) -> None:
        """Tidy up when ``fit`` has shown all rows once."""

    @abstractmethod
    def _show(
        self, rows: Rows, grade: IntArray, order: IntArray, asked: bool
    ) -> tuple[Any, int, int]:
        """Show the rows of ``order``; the predictions before (if asked), mistakes, skips."""

    def fit(self, X: Any, y: ArrayLike, *, qid: Any = None) -> Self:  # type: ignore[override]
        """Forget everything, then show every row once (``max_iter`` times), in the order given.

        Parameters
        ----------
        X : (n_items, n_features) array, CSR matrix or data frame
        y : (n_items,) grades, any numbers: the higher, the better
        qid : (n_items,) query ids; they play no part in learning
        """
        return super().fit(X, y, qid=qid)

    def partial_fit(
        self, X: Any, y: ArrayLike, classes: ArrayLike | None = None, *, qid: Any = None
    ) -> Self:
        """Show some more rows, one or a million, in the order given.

        Any way to cut a stream into calls gives the same model, bit for bit, as one ``fit``.

        Parameters
        ----------
        X : (n_items, n_features) array, CSR matrix or data frame
        y : (n_items,) grades
        classes : every grade the stream may hold, at the first call. Left out, these are the
            grades of the first call; a grade that comes later and was not declared is an error.
        qid : accepted for uniformity; it plays no part
        """
        self._learn_chunk(X, y, classes, asked=False)
        return self

    def partial_fit_predict(
        self, X: Any, y: ArrayLike, classes: ArrayLike | None = None, *, expected: bool = False
    ) -> FloatArray:
        """Test, then train: the grade predicted for each row just before the row is shown.

        The same as ``predict`` (or ``predict_expected``) and ``partial_fit`` row by row, in one
        call.
        """
        answer = self._learn_chunk(X, y, classes, asked=True)
        return self._expected_of(answer) if expected else self._grades_of(answer)

    def start(self, n_features: int, classes: ArrayLike) -> Self:
        """Begin with nothing learned, so that ``predict`` answers before the first row."""
        self._check_parameters()
        self.n_features_in_, self.n_queries_in_ = int(n_features), 1
        self.__dict__.pop("feature_names_in_", None)
        self._begin_with(as_classes(classes))
        return self

    def predict_expected(self, X: Any) -> FloatArray:
        """The expected grade in units of ``y``; where one rule answers, the same as ``predict``."""
        return self.predict(X)

    def _learn(self, X: Any, feedback: Feedback, eval_set: Any = None) -> Self:
        assert isinstance(feedback, Grades)
        self.n_queries_in_ = feedback.queries.n_queries
        self._fit(X, feedback)
        return self

    def _fit(self, X: Any, feedback: Feedback) -> None:
        assert isinstance(feedback, Grades)
        order = visits(feedback)
        self._begin_with(np.unique(feedback.y[order]))
        grade = np.searchsorted(self.classes_, feedback.y).astype(np.int64)
        rng = check_random_state(self.random_state) if self.shuffle else None
        for _ in range(self.max_iter):
            shown = order if rng is None else rng.permutation(order)
            self._show_all(X, grade, shown, asked=False, first=0)
            self._end_pass()

    def _begin_with(self, classes: FloatArray) -> None:
        if len(classes) > MOST_GRADES:
            raise DataError(
                f"{type(self).__name__}: y has {len(classes)} different grades, at most "
                f"{MOST_GRADES} are taken. Cut y into grades first, for example into ten of equal "
                "size: np.searchsorted(np.quantile(y, np.arange(0.1, 1, 0.1)), y)."
            )
        if len(classes) < 2:
            warnings.warn(
                f"{type(self).__name__}: there is one single grade, hence no order to learn. "
                "On a stream, declare all grades: partial_fit(X, y, classes=...).",
                DegenerateDataWarning,
                stacklevel=2,
            )
        self.classes_ = classes
        self.n_mistakes_ = self.n_seen_ = 0
        self._begin(self.n_features_in_)

    def _learn_chunk(self, X: Any, y: Any, classes: Any, asked: bool) -> Any:
        first = not hasattr(self, "classes_")
        if not first and classes is None and self._is_one_plain_row(X, y):
            code = self._code_of(float(y[0]))
            return self._show_all(X, np.array([code]), ONE_ROW, asked, self.n_seen_)
        self._check_parameters()
        X, y = self._validated(X, y, reset=first)
        values = as_grades(y, "y")
        if first:
            self.n_queries_in_ = 1
            declared = np.unique(values) if classes is None else as_classes(classes)
            codes_of(declared, values)  # refuse before anything begins
            self._begin_with(declared)
        check_declared_again(self.classes_, classes)
        codes, order = codes_of(self.classes_, values), np.arange(len(values))
        return self._show_all(X, codes, order, asked, self.n_seen_)

    def _show_all(self, X: Any, grade: IntArray, order: IntArray, asked: bool, first: int) -> Any:
        """Show the rows of ``order``; ``first`` is the place of X's first row in the stream."""
        features = self._map()
        if features is None:
            return self._show_some(rows_of(X), grade, order, asked)
        answers = []
        for start in range(0, len(order), MAPPED_ROWS):
            chosen = order[start : start + MAPPED_ROWS]
            rows = (features.transform(X[chosen]), None, None, None)
            in_turn = np.arange(len(chosen))
            answers.append(self._show_some(rows, grade[chosen], in_turn, asked))
        return np.concatenate(answers)

    def _show_some(self, rows: Rows, grade: IntArray, order: IntArray, asked: bool) -> Any:
        answer, mistakes, skipped = self._show(rows, grade, order, asked)
        self._count(len(order), mistakes, skipped)
        return answer

    def _count(self, shown: int, mistakes: int, skipped: int) -> None:
        self.n_mistakes_ += mistakes
        self.n_seen_ += shown
        if skipped:
            self._warn_of_skips(skipped)

    def _warn_of_skips(self, skipped: int) -> None:
        warnings.warn(
            f"{type(self).__name__}: {skipped} rows had a score beyond any number and were not "
            "learned from. Scale the features (StandardScaler, QueryNormalizer).",
            ConvergenceWarning,
            stacklevel=4,
        )

    def _grades_of(self, answer: Any) -> FloatArray:
        return np.asarray(self.classes_[answer], dtype=np.float64)

    def _expected_of(self, answer: Any) -> FloatArray:
        return self._grades_of(answer)

    def _is_one_plain_row(self, X: Any, y: Any) -> bool:
        """Whether the checks of one row can be had for less than scikit-learn's 100 us."""
        return (
            type(X) is np.ndarray
            and X.shape == (1, self.n_features_in_)
            and X.dtype.char == "d"
            and X.flags.c_contiguous
            and type(y) in (np.ndarray, list, tuple)
            and len(y) == 1
            and math.isfinite(np.vdot(X, X))
            and "feature_names_in_" not in self.__dict__
        )

    def _code_of(self, value: float) -> int:
        code = int(self.classes_.searchsorted(value))
        if code == len(self.classes_) or self.classes_[code] != value:
            refuse_grade(self.classes_, value)
        return code

    def _writable(self, *names: str) -> list[Any]:
        """The named arrays, our own copies where a model file gave read-only ones."""
        for name in names:
            if name not in self.__dict__:
                raise ParameterError(
                    f"{type(self).__name__} has no {name}: its parameters were changed after it "
                    "had begun to learn. Begin anew with fit() or start()."
                )
            if not self.__dict__[name].flags.writeable:
                self.__dict__[name] = self.__dict__[name].copy()
        return [self.__dict__[name] for name in names]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "classes_")

    def _checked_rows(self, X: Any) -> Any:
        check_is_fitted(self)
        return self._checked(X, reset=False)


@cache
def kernels() -> Any:
    """The compiled passes, loaded when the first row is shown."""
    from rankwright.rankers.online._kernels import prank as _kernels

    return _kernels


class RuleRanker(OnlineRanker):
    """The grade of a row is the first whose threshold lies above the row's score.

    Such rules can be averaged, which is what the OAP ensembles do with them.
    """

    coef_: FloatArray
    thresholds_: FloatArray

    def _map_for(self, n_features: int) -> Polynomial | None:
        """The map that rows of this many features go through, if any."""
        return None

    def _gram_for(self, n_features: int) -> Gram | None:
        """The kernel, where the weights are a sum over rows and not kept themselves."""
        return None

    def _map(self) -> Polynomial | None:
        return self._map_for(self.n_features_in_)

    def _rule(self) -> tuple[FloatArray, FloatArray]:
        """Weights and thresholds, on a scale on which those of several rankers may be averaged."""
        return self.coef_, self.thresholds_

    def _is_plain_prank(self) -> bool:
        """Whether the update is PRank's own, for which ensembles have a faster way."""
        return False

    def _rule_scorer(self) -> Ordinal:
        return Ordinal(Linear(self.coef_), self.thresholds_, self.classes_)

    def _scorer(self) -> Scorer:
        features, rule = self._map(), self._rule_scorer()
        return rule if features is None else Mapped(features, rule)
