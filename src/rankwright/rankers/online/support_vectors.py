"""What a ranker needs to live on support rows: shown in blocks, kept within a budget."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, ClassVar

import numpy as np
from scipy import linalg

from rankwright._typing import FloatArray, IntArray
from rankwright.exceptions import DataError
from rankwright.feedback.base import Feedback
from rankwright.rankers.kernels import Gram, dense
from rankwright.rankers.online.base import OnlineRanker, with_room
from rankwright.scoring.kernel import Kernel

Rule = Callable[[FloatArray, FloatArray], tuple[int, FloatArray]]


def _oldest(dual: FloatArray, gram: FloatArray) -> tuple[int, FloatArray]:
    """The row that came first; its part is forgotten."""
    return 0, dual


def _smallest(dual: FloatArray, gram: FloatArray) -> tuple[int, FloatArray]:
    """The row whose part |coefficient| sqrt(K(x, x)) is smallest; it is forgotten."""
    parts = _over_members(np.abs(dual)) * np.sqrt(np.maximum(np.diag(gram), 0.0))
    return int(np.argmin(parts)), dual


def _project(dual: FloatArray, gram: FloatArray) -> tuple[int, FloatArray]:
    """The row that the others can best stand in for; its part is projected onto them.

    With Q the inverse Gram matrix, row p is nearest to -sum_i Q_ip / Q_pp (row i) of all
    combinations of the others, and dual_p^2 / Q_pp is the squared length of what is lost.
    """
    ridge = 1e-10 * max(float(np.trace(gram)) / len(gram), 1e-300)
    inverse = linalg.pinvh(gram + ridge * np.eye(len(gram)))
    weight = np.maximum(np.diag(inverse), 1e-300)
    gone = int(np.argmin(_over_members(dual**2) / weight))
    return gone, dual - np.multiply.outer(inverse[:, gone], dual[gone]) / weight[gone]


def _over_members(parts: FloatArray) -> FloatArray:
    return parts if parts.ndim == 1 else np.asarray(parts.sum(axis=1))


# All take the coefficients (a row, or one column for each member of an ensemble) and the Gram
# matrix of the support, oldest first.
BUDGET_RULES: dict[str, Rule] = {"oldest": _oldest, "smallest": _smallest, "project": _project}

KINDS = {"linear": 0, "poly": 1, "rbf": 2}


@cache
def kernels() -> Any:
    """The compiled walk, loaded when the first row is shown."""
    from rankwright.rankers.online._kernels import kernel_prank as compiled

    return compiled


class Stretch:
    """The old support and a block of rows behind it; the support is a choice among both.

    Attributes
    ----------
    size : how many rows the support has now
    dual : their coefficients (the first ``size`` entries), of one ranker or of all members
    n_unmoved : how many of the old support rows are still in their places at the beginning
    """

    def __init__(
        self,
        gram: Gram,
        old: Sequence[Any],  # rows, numbers and coefficients of the support
        rows: FloatArray,
        numbers: IntArray,
    ) -> None:
        self._gram, self._rows, self._numbers = gram, rows, numbers
        self._old_rows, self._old_numbers, dual = old
        self.size = self.n_unmoved = len(dual)
        self.dual = np.zeros((self.size + len(rows), *dual.shape[1:]))
        self.dual[: self.size] = dual
        self._columns = np.arange(len(self.dual))
        self._values = self._kernel_values()

    def walk(self, show: Callable[..., Any], most: int, rule: Rule) -> tuple[int, int]:
        """Show the rows in order, dropping beyond ``most``; the mistakes, the skips.

        ``show`` is called with (values, first row, columns, dual, size, most).
        """
        at, mistakes, skipped = 0, 0, 0
        while at < len(self._rows):
            at, self.size, wrong, lost = show(
                self._values, at, self._columns, self.dual, self.size, most
            )
            mistakes, skipped = mistakes + wrong, skipped + lost
            if self.size > most:
                self._drop(rule)
        return mistakes, skipped

    def support(self, first: int) -> tuple[FloatArray, IntArray, FloatArray]:
        """Rows, numbers and coefficients of the support from its ``first`` row on."""
        columns = self._columns[first : self.size]
        return (
            self._take(columns, self._old_rows, self._rows),
            self._take(columns, self._old_numbers, self._numbers),
            self.dual[first : self.size].copy(),
        )

    def _take(self, columns: IntArray, old: Any, new: Any) -> Any:
        taken = np.empty((len(columns), *old.shape[1:]), old.dtype)
        ours = columns < len(old)
        taken[ours], taken[~ours] = old[columns[ours]], new[columns[~ours] - len(old)]
        return taken

    def _drop(self, rule: Rule) -> None:
        gone, dual = rule(self.dual[: self.size], self._support_gram())
        for array, values in ((self.dual, dual), (self._columns, self._columns[: self.size])):
            array[: self.size - 1] = np.delete(values, gone, axis=0)
        self.size -= 1
        self.n_unmoved = min(self.n_unmoved, gone)

    def _support_gram(self) -> FloatArray:
        rows, numbers, _ = self.support(0)
        if self._gram.is_precomputed:
            return rows[:, numbers]
        return self._values_between(rows, rows)

    def _kernel_values(self) -> FloatArray:
        n_old, n_rows = len(self._old_rows), len(self._rows)
        if self._gram.is_precomputed:
            numbers = np.concatenate([self._old_numbers, self._numbers])
            return np.ascontiguousarray(self._rows[:, numbers])
        values = np.empty((n_rows, n_old + n_rows))
        values[:, :n_old] = self._values_between(self._rows, self._old_rows)
        values[:, n_old:] = self._values_between(self._rows, self._rows)
        return values

    def _values_between(self, left: FloatArray, right: FloatArray) -> FloatArray:
        kernel = self._gram.kernel
        values = np.empty((len(left), len(right)))
        if isinstance(kernel, Kernel):
            options = (KINDS[kernel.name], kernel.gamma, kernel.degree, kernel.coef0)
            kernels().kernel_block(left, right, *options, values, 0)
        elif len(right):
            values[:] = self._gram.block(left, right)
        return values


BLOCK = 256


class SupportedRanker(OnlineRanker):
    """An online ranker that may be a sum of kernels over rows of the stream.

    It is one when ``_gram()`` gives a kernel; ``_duals`` names the attribute that holds its
    coefficients, one row for each support row.
    """

    _duals: ClassVar[str]

    support_: IntArray
    support_vectors_: FloatArray

    @abstractmethod
    def _gram(self) -> Gram | None:
        """The kernel of the sum, or None where the ranker is kept as weights."""

    @abstractmethod
    def _walk(self, stretch: Stretch, grade: IntArray, asked: bool) -> tuple[Any, int, int]:
        """Show a stretch of rows: the predictions before (if asked), mistakes, skips."""

    def _begin_support(self, n_features: int, *n_estimators: int) -> None:
        self.support_vectors_ = np.zeros((0, n_features))
        self.support_ = np.zeros(0, np.int64)
        self.__dict__[self._duals] = np.zeros((0, *n_estimators))

    def _show_all(self, X: Any, grade: IntArray, order: IntArray, asked: bool, first: int) -> Any:
        gram = self._gram()
        if gram is None:
            return super()._show_all(X, grade, order, asked, first)
        if gram.is_precomputed and first + X.shape[0] > X.shape[1]:
            raise DataError(
                f"kernel='precomputed': the stream has {first + X.shape[0]} rows and X has "
                f"{X.shape[1]} columns. X[i, j] is the kernel of rows i and j of the stream."
            )
        answers = []
        for start in range(0, len(order), BLOCK):
            chosen = order[start : start + BLOCK]
            old = self._writable(*self._support_names)
            stretch = Stretch(gram, old, dense(X[chosen]), first + chosen)
            answer, mistakes, skipped = self._walk(stretch, grade[chosen], asked)
            self._keep(stretch)
            self._count(len(chosen), mistakes, skipped)
            answers.append(answer)
        return np.concatenate(answers)

    @property
    def _support_names(self) -> tuple[str, ...]:
        return ("support_vectors_", "support_", self._duals)

    def _keep(self, stretch: Stretch) -> None:
        """Take over the support after a stretch; rows that stayed where they were stay there."""
        size, same = stretch.size, stretch.n_unmoved
        for name, values in zip(self._support_names, stretch.support(same), strict=True):
            table = with_room(self.__dict__[name][:same], size) if same else values
            if same:
                table[same:size] = values
            self.__dict__[name] = table[:size]
        self.__dict__[self._duals][:] = stretch.dual[:size]

    def _fit(self, X: Any, feedback: Feedback) -> None:
        gram = self._gram()
        if gram is not None and gram.is_precomputed and X.shape[0] != X.shape[1]:
            raise DataError(
                f"kernel='precomputed' needs a square X at training, found {X.shape}: "
                "X[i, j] is the kernel of rows i and j."
            )
        super()._fit(X, feedback)
