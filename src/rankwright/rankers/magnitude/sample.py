"""Graded rows grouped by query, and sums of products of rows centered by query."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import linalg, sparse

from rankwright._typing import FloatArray, IntArray, Matrix
from rankwright.data.queries import Queries
from rankwright.exceptions import DataError
from rankwright.feedback.base import Grades
from rankwright.feedback.pairs import Pairs


def too_large() -> DataError:
    """The error for features whose products overflow."""
    return DataError(
        "the features, the grades or C are too large to solve in double "
        "precision: scale them, for example with sklearn.preprocessing.StandardScaler."
    )


@dataclass(frozen=True, eq=False)
class WeightedRows:
    r"""Graded rows grouped by query; rows without weight are left out.

    A row of weight u in a query of weight v has mass s = u v. With S_q the mass of query q and M
    the mass of all rows, the mean cost of a pair that MPRank and SVRank train on is

    .. math:: \frac1M \sum_q \frac1{S_q} \sum_{i, j \in q} s_i s_j \, c(i, j).

    Without weights it is the paper's 1/m sum_q 1/m_q sum_ij c(i, j). A row or query of weight k is
    the same as k copies of it.

    >>> sample = WeightedRows.of(Grades([1, 5, 3], qid=["a", "b", "a"], sample_weight=[1, 2, 3]))
    >>> sample.rows, sample.total, sample.means(sample.y)
    (array([0, 2, 1]), 6.0, array([2.5, 5. ]))
    """

    rows: IntArray  # (n_rows,) which rows of X these are, grouped by query
    y: FloatArray  # (n_rows,) grades
    mass: FloatArray  # (n_rows,) numbers > 0
    ptr: IntArray  # (n_queries + 1,) where each query starts
    query_weight: FloatArray  # (n_queries,) numbers > 0

    @classmethod
    def of(cls, grades: Grades) -> WeightedRows:
        queries, mass, y = grades.queries, grades.row_weight, grades.y
        if not mass.any():  # nothing to learn from: equal grades of weight 1 give the zero model
            mass, y = np.ones(len(mass)), np.zeros(len(mass))
        rows = queries.order[mass[queries.order] > 0]
        codes, starts = np.unique(queries.codes[rows], return_index=True)
        weight, ptr = grades.query_weight[codes], np.append(starts, len(rows)).astype(np.int64)
        return cls(rows, y[rows], mass[rows], ptr, np.where(weight > 0, weight, 1.0))

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
        return bool((self.mass == self.mass[0]).all())

    @cached_property
    def roots(self) -> FloatArray:
        """The square root of each row's mass: rows scaled by it have unweighted sums."""
        return np.sqrt(self.mass)

    @cached_property
    def unit(self) -> FloatArray:
        """The unit vectors b_q, proportional to the roots in query q, one after another.

        The projection P = I - sum_q b_q b_q' centers scaled rows within each query.
        """
        return np.sqrt(self.mass / self.sums[self.codes])

    @cached_property
    def row_weight(self) -> FloatArray:
        """The weight of each row within its query."""
        return self.mass / self.query_weight[self.codes]

    @cached_property
    def row_share(self) -> FloatArray:
        """The share that one copy has in the weight of its row; a weight below 1 is one copy."""
        return 1.0 / np.maximum(self.row_weight, 1.0)

    @cached_property
    def query_share(self) -> FloatArray:
        """The share that one copy has in the weight of its query."""
        return 1.0 / np.maximum(self.query_weight, 1.0)

    def select(self, X: Matrix) -> Any:
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
        elif not sparse.issparse(values):  # DrawnLandmarks, which are computed on demand
            means = np.zeros((self.n_queries, values.shape[1]))
            for start in range(0, self.n_rows, 4096):
                part = slice(start, start + 4096)
                codes, starts = np.unique(self.codes[part], return_index=True)
                means[codes] += np.add.reduceat(share[part, None] * values[part], starts)
            return means
        average = sparse.csr_array(
            (share, np.arange(self.n_rows), self.ptr), shape=(self.n_queries, self.n_rows)
        )
        averaged = average @ values
        return np.asarray(averaged.toarray() if sparse.issparse(averaged) else averaged)

    def centered(self, values: FloatArray) -> FloatArray:
        """Values minus the weighted mean of their query."""
        return values - self.means(values)[self.codes]

    def projected(self, vector: FloatArray) -> FloatArray:
        """P v, the part of a vector of scaled rows that is orthogonal to every b_q."""
        along = np.add.reduceat(self.unit * vector, self.ptr[:-1])
        return vector - self.unit * along[self.codes]

    def overall(self, values: FloatArray) -> float:
        """The weighted mean of all rows."""
        return float(self.mass @ values) / self.total

    def mean_square(self, residuals: FloatArray) -> float:
        """The mean cost of a pair, with the cost (r_j - r_i)^2: eq 2 with n = 2, in O(n_rows)."""
        return 2.0 * float(self.mass @ self.centered(residuals) ** 2) / self.total


