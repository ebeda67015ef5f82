"""Online rankers that are sums of kernels over support rows, within a budget or without."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from rankwright._typing import FloatArray, IntArray, Matrix
from rankwright.exceptions import DataError
from rankwright.rankers import schema
from rankwright.rankers.kernels import Gram, dense
from rankwright.rankers.online.base import OnlineRanker, kernels, with_room
from rankwright.scoring.base import RowMap
from rankwright.scoring.kernel import Kernel
from rankwright.scoring.transforms import Monomials, kernel_coefficients

BLOCK = 256  # rows whose kernels with the support are computed at once
MOST_EXPLICIT = 1000  # mapped features up to which weights are faster than a growing support
KINDS = {"linear": 0, "poly": 1, "rbf": 2}

BudgetRule = Callable[[FloatArray, FloatArray], tuple[int, FloatArray]]


def _oldest(dual: FloatArray, gram: FloatArray) -> tuple[int, FloatArray]:
    """Drop the first row, with its part of the model."""
    return 0, np.zeros(len(gram))


def _smallest(dual: FloatArray, gram: FloatArray) -> tuple[int, FloatArray]:
    """Drop the row with the least |coefficient| sqrt(K(x, x)), with its part of the model."""
    parts = _over_members(np.abs(dual)) * np.sqrt(np.maximum(np.diag(gram), 0.0))
    return int(np.argmin(parts)), np.zeros(len(gram))


def _project(dual: FloatArray, gram: FloatArray) -> tuple[int, FloatArray]:
    """Drop the row that the others can best replace, and project its part onto them.

    With Q the inverse Gram matrix, row p is nearest to -sum_i Q_ip / Q_pp (row i) of all
    combinations of the others, and dual_p^2 / Q_pp is the squared length of the error.
    """
    ridge = 1e-10 * max(float(np.trace(gram)) / len(gram), 1e-300)
    inverse = _inverse(gram + ridge * np.eye(len(gram)))
    weight = np.maximum(np.diag(inverse), 1e-300)
    dropped = int(np.argmin(_over_members(dual**2) / weight))
    return dropped, -inverse[:, dropped] / weight[dropped]


def _inverse(matrix: FloatArray) -> FloatArray:
    """The inverse of a symmetric matrix, the pseudo-inverse where Cholesky's method fails."""
    factor, failed = linalg.lapack.dpotrf(matrix, lower=1)
    if failed:
        return np.asarray(linalg.pinvh(matrix))
    # Not dpotri: OpenBLAS starts all threads for it, however small the matrix is.
    lower = np.tril(linalg.lapack.dtrtri(factor, lower=1)[0])
    return np.asarray(lower.T @ lower)


def _over_members(parts: FloatArray) -> FloatArray:
    return parts if parts.ndim == 1 else np.asarray(parts.sum(axis=1))


# All take the coefficients (one column for each member of an ensemble) and the Gram matrix of the
# support, oldest row first. They return the row to drop and which combination of the others
# replaces it.
BUDGET_RULES: dict[str, BudgetRule] = {
    "oldest": _oldest,
    "smallest": _smallest,
    "project": _project,
}


