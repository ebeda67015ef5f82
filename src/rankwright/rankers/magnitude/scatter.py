"""Sums of products of rows centered by query, in one pass: MPRank in the primal."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg, sparse

from rankwright._typing import FloatArray, IntArray
from rankwright.data.queries import Queries
from rankwright.exceptions import DataError
from rankwright.feedback.grades import Grades
from rankwright.feedback.pairs import Pairs
from rankwright.rankers.magnitude.sample import Sample


class Scatter:
    """Sums of products of centered rows (features, then the grade), collected in one pass.

    A query may come in pieces: the scatter of two pieces is the sum of their scatters plus that of
    their means (Chan, Golub and LeVeque), without cancellation.

    Attributes
    ----------
    products : (n_features + 1, n_features + 1) array
        sum_i s_i z_i z_i' with z_i = (x_i, y_i) minus the mean of its query and s_i its mass.
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

    def add_pairs(self, X: Any, pairs: Pairs) -> None:
        """Add differences of rows, not centered, each with the target 1."""
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
        """sum_i s_i (residual minus the mean of its query)^2."""
        ends = np.append(coef, -1.0)
        return max(float(ends @ self.products @ ends), 0.0)

    def intercept(self, coef: FloatArray) -> float:
        """Makes the means of predictions and grades equal."""
        return float(self.mean[-1] - self.mean[:-1] @ coef)

    def _add_list(self, X: FloatArray, sample: Sample) -> FloatArray:
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
        # Centering would make the rows dense: the products of the means are subtracted at the end.
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
    """The error for features whose products overflow."""
    return DataError(
        "the features (or C) are too large to solve in double precision: scale the features, for "
        "instance with sklearn.preprocessing.StandardScaler."
    )


@dataclass(eq=False)
class Stream:
    """The scatter of all rows so far, and the mean of each query, in case more of its rows come.

    Attributes
    ----------
    products : (n_features + 1, n_features + 1) the scatter of features and grade
    keys, weights, masses, means : per query: a hash of its id, its weight, the mass of its rows
        and their mean (features, then the grade)
    longest : the largest squared length of a row
    """

    products: FloatArray
    keys: IntArray
    weights: FloatArray
    masses: FloatArray
    means: FloatArray
    longest: float = 0.0

    @classmethod
    def empty(cls, n_features: int) -> Stream:
        size, none = n_features + 1, np.zeros(0)
        return cls(np.zeros((size, size)), np.zeros(0, np.int64), none, none, np.zeros((0, size)))

    def add(self, X: Any, grades: Grades) -> None:
        """Add rows; queries are recognized by their ids."""
        if not grades.row_weight.any():
            return
        sample = Sample.of(grades)
        scatter = Scatter(X.shape[1])
        scatter.products = self.products
        means = scatter.add(sample.select(X), sample)
        self.longest = max(self.longest, scatter.longest)
        keys = query_keys(grades.queries)[grades.queries.codes[sample.rows[sample.ptr[:-1]]]]
        known = {key: index for index, key in enumerate(self.keys.tolist())}
        indices = np.array([known.get(key, -1) for key in keys.tolist()], dtype=np.int64)
        for q in np.flatnonzero(indices >= 0):
            self._join(int(indices[q]), sample.query_weight[q], sample.sums[q], means[q])
        new = indices < 0
        self.keys = np.concatenate([self.keys, keys[new]])
        self.weights = np.concatenate([self.weights, sample.query_weight[new]])
        self.masses = np.concatenate([self.masses, sample.sums[new]])
        self.means = np.concatenate([self.means, means[new]])

    def _join(self, index: int, weight: float, mass: float, mean: FloatArray) -> None:
        """Join two pieces of one query that were centered apart."""
        if weight != self.weights[index]:
            raise DataError(
                f"query_weight is {weight:g} for a query that came with {self.weights[index]:g} "
                "before: a query has one weight, the same in every partial_fit."
            )
        old, apart = self.masses[index], mean - self.means[index]
        self.products += (old * mass / (old + mass)) * np.outer(apart, apart)
        self.masses[index] += mass
        self.means[index] += (mass / self.masses[index]) * apart

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