class Scatter:
    """Sums of products of centered rows (features, then the grade), collected in one pass.

    ``products`` is sum_i s_i z_i z_i' with z_i = (x_i, y_i) minus the mean of its query and s_i its
    mass. A query may come in pieces: the scatter of two pieces is the sum of their scatters plus
    that of their means (Chan, Golub and LeVeque), without cancellation.

    >>> Scatter.of(np.array([[0.0], [2.0]]), WeightedRows.of(Grades([5, 6]))).products
    array([[2. , 1. ],
           [1. , 0.5]])
    """

    block = 2048

    def __init__(self, n_features: int) -> None:
        self.products = np.zeros((n_features + 1, n_features + 1))
        self.mass, self.mean = 0.0, np.zeros(n_features + 1)  # of all rows
        self.longest = 0.0  # the largest squared length of a row's features

    @classmethod
    def of(cls, X: Any, sample: WeightedRows) -> Scatter:
        scatter = cls(X.shape[1])
        scatter.add(X, sample)
        return scatter

    def add(self, X: Any, sample: WeightedRows) -> FloatArray:
        """Add the rows of a sample; returns its means, (n_queries, n_features + 1)."""
        if sparse.issparse(X):
            means = self._add_sparse(X, sample)
        elif sample.n_queries == 1:
            means = self._add_list(X, sample)
        else:
            means = np.column_stack([sample.means(X), sample.means(sample.y)])
            for start in range(0, len(X), self.block):
                part = slice(start, start + self.block)
                left = np.column_stack([X[part], sample.y[part]])
                self._measure(left[:, :-1])
                left -= means[sample.codes[part]]
                left *= sample.roots[part, None]
                self.products += left.T @ left
        if not np.isfinite(self.products).all():
            raise too_large()
        mass = self.mass + sample.total
        block_mean = sample.sums @ means / sample.total
        self.mean += (sample.total / mass) * (block_mean - self.mean)
        self.mass = mass
        return means

    def add_pairs(self, X: Any, pairs: Pairs) -> None:
        """Add differences of rows, not centered, each with the target 1."""
        for start in range(0, pairs.n_pairs, self.block):
            part = slice(start, start + self.block)
            difference = X[pairs.upper[part]] - X[pairs.lower[part]]
            rows = difference.toarray() if sparse.issparse(difference) else difference
            left = np.column_stack([rows, np.ones(len(rows))])
            left *= np.sqrt(pairs.weight[part])[:, None]
            self.products += left.T @ left
        self.mass += pairs.total_weight

    def joined(self, other: Scatter) -> Scatter:
        """The sums of both; they have no query in common."""
        both = Scatter(len(self.mean) - 1)
        both.products = self.products + other.products
        both.mass = self.mass + other.mass
        share = other.mass / both.mass if both.mass else 0.0
        both.mean = self.mean + share * (other.mean - self.mean)
        both.longest = max(self.longest, other.longest)
        return both

    def solve(self, factor: float) -> FloatArray:
        """w = (A + I / C')^-1 b for the scatter A of the features and b with the grade."""
        system = self.products[:-1, :-1].copy()
        system.flat[:: len(system) + 1] += 1.0 / factor
        try:
            whole = linalg.cho_factor(system.T, overwrite_a=True, check_finite=False)
        except linalg.LinAlgError:
            raise too_large() from None
        solution = linalg.cho_solve(whole, self.products[:-1, -1], check_finite=False)
        if not np.isfinite(solution).all():
            raise too_large()
        return np.asarray(solution, dtype=np.float64)

    def loss(self, coef: FloatArray) -> float:
        """sum_i s_i (residual minus the mean of its query)^2."""
        ends = np.append(coef, -1.0)
        return max(float(ends @ self.products @ ends), 0.0)

    def intercept(self, coef: FloatArray) -> float:
        """Makes the means of predictions and grades equal."""
        return float(self.mean[-1] - self.mean[:-1] @ coef)

    def _add_list(self, X: FloatArray, sample: WeightedRows) -> FloatArray:
        # Centered block by block, while the block is in the cache: X is read once.
        inner, size = self.products, X.shape[1]
        buffer = np.empty((min(self.block, len(X)), size + 1))
        mass, mean = 0.0, np.zeros(size + 1)
        for start in range(0, len(X), self.block):
            part = slice(start, start + self.block)
            left = buffer[: len(X[part])]
            weight = float(sample.mass[part].sum())
            share = sample.mass[part] / weight
            self._measure(X[part])
            block_mean = np.append(share @ X[part], share @ sample.y[part])
            np.subtract(X[part], block_mean[:-1], out=left[:, :-1])
            np.subtract(sample.y[part], block_mean[-1], out=left[:, -1])
            if not sample.is_plain:
                left *= sample.roots[part, None]
                inner += left.T @ left
            else:
                inner += sample.mass[0] * (left.T @ left)
            if mass:
                difference = block_mean - mean
                inner += (mass * weight / (mass + weight)) * np.outer(difference, difference)
            mass += weight
            mean += (weight / mass) * (block_mean - mean)
        return mean[None, :]

    def _add_sparse(self, X: Any, sample: WeightedRows) -> FloatArray:
        # Centering would make the rows dense: the products of the means are subtracted at the end.
        means = np.column_stack([sample.means(X), sample.means(sample.y)])
        weighted, y = sparse.diags_array(sample.mass) @ X, sample.y
        self.longest = max(self.longest, float(X.multiply(X).sum(axis=1).max()))
        self.products[:-1, :-1] += (X.T @ weighted).toarray()
        with_y = np.asarray(weighted.T @ y)
        self.products[:-1, -1] += with_y
        self.products[-1, :-1] += with_y
        self.products[-1, -1] += sample.mass @ (y * y)
        self.products -= (means * sample.sums[:, None]).T @ means
        return means

    def _measure(self, rows: FloatArray) -> None:
        squares = np.einsum("ij,ij->i", rows, rows, optimize=False)
        self.longest = max(self.longest, float(squares.max()))