class SupportBlock:
    """The support while a block of rows is learned from: old support rows, then rows of the block.

    Parameters
    ----------
    old : rows, numbers in the stream and coefficients of the support before the block
    rows, numbers : the rows of the block, and their numbers in the stream
    """

    def __init__(self, gram: Gram, old: Sequence[Any], rows: FloatArray, numbers: IntArray) -> None:
        self._gram, self._old, self._new = gram, old, (rows, numbers)
        dual = old[2]
        self._size = self._n_unmoved = len(dual)
        self._dual = np.zeros((len(dual) + len(rows), *dual.shape[1:]))
        self._dual[: len(dual)] = dual
        self._columns = np.arange(len(self._dual))
        self._values = self._kernel_values()

    def learn(
        self, learn: Callable[..., Any], budget: int | None, rule: BudgetRule
    ) -> tuple[int, int]:
        """Make a compiled pass over the block, dropping rows beyond the budget.

        ``learn`` is called with (expansion, first row, size), see ``_kernels.kernel_prank``.
        Returns mistakes and skipped rows.
        """
        room = None if budget is None else budget + 1
        expansion = (self._values, self._columns[:room], self._dual)
        at, mistakes, skipped = 0, 0, 0
        while at < len(self._values):
            at, self._size, *counts = learn(expansion, at, self._size)
            mistakes, skipped = mistakes + counts[0], skipped + counts[1]
            if self._size == room:
                self._drop(rule)
        return mistakes, skipped

    def support(self) -> list[Any]:
        """Rows, numbers and coefficients of the support; unmoved rows stay where they are."""
        size, same, tables = self._size, self._n_unmoved, []
        for old, new in zip(self._old, (*self._support(same), self._dual[same:size]), strict=True):
            table = with_room(old[:same], size) if same else np.array(new)
            table[same:size] = new
            tables.append(table[:size])
        tables[2][:] = self._dual[:size]
        return tables

    def _support(self, first: int) -> tuple[FloatArray, IntArray]:
        """Rows and numbers of the support from its ``first`` row on."""
        columns = self._columns[first : self._size]
        return (
            self._take(columns, self._old[0], self._new[0]),
            self._take(columns, self._old[1], self._new[1]),
        )

    def _take(self, columns: IntArray, old: NDArray[Any], new: NDArray[Any]) -> Any:
        taken = np.empty((len(columns), *old.shape[1:]), old.dtype)
        is_old = columns < len(old)
        taken[is_old], taken[~is_old] = old[columns[is_old]], new[columns[~is_old] - len(old)]
        return taken

    def _drop(self, rule: BudgetRule) -> None:
        size = self._size
        dropped, combination = rule(self._dual[:size], self._support_gram())
        dual = self._dual[:size] + np.multiply.outer(combination, self._dual[dropped])
        self._dual[: size - 1] = np.delete(dual, dropped, axis=0)
        self._columns[: size - 1] = np.delete(self._columns[:size], dropped)
        self._size, self._n_unmoved = size - 1, min(self._n_unmoved, dropped)

    def _support_gram(self) -> FloatArray:
        rows, numbers = self._support(0)
        return rows[:, numbers] if self._gram.is_precomputed else self._between(rows, rows)

    def _kernel_values(self) -> FloatArray:
        """Kernels of the block's rows with the old support, then with each other."""
        rows, numbers = self._new
        if self._gram.is_precomputed:
            return np.ascontiguousarray(rows[:, np.concatenate([self._old[1], numbers])])
        values = np.empty((len(rows), len(self._dual)))
        values[:, : self._size] = self._between(rows, self._old[0])
        values[:, self._size :] = self._between(rows, rows)
        return values

    def _between(self, left: FloatArray, right: FloatArray) -> FloatArray:
        kernel = self._gram.kernel
        values = np.empty((len(left), len(right)))
        if isinstance(kernel, Kernel):
            options = (KINDS[kernel.name], kernel.gamma, kernel.degree, kernel.coef0)
            kernels("kernel_prank").kernel_block(left, right, *options, values)
        elif len(right):
            values[:] = self._gram.block(left, right)
        return values


class SupportRanker(OnlineRanker):
    """An online ranker that is a sum of kernels over support rows if ``_gram`` returns a kernel."""

    support_: IntArray
    support_vectors_: FloatArray

    @abstractmethod
    def _support(self) -> list[Any]:
        """Rows, numbers in the stream and coefficients of the support, writable."""

    @abstractmethod
    def _set_support(self, rows: FloatArray, numbers: IntArray, dual: FloatArray) -> None: ...

    @abstractmethod
    def _block_pass(
        self, block: SupportBlock, grade: IntArray, predict: bool
    ) -> tuple[Any, int, int]:
        """Learn from a block of rows: the predictions before each, mistakes, skipped.

        Predictions may be missing unless ``predict``.
        """

    def _learn_rows(
        self, X: Matrix, grade: IntArray, order: IntArray, first: int, predict: bool
    ) -> Any:
        gram = self._gram(self.n_features_in_)
        if gram is None:
            return super()._learn_rows(X, grade, order, first, predict)
        if gram.is_precomputed and first + X.shape[0] > X.shape[1]:
            raise DataError(
                f"kernel='precomputed': the stream has {first + X.shape[0]} rows and X has "
                f"{X.shape[1]} columns. X[i, j] is the kernel of rows i and j of the stream."
            )
        predictions = []
        for start in range(0, len(order), BLOCK):
            rows = order[start : start + BLOCK]
            block = SupportBlock(gram, self._support(), dense(X[rows]), first + rows)
            prediction, mistakes, skipped = self._block_pass(block, grade[rows], predict)
            self._set_support(*block.support())
            self._count(len(rows), mistakes, skipped)
            predictions.append(prediction)
        return np.concatenate(predictions)

    def _values_and_duals(self, gram: Gram, duals: FloatArray) -> tuple[RowMap | None, FloatArray]:
        """The map from rows to kernel values, and coefficients of these, a column for each model.

        Precomputed values need no map: the support rows are columns of X.
        """
        values = gram.values_with(self.support_vectors_)
        if values is not None:
            return values, duals
        spread = np.zeros((self.n_features_in_, duals.shape[1]))
        np.add.at(spread, self.support_, duals)
        return None, spread

    def _merge_support(self) -> None:
        """Merge the entries of a row that is in the support several times."""
        numbers, first, where = np.unique(self.support_, return_index=True, return_inverse=True)
        if len(numbers) < len(self.support_):
            rows, _, dual = self._support()
            merged = np.zeros((len(numbers), *dual.shape[1:]))
            np.add.at(merged, where, dual)
            order = np.argsort(first)
            self._set_support(rows[first[order]], numbers[order], merged[order])

    def _fit(self, X: Matrix, *feedback: Any) -> None:
        gram = self._gram(self.n_features_in_)
        if gram is not None:
            gram.check_square(X)
        super()._fit(X, *feedback)


