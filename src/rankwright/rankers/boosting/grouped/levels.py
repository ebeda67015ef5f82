"""Levels of queries with the factors between them: what a member changes when it is hit."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwright.parallel import Team, ranges
from rankwright.rankers.boosting.levels import LevelTerm, pointers

__all__ = ["Levels"]


class Levels:
    """The levels of a distribution as the scan by query wants them.

    Queries with few levels have factors between any two levels. For those with many the factor of
    two levels is a product of one for each; that loses weights below e**-700, which only matter
    where scores inside one query are that far apart.
    """

    def __init__(self, term: LevelTerm, n_rows: int, team: Team) -> None:
        from rankwright.rankers.boosting.grouped._kernels import MAX_LEVELS

        self._term, self._team = term, team
        self.n_queries = len(term.query_weight)
        n_levels = np.diff(term.query_ptr)
        level = np.repeat(np.arange(len(term.grade)), np.diff(term.level_ptr))
        self._query = np.repeat(np.arange(self.n_queries), n_levels)
        self.query_of = self._query[level]
        self._level_of = (level - term.query_ptr[self.query_of]).astype(np.int32)
        self.row_of = term.member
        self.list = np.argsort(term.member, kind="stable")
        self.ptr = np.searchsorted(term.member[self.list], np.arange(n_rows + 1))
        few = n_levels <= MAX_LEVELS
        self._wide, self._wide_factors = np.flatnonzero(~few), np.zeros((2, len(term.grade)))
        self._factor_ptr = pointers(np.where(few, n_levels**2, 0))
        self._factors = np.zeros(int(self._factor_ptr[-1]))
        n_quads = np.where(few, n_levels // 2, 0) * np.diff(term.level_ptr[term.query_ptr])
        self._quad_ptr = pointers(n_quads)
        self._quads = np.zeros((int(self._quad_ptr[-1]), 8))
        self._sides = np.zeros((len(term.member), 2))

    def prepare(self, unit: float) -> None:
        """Compute the factors for the present scores; ``unit`` is the logarithm of the unit."""
        from rankwright.rankers.boosting.grouped import _kernels

        t = self._term

        def block(bounds: tuple[int, int]) -> None:
            _kernels.describe_members(
                *bounds, t.level_ptr, t.query_ptr, t.grade, t.query_weight, t.magnitude, unit,
                t.high, t.low, *self._sums, *self._described,
            )  # fmt: skip

        self._team.map(block, ranges(self.n_queries, self._team.threads))
        if len(self._wide):
            middle = np.maximum.reduceat(t.high, t.query_ptr[:-1])[self._query]
            low, up = t.high - middle, middle - t.low - unit
            self._wide_factors[:] = np.exp(np.clip([low, up], -700.0, 700.0))
            self._wide_factors[1] *= t.query_weight[self._query]

    @property
    def _sums(self) -> tuple[Any, ...]:
        t = self._term
        return t.lower_sum, t.upper_sum, t.rising, t.falling

    @property
    def _described(self) -> tuple[Any, ...]:
        return self._factor_ptr, self._factors, self._quad_ptr, self._quads, self._sides

    def add_changes(self, entries: tuple[Any, ...], out: tuple[Any, ...]) -> None:
        """Add what the members of some features change, at their codes (see level_changes)."""
        from rankwright.rankers.boosting.grouped import _kernels
        from rankwright.rankers.boosting.grouped.wide._kernels import wide_changes

        t = self._term
        place = self._level_of, t.level_ptr, t.query_ptr
        _kernels.level_changes(*entries, *place, *self._described, *self._sums, *out)
        for query in self._wide.tolist():
            wide_changes(
                query, *entries, *place, t.grade, t.magnitude, *self._wide_factors, *self._sums,
                *out,
            )  # fmt: skip
