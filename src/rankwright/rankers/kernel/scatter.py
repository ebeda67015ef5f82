"""How rows scatter around the means of their queries: all that a primal solution needs."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import linalg, sparse

from rankwright.exceptions import DataError
from rankwright.feedback import Pairs
from rankwright.rankers.kernel.sample import FloatArray, Sample

__all__ = ["Scatter", "solve_ridge", "too_large"]


class Scatter:
    """Sums of products of centred rows (features, then the grade), collected in one pass.

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
    >>> from rankwright.feedback import Grades
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
        # Centred block by block, while the block is in the processor's cache: reading X once.
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
        # Centring would make the rows dense: the means' products are taken off afterwards.
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