KERNEL_CONSTRAINTS: dict[str, schema.Constraint] = {
    "kernel": schema.either(
        schema.one_of("linear", "poly", "rbf", "precomputed"), schema.function()
    ),
    "gamma": schema.either(schema.one_of("auto"), schema.positive()),
    "degree": schema.at_least(1),
    "coef0": schema.number(),
    "budget": schema.optional(schema.at_least(1)),
    "budget_rule": schema.one_of(*BUDGET_RULES),
}


@lru_cache(maxsize=64)
def _gram_of(kernel: str, gamma: float, degree: int, coef0: float) -> Gram:
    return Gram.of(kernel, gamma=gamma, degree=degree, coef0=coef0)


class KernelStream(SupportRanker):
    """A support ranker with a kernel of its own; see KernelPRank for the parameters.

    Where monomials of few features are equivalent to the kernel and there is no budget, it learns
    weights of the monomials instead of coefficients of a support.
    """

    gamma: float | str
    degree: int
    coef0: float
    budget: int | None
    budget_rule: str

    @property
    def _chunks_exact(self) -> bool:  # type: ignore[override]
        return not callable(self.kernel)  # a function may round differently for other tables

    def _advice_for_many_rows(self) -> str | None:
        bounded = self.budget is not None or self._gram(self.n_features_in_) is None
        return None if bounded else "Set a budget, for example budget=1000."

    def _is_explicit(self, n_features: int) -> bool:
        return self.budget is None and (
            self.kernel == "linear"
            or (
                self.kernel == "poly"
                and self.coef0 >= 0
                and Monomials.width(n_features, self.degree) <= MOST_EXPLICIT
            )
        )

    def _map(self, n_features: int) -> Monomials | None:
        if self.kernel != "poly" or not self._is_explicit(n_features):
            return None
        return Monomials(n_features, int(self.degree))

    def _map_scale(self, n_features: int) -> FloatArray | None:
        # On one side only: the square roots of a symmetric map would round, and break the ties of
        # score and threshold that are common with whole numbers.
        if self.kernel != "poly" or not self._is_explicit(n_features):
            return None
        gamma, coef0 = self._gamma(n_features), float(self.coef0)
        return kernel_coefficients(n_features, int(self.degree), gamma, coef0)

    def _gram(self, n_features: int) -> Gram | None:
        if self._is_explicit(n_features):
            return None
        options = (self._gamma(n_features), int(self.degree), float(self.coef0))
        if not isinstance(self.kernel, str):
            return Gram(self.kernel)
        return _gram_of(self.kernel, *options)  # needed for every row of a stream

    def _gamma(self, n_features: int) -> float:
        return 1.0 / n_features if self.gamma == "auto" else float(self.gamma)

    def _n_mapped(self, n_features: int) -> int:
        features = self._map(n_features)
        return n_features if features is None else features.n_outputs

    def _limits(self) -> tuple[int | None, BudgetRule]:
        return self.budget, BUDGET_RULES[self.budget_rule]

    def _end_pass(self) -> None:
        if self._gram(self.n_features_in_) is not None:
            self._merge_support()