@dataclass(eq=False)
class Stream:
    """The scatter of all rows so far, and the mean of each query, in case more of its rows come."""

    products: FloatArray  # (n_features + 1, n_features + 1) of features and grade
    keys: IntArray  # (n_queries,) hashes of their ids
    weights: FloatArray  # (n_queries,)
    masses: FloatArray  # (n_queries,)
    means: FloatArray  # (n_queries, n_features + 1) of features and grade
    longest: float = 0.0  # the largest squared length of a row's features

    @classmethod
    def empty(cls, n_features: int) -> Stream:
        size, none = n_features + 1, np.zeros(0)
        return cls(np.zeros((size, size)), np.zeros(0, np.int64), none, none, np.zeros((0, size)))

    def add(self, X: Matrix, grades: Grades) -> None:
        """Add rows; queries are recognized by their ids."""
        if not grades.row_weight.any():
            return
        sample = WeightedRows.of(grades)
        scatter = Scatter(X.shape[1])
        scatter.products = self.products
        means = scatter.add(sample.select(X), sample)
        self.longest = max(self.longest, scatter.longest)
        keys = query_keys(grades.queries)[grades.queries.codes[sample.rows[sample.ptr[:-1]]]]
        known = {key: index for index, key in enumerate(self.keys.tolist())}
        indices = np.array([known.get(key, -1) for key in keys.tolist()], dtype=np.int64)
        new = indices < 0
        for q in np.flatnonzero(~new):
            self._join(int(indices[q]), sample.query_weight[q], sample.sums[q], means[q])
        self.keys = np.concatenate([self.keys, keys[new]])
        self.weights = np.concatenate([self.weights, sample.query_weight[new]])
        self.masses = np.concatenate([self.masses, sample.sums[new]])
        self.means = np.concatenate([self.means, means[new]])

    def widen(self, n_features: int) -> None:
        """More features, in which all rows so far are zero."""
        kept = np.append(np.arange(len(self.products) - 1), n_features)  # the grade stays last
        products = np.zeros((n_features + 1, n_features + 1))
        products[np.ix_(kept, kept)] = self.products
        means = np.zeros((len(self.means), n_features + 1))
        means[:, kept] = self.means
        self.products, self.means = products, means

    def _join(self, index: int, weight: float, mass: float, mean: FloatArray) -> None:
        if weight != self.weights[index]:
            raise DataError(
                f"query_weight is {weight:g} for a query that had weight {self.weights[index]:g} "
                "before: use the same weight in every partial_fit."
            )
        old, difference = self.masses[index], mean - self.means[index]
        self.products += (old * mass / (old + mass)) * np.outer(difference, difference)
        self.masses[index] += mass
        self.means[index] += (mass / self.masses[index]) * difference

    def scatter(self) -> Scatter:
        whole = Scatter(len(self.products) - 1)
        whole.products = self.products
        if len(self.keys):
            whole.mass = float(self.masses.sum())
            whole.mean = self.masses @ self.means / whole.mass
        return whole


def query_keys(queries: Queries) -> IntArray:
    """A 64-bit hash of each query id, the same on every machine.

    >>> first, second = Queries.from_ids(["b", "a"]), Queries.from_ids(["a"])
    >>> bool(query_keys(first)[1] == query_keys(second)[0])
    True
    """
    digests = (
        hashlib.blake2b(f"{type(one).__name__}:{one!r}".encode(), digest_size=8).digest()
        for one in queries.ids.tolist()
    )
    return np.array([int.from_bytes(d, "little", signed=True) for d in digests], dtype=np.int64)
