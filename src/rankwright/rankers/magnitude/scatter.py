"""Gram matrices centered in place, and the systems solved with them: MPRank in the dual."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import linalg, sparse

from rankwright._typing import FloatArray, IntArray
from rankwright.exceptions import DataError
from rankwright.feedback.grades import Grades
from rankwright.feedback.pairs import Pairs


@dataclass(frozen=True, eq=False)
class Sample:
    r"""Graded rows grouped by query; rows without weight are left out.

    A row of weight u in a query of weight v has mass s = u v. With S_q the mass of query q and M
    the mass of all rows, the mean cost of a pair that MPRank and SVRank train on is

    .. math:: \frac1M \sum_q \frac1{S_q} \sum_{i, j \in q} s_i s_j \, c(i, j).

    Without weights it is the paper's 1/m sum_q 1/m_q sum_ij c(i, j). Mass k is the same as k
    copies, of a row as of a query: S_q and M grow with the copies.

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
        if not mass.any():  # nothing to learn from: any rows with nothing to tell will do
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
        """The root of each row's mass: what scales rows so that weighted sums become plain ones."""
        return np.sqrt(self.mass)

    @cached_property
    def unit(self) -> FloatArray:
        """Scaled rows are centered by I - sum_q b_q b_q'; this holds all b_q, one after another.

        They have unit length, and each is 0 outside of its query.
        """
        return np.sqrt(self.mass / self.sums[self.codes])

    @cached_property
    def row_weight(self) -> FloatArray:
        """The weight of each row inside its query."""
        return self.mass / self.query_weight[self.codes]

    @cached_property
    def copy(self) -> FloatArray:
        """The part of each row's weight that one copy of it is; a weight below 1 is one copy."""
        return 1.0 / np.maximum(self.row_weight, 1.0)

    @cached_property
    def once(self) -> FloatArray:
        """The part of each query's weight that one copy of it is."""
        return 1.0 / np.maximum(self.query_weight, 1.0)

    def select(self, X: Any) -> Any:
        """The rows of X this sample speaks of, in its order; X itself where that is all of it."""
        if len(self.rows) == X.shape[0] and bool((np.diff(self.rows) == 1).all()):
            return X
        return X[self.rows]

    def means(self, values: Any) -> FloatArray:
        """The weighted mean of each query, for one value or one row of values per row."""
        share = self.mass / self.sums[self.codes]
        if self.n_queries == 1 and isinstance(values, np.ndarray):
            return np.atleast_1d(np.asarray(share @ values))[None, :].reshape(1, *values.shape[1:])
        if not (isinstance(values, np.ndarray) or sparse.issparse(values)):
            return self._means_of_blocks(values)
        if isinstance(values, np.ndarray) and values.ndim == 1:
            return np.add.reduceat(share * values, self.ptr[:-1])
        average = sparse.csr_array(
            (share, np.arange(self.n_rows), self.ptr), shape=(self.n_queries, self.n_rows)
        )
        averaged = average @ values
        return np.asarray(averaged.toarray() if sparse.issparse(averaged) else averaged)

    def _means_of_blocks(self, values: Any) -> FloatArray:
        """Means of rows that are computed when asked for (DrawnLandmarks)."""
        share = self.mass / self.sums[self.codes]
        means = np.zeros((self.n_queries, values.shape[1]))
        for start in range(0, self.n_rows, 4096):
            part = slice(start, start + 4096)
            codes = self.codes[part]
            starts = np.flatnonzero(np.concatenate([[True], codes[1:] != codes[:-1]]))
            means[codes[starts]] += np.add.reduceat(share[part, None] * values[part], starts)
        return means

    def centered(self, values: FloatArray) -> FloatArray:
        """Values less their query's weighted mean."""
        return values - self.means(values)[self.codes]

    def overall(self, values: FloatArray) -> float:
        """The weighted mean of all rows."""
        return float(self.mass @ values) / self.total

    def mean_square(self, residuals: FloatArray) -> float:
        """The mean cost of a pair, with the cost (r_j - r_i)^2: eq 2 with n = 2, in O(n_rows)."""
        return 2.0 * float(self.mass @ self.centered(residuals) ** 2) / self.total


