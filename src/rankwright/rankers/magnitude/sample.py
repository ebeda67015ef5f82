"""Graded rows grouped by query, with the masses that weights give them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from rankwright._typing import FloatArray, IntArray
from rankwright.feedback.grades import Grades


@dataclass(frozen=True, eq=False)
class Sample:
    r"""Graded rows grouped by query; rows without weight are left out.

    A row of weight u in a query of weight v has mass s = u v. With S_q the mass of query q and M
    the mass of all rows, the mean cost of a pair that MPRank and SVRank train on is

    .. math:: \frac1M \sum_q \frac1{S_q} \sum_{i, j \in q} s_i s_j \, c(i, j).

    Without weights it is the paper's 1/m sum_q 1/m_q sum_ij c(i, j). A row or query of weight k is
    the same as k copies of it.

    Attributes
    ----------
    rows : (n_rows,) which rows of X these are, grouped by query
    y : (n_rows,) grades
    mass : (n_rows,) numbers > 0
    ptr : (n_queries + 1,) where each query starts
    query_weight : (n_queries,) numbers > 0

    Examples
    --------
    >>> sample = Sample.of(Grades([1, 5, 3], qid=["a", "b", "a"], sample_weight=[1, 2, 3]))
    >>> sample.rows, sample.total, sample.means(sample.y)
    (array([0, 2, 1]), 6.0, array([2.5, 5. ]))
    """

    rows: IntArray
    y: FloatArray
    mass: FloatArray
    ptr: IntArray
    query_weight: FloatArray

    @classmethod
    def of(cls, grades: Grades) -> Sample:
        queries = grades.queries
        mass = grades.row_weight
        y = grades.y
        if not mass.any():  # nothing to learn from: equal grades of weight 1 give the zero model
            mass, y = np.ones(len(mass)), np.zeros(len(mass))
        rows = queries.order[mass[queries.order] > 0]
        codes = queries.codes[rows]
        starts = np.flatnonzero(np.concatenate([[True], codes[1:] != codes[:-1]]))
        weight = grades.query_weight[codes[starts]]
        return cls(
            rows=rows,
            y=y[rows],
            mass=mass[rows],
            ptr=np.append(starts, len(rows)).astype(np.int64),
            query_weight=np.where(weight > 0, weight, 1.0),
        )

    @property
    def n_rows(self) -> int:
        return len(self.rows)

    @property
    def n_queries(self) -> int:
        return len(self.ptr) - 1

    @cached_property
    def total(self) -> float:
        """M, the mass of all rows: the m of the paper."""
        return float(self.mass.sum())

    @cached_property
    def codes(self) -> IntArray:
        """The query of each row, ascending."""
        return np.repeat(np.arange(self.n_queries), np.diff(self.ptr))

    @cached_property
    def sums(self) -> FloatArray:
        """S_q, the mass of each query."""
        return np.add.reduceat(self.mass, self.ptr[:-1])

    @cached_property
    def is_plain(self) -> bool:
        """Whether all rows have the same mass."""
        return bool((self.mass == self.mass[0]).all())

    @cached_property
    def roots(self) -> FloatArray:
        """The square root of each row's mass: rows scaled by it have unweighted sums."""
        return np.sqrt(self.mass)

    @cached_property
    def unit(self) -> FloatArray:
        """The vectors b_q of all queries, one after another.

        The projection P = I - sum_q b_q b_q' centers scaled rows inside each query: b_q has unit
        length, is proportional to the roots in query q, and is 0 elsewhere.
        """
        return np.sqrt(self.mass / self.sums[self.codes])

    @cached_property
    def row_weight(self) -> FloatArray:
        """The weight of each row inside its query."""
        return self.mass / self.query_weight[self.codes]

    @cached_property
    def copy(self) -> FloatArray:
        """The share that one copy has in the weight of its row; a weight below 1 is one copy."""
        return 1.0 / np.maximum(self.row_weight, 1.0)

    @cached_property
    def once(self) -> FloatArray:
        """The share that one copy has in the weight of its query."""
        return 1.0 / np.maximum(self.query_weight, 1.0)

    def select(self, X: Any) -> Any:
        """The rows of X in the order of this sample; X itself if nothing changes."""
        if len(self.rows) == X.shape[0] and bool((np.diff(self.rows) == 1).all()):
            return X
        return X[self.rows]

    def means(self, values: Any) -> FloatArray:
        """The weighted mean of each query, for one value or one row of values per row."""
        share = self.mass / self.sums[self.codes]
        if isinstance(values, np.ndarray):
            if self.n_queries == 1:
                return np.asarray(share @ values)[None]
            if values.ndim == 1:
                return np.add.reduceat(share * values, self.ptr[:-1])
        elif not sparse.issparse(values):
            return self._means_of_blocks(values, share)
        average = sparse.csr_array(
            (share, np.arange(self.n_rows), self.ptr), shape=(self.n_queries, self.n_rows)
        )
        averaged = average @ values
        return np.asarray(averaged.toarray() if sparse.issparse(averaged) else averaged)

    def _means_of_blocks(self, values: Any, share: FloatArray) -> FloatArray:
        """Means of rows that are computed on demand (DrawnLandmarks)."""
        means = np.zeros((self.n_queries, values.shape[1]))
        for start in range(0, self.n_rows, 4096):
            part = slice(start, start + 4096)
            codes = self.codes[part]
            starts = np.flatnonzero(np.concatenate([[True], codes[1:] != codes[:-1]]))
            means[codes[starts]] += np.add.reduceat(share[part, None] * values[part], starts)
        return means

    def centered(self, values: FloatArray) -> FloatArray:
        """Values minus the weighted mean of their query."""
        return values - self.means(values)[self.codes]

    def overall(self, values: FloatArray) -> float:
        """The weighted mean of all rows."""
        return float(self.mass @ values) / self.total

    def mean_square(self, residuals: FloatArray) -> float:
        """The mean cost of a pair, with the cost (r_j - r_i)^2: eq 2 with n = 2, in O(n_rows)."""
        return 2.0 * float(self.mass @ self.centered(residuals) ** 2) / self.total
