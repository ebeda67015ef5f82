"""Preferences that follow from grades: inside a query, a higher grade belongs above a lower one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from rankwright._typing import FloatArray, IntArray
from rankwright.data.queries import Queries
from rankwright.exceptions import FeedbackError
from rankwright.feedback.base import Feedback, frozen_weights

if TYPE_CHECKING:
    from rankwright.data.ratings import Ratings
    from rankwright.data.runs import Run
    from rankwright.feedback.pairs import Pairs


@dataclass(frozen=True, eq=False)
class Grades(Feedback):
    """One grade per row: inside a query, every row belongs above every row of a lower grade.

    The weight of a preference is the product of its two rows' weights and of its query's weight
    (so a row of weight 2 counts as two copies of it), times the difference of the grades when
    ``magnitude`` is set. Nothing here grows with the number of pairs.

    Parameters
    ----------
    y : (n_items,) numbers
    qid : (n_items,) ids of any type in any order, or Queries; None is one list
    sample_weight : (n_items,) numbers >= 0
    query_weight : a number >= 0 per query (in order of first appearance), per row, or {id: number}
    magnitude : bool

    Examples
    --------
    >>> grades = Grades([2, 0, 1, 1, 0], qid=["a", "a", "a", "b", "b"])
    >>> grades.n_pairs, grades.total_weight
    (4, 4.0)
    >>> pairs = grades.to_pairs()
    >>> list(zip(pairs.lower.tolist(), pairs.upper.tolist()))
    [(1, 0), (1, 2), (2, 0), (4, 3)]
    """

    y: FloatArray
    queries: Queries
    sample_weight: FloatArray
    query_weight: FloatArray
    magnitude: bool

    def __init__(
        self,
        y: ArrayLike,
        qid: Any = None,
        *,
        sample_weight: ArrayLike | None = None,
        query_weight: Any = None,
        magnitude: bool = False,
    ) -> None:
        grades = np.array(y, dtype=np.float64)
        if grades.ndim != 1:
            raise FeedbackError(f"y has shape {grades.shape}: one grade per row needed.")
        bad = np.flatnonzero(~np.isfinite(grades))
        if len(bad):
            raise FeedbackError(f"y[{bad[0]}] is {grades[bad[0]]}: grades must be finite numbers.")
        grades.setflags(write=False)
        queries = qid if isinstance(qid, Queries) else Queries.from_ids(qid, len(grades))
        if queries.n_items != len(grades):
            raise FeedbackError(f"qid has {queries.n_items} rows and y has {len(grades)}.")
        rows = frozen_weights(sample_weight, len(grades), "sample_weight")
        object.__setattr__(self, "y", grades)
        object.__setattr__(self, "queries", queries)
        object.__setattr__(self, "sample_weight", rows)
        object.__setattr__(self, "query_weight", _per_query(query_weight, queries))
        object.__setattr__(self, "magnitude", bool(magnitude))

    @classmethod
    def from_ratings(cls, ratings: Ratings, **options: Any) -> Grades:
        """Each rating is a row, each user a query: what a user rated higher belongs above."""
        return cls(ratings.value, ratings.user, **options)

    @classmethod
    def from_run(cls, run: Run, **options: Any) -> Grades:
        """Each line of a run is a row: what the run scored higher belongs above."""
        return cls(run.score, run.query, **options)

    @property
    def n_rows(self) -> int:
        return len(self.y)

    @cached_property
    def row_weight(self) -> FloatArray:
        """What a row counts where rows count one by one: its weight times that of its query."""
        weight = self.sample_weight * self.query_weight[self.queries.codes]
        weight.setflags(write=False)
        return weight

    @cached_property
    def levels(self) -> tuple[IntArray, IntArray, FloatArray]:
        """The distinct (query, grade) levels: per row its level, per level its query and its grade.

        Levels are numbered query by query, grades ascending, so that the levels of a query are
        neighbors: what makes sums over pairs cost O(rows + levels).
        """
        order = np.lexsort((self.y, self.queries.codes))
        query, grade = self.queries.codes[order], self.y[order]
        new = np.ones(len(order), dtype=bool)
        new[1:] = (query[1:] != query[:-1]) | (grade[1:] != grade[:-1])
        level = np.empty(len(order), np.int64)
        level[order] = np.cumsum(new) - 1
        return level, query[new].astype(np.int64), grade[new]

    @property
    def n_pairs(self) -> int:
        counts = np.bincount(self.levels[0], minlength=len(self.levels[1])).astype(np.float64)
        return round(self._pair_sum(counts, np.ones(self.queries.n_queries), False))

    @property
    def total_weight(self) -> float:
        level, query, _ = self.levels
        mass = np.bincount(level, self.sample_weight, len(query)).astype(np.float64)
        return self._pair_sum(mass, self.query_weight, self.magnitude)

    def _pair_sum(self, mass: FloatArray, per_query: FloatArray, magnitude: bool) -> float:
        """Sum over pairs of levels (a below b, same query) of mass a * mass b * query * gap."""
        _, query, grade = self.levels
        below, below_y = _before(mass, query), _before(mass * grade, query)
        terms = mass * (grade * below - below_y) if magnitude else mass * below
        return float(np.sum(terms * per_query[query]))

    def to_pairs(self) -> Pairs:
        from rankwright.feedback.pairs import Pairs

        lower, upper = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for rows in np.split(self.queries.order, self.queries.ptr[1:-1]):
            below, above = np.nonzero(self.y[rows][:, None] < self.y[rows][None, :])
            lower.append(rows[below])
            upper.append(rows[above])
        low, up = np.concatenate(lower), np.concatenate(upper)
        query = self.queries.codes[low]
        weight = self.sample_weight[low] * self.sample_weight[up] * self.query_weight[query]
        if self.magnitude:
            weight = weight * (self.y[up] - self.y[low])
        return Pairs(low, up, weight, query=query)


def _before(values: FloatArray, query: IntArray) -> FloatArray:
    """For each level, the sum of the values of the lower levels of its query."""
    if len(values) == 0:
        return values
    starts = np.flatnonzero(np.concatenate([[True], query[1:] != query[:-1]]))
    running: FloatArray = np.concatenate([[0.0], np.cumsum(values)])[:-1]
    at_start: FloatArray = np.repeat(running[starts], np.diff(np.append(starts, len(values))))
    return running - at_start


def _per_query(query_weight: Any, queries: Queries) -> FloatArray:
    """One weight per query from a table {id: weight}, one per query, or one per row."""
    n = queries.n_queries
    if isinstance(query_weight, dict):
        missing = [i for i in queries.ids.tolist() if i not in query_weight]
        if missing:
            raise FeedbackError(f"query_weight has no weight for query {missing[0]!r}.")
        return frozen_weights([query_weight[i] for i in queries.ids.tolist()], n, "query_weight")
    if query_weight is None or np.ndim(query_weight) == 0 or len(query_weight) == n:
        return frozen_weights(query_weight, n, "query_weight")
    if len(query_weight) != queries.n_items:
        raise FeedbackError(
            f"query_weight has {len(query_weight)} entries: give one for each of the {n} queries "
            f"(in order of first appearance), one for each of the {queries.n_items} rows, "
            "or a table {query id: weight}."
        )
    rows = frozen_weights(query_weight, queries.n_items, "query_weight")
    first = queries.order[queries.ptr[:-1]]
    weights = rows[first]
    odd = np.flatnonzero(rows != weights[queries.codes])
    if len(odd):
        raise FeedbackError(
            f"query_weight differs inside query {queries.ids.tolist()[queries.codes[odd[0]]]!r} "
            f"(row {odd[0]}): a query has one weight; use sample_weight for rows."
        )
    weights.setflags(write=False)
    return weights
