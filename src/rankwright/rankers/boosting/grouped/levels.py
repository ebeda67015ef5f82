"""Levels of queries with the factors between them: what a member changes when it is hit."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwright.rankers.boosting.terms import LevelTerm

__all__ = ["Levels"]


class Levels:
    """The levels of a distribution as the scan by query wants them.

    Queries with few levels have a table of factors between any two levels. For those with many
    the factor of two levels is a product of one for each; that loses weights below e**-700, which
    only matter where scores inside one query are that far apart.
    """

    def __init__(self, term: LevelTerm, n_rows: int) -> None:
        self._term = term
        self.n_queries = len(term.query_weight)
        n_levels = np.diff(term.query_ptr)
        level = np.repeat(np.arange(len(term.grade)), np.diff(term.level_ptr))
        self._query = np.repeat(np.arange(self.n_queries), n_levels)
        self.query_of = self._query[level]
        self._level_of = (level - term.query_ptr[self.query_of]).astype(np.int32)
        self.row_of = term.member
        self.list = np.argsort(term.member, kind="stable")
        self.ptr = np.searchsorted(term.member[self.list], np.arange(n_rows + 1))
        widths = np.array([4, 8, 32, 0])  # the tables that the kernel has loops for
        self._widths = widths[np.searchsorted(widths[:3], n_levels)]
        sizes = np.concatenate([[0], np.cumsum(2 * self._widths**2)]).astype(np.int64)
        self._table_ptr, self._tables = sizes[:-1], np.zeros(int(sizes[-1]))
        self._wide = np.flatnonzero(self._widths == 0)
        self._factors = np.zeros((2, len(term.grade)))

    def prepare(self, unit: float) -> None:
        """Compute the factors for the present scores; ``unit`` is the logarithm of the unit."""
        from rankwright.rankers.boosting.grouped import _kernels

        t = self._term
        _kernels.pair_factors(
            t.query_ptr, t.grade, t.query_weight, t.magnitude, unit, t.high, t.low, *self._table,
        )  # fmt: skip
        if len(self._wide):
            middle = np.maximum.reduceat(t.high, t.query_ptr[:-1])[self._query]
            low, up = t.high - middle, middle - t.low - unit
            self._factors[:] = np.exp(np.clip([low, up], -700.0, 700.0))
            self._factors[1] *= t.query_weight[self._query]

    @property
    def _table(self) -> tuple[Any, ...]:
        return self._widths, self._table_ptr, self._tables

    def add_changes(self, entries: tuple[Any, ...], out: tuple[Any, ...]) -> None:
        """Add what the members of some features change, at their codes (see level_changes)."""
        from rankwright.rankers.boosting.grouped import _kernels

        t = self._term
        state = t.lower_sum, t.upper_sum, t.rising, t.falling
        place = self._level_of, t.level_ptr, t.query_ptr
        _kernels.level_changes(*entries, *place, *self._table, *state, *out)
        for query in self._wide.tolist():
            _kernels.wide_changes(
                query, *entries, *place, t.grade, t.magnitude, *self._factors, *state, *out
            )