class Scatter:
    """Sums of products of centered rows (features, then the grade), collected in one pass.

    A list may come in pieces: the scatter of two pieces is the sum of their scatters plus that of
    their means (Chan, Golub and LeVeque), so nothing is lost to cancellation and the sums of a
    stream are those of the whole.

    Attributes
    ----------
    products : (n_features + 1, n_features + 1) array
        sum_i s_i z_i z_i' with z_i = (x_i, y_i) less its query's mean and s_i its mass.
    mass : the mass of all rows
    mean : (n_features + 1,) the mean of all rows
    longest : the largest squared length of a row's features

    Examples
    --------
    >>> from rankwright.feedback.grades import Grades
    >>> scatter = Scatter(1)
    >>> scatter.add(np.array([[0.0], [2.0]]), Sample.of(Grades([5, 6])))
    array([[1. , 5.5]])
    >>> scatter.products
    array([[2. , 1. ],
           [1. , 0.5]])
    """

    block = 2048

    def __init__(self, n_features: int) -> None:
        self.products = np.zeros((n_features + 1, n_features + 1))
        self.mass, self.mean, self.longest = 0.0, np.zeros(n_features + 1), 0.0

    def add(self, X: Any, sample: Sample) -> FloatArray:
        """Add queries, or pieces of them; X has the rows of the sample, in its order.

        Returns the mean of each query: (n_queries, n_features + 1).
        """
        if sparse.issparse(X):
            means = self._add_sparse(X, sample)
        elif sample.n_queries == 1:
            means = self._add_list(X, sample)
        else:
            means = self._add_queries(X, sample)
        if not np.isfinite(self.products).all():
            raise too_large()
        mass = self.mass + sample.total
        here = sample.sums @ means / sample.total
        self.mean += (sample.total / mass) * (here - self.mean)
        self.mass = mass
        return means

    def meet(self, mass: float, mean: FloatArray, other_mass: float, other: FloatArray) -> None:
        """Join two pieces of one query that were added apart."""
        apart = other - mean
        self.products += (mass * other_mass / (mass + other_mass)) * np.outer(apart, apart)

    def add_pairs(self, X: Any, pairs: Pairs) -> None:
        """Add differences of rows, each with the target 1; their mean counts for nothing."""
        for start in range(0, pairs.n_pairs, self.block):
            part = slice(start, start + self.block)
            apart = X[pairs.upper[part]] - X[pairs.lower[part]]
            rows = apart.toarray() if sparse.issparse(apart) else apart
            left = np.column_stack([rows, np.ones(len(rows))])
            left *= np.sqrt(pairs.weight[part])[:, None]
            self.products += left.T @ left
        self.mass += pairs.total_weight

    def solve(self, factor: float) -> FloatArray:
        """w = C' (I + C' A)^-1 b for the scatter A of the features and b with the grade."""
        return solve_ridge(self.products[:-1, :-1].copy(), self.products[:-1, -1], factor)

    def loss(self, coef: FloatArray) -> float:
        """sum_i s_i (residual less its query's mean)^2."""
        ends = np.append(coef, -1.0)
        return max(float(ends @ self.products @ ends), 0.0)

    def intercept(self, coef: FloatArray) -> float:
        """What makes predictions and grades agree in the mean."""
        return float(self.mean[-1] - self.mean[:-1] @ coef)

    def _add_list(self, X: FloatArray, sample: Sample) -> FloatArray:
        # Centered block by block, while the block is in the processor's cache: reading X once.
        inner, size = self.products, X.shape[1]
        buffer = np.empty((min(self.block, len(X)), size + 1))
        mass, mean = 0.0, np.zeros(size + 1)
        for start in range(0, len(X), self.block):
            part = slice(start, start + self.block)
            left = buffer[: len(X[part])]
            weight = float(sample.mass[part].sum())
            share = sample.mass[part] / weight
            self._measure(X[part])
            here = np.append(share @ X[part], share @ sample.y[part])
            np.subtract(X[part], here[:-1], out=left[:, :-1])
            np.subtract(sample.y[part], here[-1], out=left[:, -1])
            if not sample.is_plain:
                left *= sample.roots[part, None]
                inner += left.T @ left
            else:
                inner += sample.mass[0] * (left.T @ left)
            if mass:
                apart = here - mean
                inner += (mass * weight / (mass + weight)) * np.outer(apart, apart)
            mass += weight
            mean += (weight / mass) * (here - mean)
        return mean[None, :]

    def _add_queries(self, X: FloatArray, sample: Sample) -> FloatArray:
        means = np.column_stack([sample.means(X), sample.means(sample.y)])
        for start in range(0, len(X), self.block):
            part = slice(start, start + self.block)
            left = np.column_stack([X[part], sample.y[part]])
            self._measure(left[:, :-1])
            left -= means[sample.codes[part]]
            left *= sample.roots[part, None]
            self.products += left.T @ left
        return means

    def _add_sparse(self, X: Any, sample: Sample) -> FloatArray:
        # Centering would make the rows dense: the means' products are taken off afterwards.
        means = np.column_stack([sample.means(X), sample.means(sample.y)])
        weighted = sparse.diags_array(sample.mass) @ X
        self.longest = max(self.longest, float(X.multiply(X).sum(axis=1).max()))
        y = sample.y
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


