"""The terms of a feedback as flat arrays: rows on levels, and pairs one by one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rankwright.feedback import Bipartite, Feedback, Grades, Pairs
from rankwright.feedback.base import FloatArray, IntArray
from rankwright.rankers.boosting.levels import NO_MASS, LevelTerm, pointers

__all__ = ["PairTerm", "count_roles", "number_rows", "read_terms"]


class PairTerm:
    """Pairs one by one; ``share`` is the present weight of each."""

    def __init__(self, lower: IntArray, upper: IntArray, weight: FloatArray) -> None:
        keep = weight > 0
        self.lower, self.upper, self.weight = lower[keep], upper[keep], weight[keep]
        self.share = np.zeros(len(self.weight))

    @property
    def n_pairs(self) -> int:
        return len(self.lower)

    @property
    def total_weight(self) -> float:
        return float(self.weight.sum())


def read_terms(feedback: Feedback) -> tuple[LevelTerm, PairTerm]:
    """All graded terms as queries of one term; all pairs as one list."""
    terms = list(feedback.terms())
    parts = [_levels_of(f, term) for f, term in terms if isinstance(term, Grades | Bipartite)]
    listed = [(f, term) for f, term in terms if isinstance(term, Pairs)]
    none = np.zeros(0, np.int64)
    return _join_levels(parts), PairTerm(
        np.concatenate([none, *(term.lower for _, term in listed)]),
        np.concatenate([none, *(term.upper for _, term in listed)]),
        np.concatenate([NO_MASS, *(factor * term.weight for factor, term in listed)]),
    )


Parts = tuple[IntArray, FloatArray, IntArray, IntArray, FloatArray, FloatArray, NDArray[np.bool_]]


def _levels_of(factor: float, term: Grades | Bipartite) -> Parts:
    """Members (row, weight, level), levels (query, grade), queries (weight, magnitude)."""
    if isinstance(term, Grades):
        level, query, grade = term.levels
        magnitude = np.full(len(term.query_weight), term.magnitude)
        rows, weight = np.arange(len(term.y)), factor * term.query_weight
        return rows, term.sample_weight, level, query, grade, weight, magnitude
    rows = np.concatenate([term.lower, term.upper])
    level = np.repeat([0, 1], [len(term.lower), len(term.upper)]).astype(np.int64)
    each = np.concatenate([term.lower_weight, term.upper_weight])
    query, grade = np.zeros(2, np.int64), np.array([0.0, 1.0])
    return rows, each, level, query, grade, np.array([factor]), np.zeros(1, bool)


def _join_levels(parts: list[Parts]) -> LevelTerm:
    """Several graded terms as one, with the queries of all of them."""
    none = np.zeros(0, np.int64)
    if not parts:
        return LevelTerm(none, NO_MASS, none, none, NO_MASS, NO_MASS, np.zeros(0, bool))
    n_levels = pointers([len(part[4]) for part in parts])
    n_queries = pointers([len(part[5]) for part in parts])
    member, weight, level, query, grade, query_weight, magnitude = zip(*parts, strict=True)
    return LevelTerm(
        np.concatenate(member),
        np.concatenate(weight),
        np.concatenate([each + n_levels[i] for i, each in enumerate(level)]),
        np.concatenate([each + n_queries[i] for i, each in enumerate(query)]),
        np.concatenate(grade),
        np.concatenate(query_weight),
        np.concatenate(magnitude),
    )


def number_rows(levels: LevelTerm, pairs: PairTerm, n_items: int) -> IntArray:
    """Number the rows in use, members first and in their order; rewrite the terms accordingly."""
    used = np.concatenate([levels.member, pairs.lower, pairs.upper])
    _, first = np.unique(used, return_index=True)
    rows = used[np.sort(first)].astype(np.int64)
    number = np.full(n_items, -1, np.int64)
    number[rows] = np.arange(len(rows))
    levels.member = number[levels.member]
    levels.direct = np.array_equal(levels.member, np.arange(len(rows)))
    pairs.lower, pairs.upper = number[pairs.lower], number[pairs.upper]
    return rows


def count_roles(levels: LevelTerm, pairs: PairTerm, n_rows: int) -> tuple[int, int]:
    """How many rows are the lower, and how many the upper, of some pair."""
    lower, upper = np.zeros(n_rows, bool), np.zeros(n_rows, bool)
    lower[pairs.lower], upper[pairs.upper] = True, True
    level = np.repeat(np.arange(len(levels.grade)), np.diff(levels.level_ptr))
    first = np.zeros(len(levels.grade), bool)
    last = np.zeros(len(levels.grade), bool)
    first[levels.query_ptr[:-1]], last[levels.query_ptr[1:] - 1] = True, True
    lower[levels.member[~last[level]]] = True
    upper[levels.member[~first[level]]] = True
    return int(lower.sum()), int(upper.sum())
