"""A block of rows shown to a kernel ranker: kernels first, then the walk, dropping on the way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from rankwright.rankers.base import FloatArray
from rankwright.rankers.gram import Gram
from rankwright.rankers.online.dual.budget import Rule
from rankwright.rankers.online.rows import IntArray
from rankwright.scoring import Kernel

__all__ = ["Stretch", "kernels"]

KINDS = {"linear": 0, "poly": 1, "rbf": 2}


@cache
def kernels() -> Any:
    """The compiled walk, loaded when the first row is shown."""
    from rankwright.rankers.online.dual import _kernels as compiled

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