def solve_ridge(products: FloatArray, moment: FloatArray, factor: float) -> FloatArray:
    """(A + I / C')^-1 b, which is C' (I + C' A)^-1 b; A is overwritten."""
    products.flat[:: len(products) + 1] += 1.0 / factor
    try:
        whole = linalg.cho_factor(products.T, overwrite_a=True, check_finite=False)
    except linalg.LinAlgError:
        whole = None
    solution = None if whole is None else linalg.cho_solve(whole, moment, check_finite=False)
    if solution is None or not np.isfinite(solution).all():
        raise too_large()
    return np.asarray(solution, dtype=np.float64)


def too_large() -> DataError:
    """The answer to features whose products double precision cannot hold."""
    return DataError(
        "the features are too large (or C is) to be solved for in double precision: "
        "scale the features, for instance with sklearn.preprocessing.StandardScaler."
    )


BLOCK = 256


def scale_gram(K: FloatArray, sample: Sample) -> FloatArray:
    """Multiply rows and columns by the roots of the masses, in place."""
    if not (sample.is_plain and sample.mass[0] == 1.0):
        K *= sample.roots[:, None]
        K *= sample.roots[None, :]
    return K


def center_gram(K: FloatArray, sample: Sample) -> FloatArray:
    """P K P for a symmetric K, in place, where P = I - sum_q b_q b_q' centers each query.

    With L = K B - B (B' K B) / 2 it is K - L B' - B L', row block by row block.
    """
    unit, starts = sample.unit, sample.ptr[:-1]
    if sample.n_queries == 1:
        half = K @ unit
        half -= (0.5 * float(unit @ half)) * unit
        for start in range(0, len(K), BLOCK):
            rows = slice(start, start + BLOCK)
            K[rows] -= half[rows, None] * unit
            K[rows] -= unit[rows, None] * half
        return K
    spread = sparse.csr_array((unit, sample.codes, np.arange(len(K) + 1)))
    half = np.asarray(K @ spread)
    half -= 0.5 * (spread @ np.add.reduceat(unit[:, None] * half, starts))
    turned = np.ascontiguousarray(half.T)
    for start in range(0, len(K), BLOCK):
        rows = slice(start, start + BLOCK)
        K[rows] -= half[rows][:, sample.codes] * unit
        K[rows] -= unit[rows, None] * turned[sample.codes[rows]]
    return K


def factorized(K: FloatArray, factor: float, into: FloatArray | None = None) -> FloatArray:
    """The Cholesky factor of I + C' K, in place of the lower half of K or ``into`` (C order)."""
    work = np.multiply(K, factor, out=K if into is None else into)
    work.flat[:: len(K) + 1] += 1.0
    whole, failed = linalg.lapack.dpotrf(work.T, lower=0, overwrite_a=1, clean=0)
    if failed and not np.isfinite(K).all():
        raise too_large()
    if failed:
        raise DataError(
            f"the kernel is not positive semidefinite (I + C' K has no Cholesky factor, row "
            f"{failed}): use another kernel, or a smaller C."
        )
    return np.asarray(whole)


def solve_dual(K: FloatArray, sample: Sample, C: float) -> tuple[FloatArray, float]:
    """The dual coefficients of eq 13, h(x) = sum_i alpha_i K(x, x_i), and the mean of h.

    K is overwritten.
    """
    factor = 2.0 * C / sample.total
    mean_row = sample.mass @ K / sample.total
    whole = factorized(center_gram(scale_gram(K, sample), sample), factor)
    right = sample.roots * sample.centered(sample.y)
    solved, _ = linalg.lapack.dpotrs(whole, right, lower=0)
    alpha = factor * sample.roots * solved
    return alpha, float(mean_row @ alpha)


def inverse(whole: FloatArray) -> FloatArray:
    """(I + C' K)^-1 from its Cholesky factor, in place: the lower half of a C-ordered array."""
    inverted, _ = linalg.lapack.dpotri(whole, lower=0, overwrite_c=1)
    return np.asarray(inverted.T)
