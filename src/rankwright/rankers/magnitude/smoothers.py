"""Centered Gram matrices, and the residual matrix R of MPRank for one or many values of C.

The residuals of the squared loss are R y, with R = (I + C' P K P)^-1 - B B'. Here K is the kernel
matrix scaled by the roots of the masses, C' = 2C/M, and P = I - B B' centers each query (see
WeightedRows.unit). Errors of rows that are left out follow from the entries of R.

Each C' would need m^3 multiplications. But it enters through C' v / (1 + C' v) of the eigenvalues v
only, and on a band of similar eigenvalues these functions are combinations of a few (by singular
value decomposition), up to rounding. Matrices are multiplied for these few only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
from scipy import linalg, sparse

from rankwright._typing import FloatArray, IntArray, Matrix
from rankwright.exceptions import DataError
from rankwright.rankers.kernels import dense
from rankwright.rankers.magnitude.sample import Scatter, WeightedRows, too_large

BLOCK, STRIP = 512, 256  # rows of R, and of K while it is centered
NEGLIGIBLE = 1e-16  # C' v below which an eigenvalue changes R by less than its rounding
PRECISION = 1e-14  # of R from combinations
WIDTHS = (2.0, 4.0, 16.0, 256.0, np.inf)  # of a band: the largest eigenvalue over the smallest
BUFFER = 2**23  # numbers in a block, for all C' together: 64 MB
SHORT = 64  # rows in a block of short queries
FEW = 24  # values of C up to which a Cholesky factor for each costs less than all eigenvectors


def scale_gram(K: FloatArray, sample: WeightedRows) -> FloatArray:
    """Multiply rows and columns by the roots of the masses, in place."""
    if not (sample.is_plain and sample.mass[0] == 1.0):
        K *= sample.roots[:, None]
        K *= sample.roots[None, :]
    return K


def center_gram(K: FloatArray, sample: WeightedRows) -> FloatArray:
    """P K P for a symmetric K, in place, where P = I - B B' centers each query (WeightedRows.unit).

    A symmetric rank-2q update: with L = K B - B (B' K B) / 2 it is K - L B' - B L'.
    """
    unit, starts = sample.unit, sample.ptr[:-1]
    if sample.n_queries == 1:
        half = K @ unit
        half -= (0.5 * float(unit @ half)) * unit
        for start in range(0, len(K), STRIP):
            rows = slice(start, start + STRIP)
            K[rows] -= half[rows, None] * unit
            K[rows] -= unit[rows, None] * half
        return K
    spread = sparse.csr_array((unit, sample.codes, np.arange(len(K) + 1)))
    half = np.asarray(K @ spread)
    half -= 0.5 * (spread @ np.add.reduceat(unit[:, None] * half, starts))
    transposed = np.ascontiguousarray(half.T)
    for start in range(0, len(K), STRIP):
        rows = slice(start, start + STRIP)
        K[rows] -= half[rows][:, sample.codes] * unit
        K[rows] -= unit[rows, None] * transposed[sample.codes[rows]]
    return K


def factorized(K: FloatArray, factor: float, into: FloatArray | None = None) -> FloatArray:
    """The Cholesky factor of I + C' K, in place of the lower half of K or ``into`` (C order)."""
    work = np.multiply(K, factor, out=K if into is None else into)
    work.flat[:: len(K) + 1] += 1.0
    cholesky, failed = linalg.lapack.dpotrf(work.T, lower=0, overwrite_a=1, clean=0)
    if failed and not np.isfinite(K).all():
        raise too_large()
    if failed:
        raise DataError(
            f"the kernel is not positive semidefinite (I + C' K has no Cholesky factor, row "
            f"{failed}): use another kernel, or a smaller C."
        )
    return np.asarray(cholesky)


def inverse(cholesky: FloatArray) -> FloatArray:
    """(I + C' K)^-1 from its Cholesky factor, in place: the lower half of a C-ordered array."""
    inverted, _ = linalg.lapack.dpotri(cholesky, lower=0, overwrite_c=1)
    return np.asarray(inverted.T)


class Smoother(ABC):
    """R for one value of C'."""

    sample: WeightedRows
    error: FloatArray  # (n_rows,) R y

    @abstractmethod
    def among(self, rows: IntArray) -> FloatArray:
        """The submatrix of R for some rows."""

    def _centering(self, rows: IntArray) -> FloatArray:
        """The submatrix of B B' for some rows."""
        codes, unit = self.sample.codes[rows], self.sample.unit[rows]
        return np.asarray((codes[:, None] == codes) * np.outer(unit, unit))


class Smoothers(NamedTuple):
    """R for several values of C'."""

    errors: FloatArray  # (n_factors, n_rows) R y
    diagonals: FloatArray  # (n_factors, n_rows) of R
    height: int  # rows in a block, whatever the number of threads
    # R + B B' from one row to another, meaningful below the diagonal within a query, in blocks that
    # reuse their memory: the first row, the first column, values (n_factors, n_rows, n_columns).
    blocks: Callable[[int, int], Iterator[tuple[int, int, FloatArray]]]


class KernelSource(ABC):
    """A kernel matrix, prepared so that R is cheap for any C'."""

    sample: WeightedRows

    @abstractmethod
    def smoother(self, factor: float, *, whole: bool = False) -> Smoother:
        """R for this C'; ``whole`` if most of its entries are needed."""

    @abstractmethod
    def smoothers(self, factors: FloatArray) -> Iterator[Smoothers]:
        """R for all these C', in their order; each is valid until the next one."""

    def solve(self, factor: float) -> FloatArray:
        """The dual coefficients of the sample's rows."""
        error = self.sample.projected(self.smoother(factor).error)
        return np.asarray(factor * self.sample.roots * error)

    @cached_property
    def target(self) -> FloatArray:
        """The centered grades, scaled as the rows are."""
        return self.sample.roots * self.sample.centered(self.sample.y)


@dataclass(frozen=True, eq=False)
class GramSource(KernelSource):
    """P K P itself: each C' costs one Cholesky factor, and its inverse where all of R is needed.

    A smoother is valid until the next one takes its memory; with ``keep=False`` that of K.
    """

    sample: WeightedRows
    K: FloatArray
    keep: bool = True

    @cached_property
    def _work(self) -> FloatArray:
        return np.empty_like(self.K) if self.keep else self.K

    def _factor(self, factor: float) -> tuple[WeightedRows, FloatArray, FloatArray]:
        cholesky = factorized(self.K, factor, into=self._work)
        error = linalg.lapack.dpotrs(cholesky, self.target, lower=0)[0]
        return self.sample, cholesky, error

    def smoother(self, factor: float, *, whole: bool = False) -> Smoother:
        return (_Inverse if whole else _Cholesky)(*self._factor(factor))

    def smoothers(self, factors: FloatArray) -> Iterator[Smoothers]:
        for factor in factors:
            R = _Inverse(*self._factor(float(factor)))
            yield Smoothers(R.error[None], R.diagonal[None], BLOCK, R.blocks)


class _Cholesky(Smoother):
    """R of some rows, from the Cholesky factor of its inverse."""

    def __init__(self, sample: WeightedRows, cholesky: FloatArray, error: FloatArray) -> None:
        self.sample, self.error, self._cholesky = sample, error, cholesky

    def among(self, rows: IntArray) -> FloatArray:
        right = np.zeros((self.sample.n_rows, len(rows)), order="F")
        right[rows, np.arange(len(rows))] = 1.0
        solved = linalg.lapack.dpotrs(self._cholesky, right, lower=0, overwrite_b=1)[0]
        return np.asarray(solved[rows]) - self._centering(rows)


class _Inverse(Smoother):
    """R as a whole: the Cholesky factor is replaced by the inverse."""

    def __init__(self, sample: WeightedRows, cholesky: FloatArray, error: FloatArray) -> None:
        self.sample, self.error, self._inverse = sample, error, inverse(cholesky)
        self.diagonal = self._inverse.diagonal() - sample.unit**2

    def blocks(self, low: int, high: int) -> Iterator[tuple[int, int, FloatArray]]:
        for start in range(low, high, BLOCK):
            stop, first = start + BLOCK, int(self.sample.ptr[self.sample.codes[start]])
            yield start, first, self._inverse[None, start:stop, first:stop]

    def among(self, rows: IntArray) -> FloatArray:
        below, above = np.maximum.outer(rows, rows), np.minimum.outer(rows, rows)
        return self._inverse[below, above] - self._centering(rows)


class PrimalSmoother(Smoother):
    """R of rows with few features, from the Cholesky factor of the primal; X is not copied."""

    def __init__(self, sample: WeightedRows, X: Matrix, factor: float) -> None:
        self.sample, self._X = sample, X
        scatter = Scatter.of(X, sample)
        self.error = sample.roots * sample.centered(sample.y - X @ scatter.solve(factor))
        self._means = sample.means(X)
        system = scatter.products[:-1, :-1]
        system.flat[:: len(system) + 1] += 1.0 / factor
        self._cholesky = linalg.cho_factor(system, check_finite=False)

    def among(self, rows: IntArray) -> FloatArray:
        left = dense(self._X[rows]) - self._means[self.sample.codes[rows]]
        left *= self.sample.roots[rows, None]
        R = np.eye(len(rows)) - self._centering(rows)
        return np.asarray(R - left @ linalg.cho_solve(self._cholesky, left.T))


@dataclass(frozen=True, eq=False)
class Spectrum(KernelSource):
    """P K P = T T' with orthogonal columns T of squared lengths ``values``, largest first.

    R = P - T diag(C' / (1 + C' values)) T' without division by small values: accurate at any rank.
    """

    sample: WeightedRows
    columns: FloatArray
    values: FloatArray

    @classmethod
    def of_rows(cls, X: Matrix, sample: WeightedRows) -> Spectrum:
        """From features (n_rows, rank): K = X X'."""
        rows = dense(X[:])
        left = (rows - sample.means(rows)[sample.codes]) * sample.roots[:, None]
        return cls.of_factor(left, sample)

    @classmethod
    def of_factor(cls, left: FloatArray, sample: WeightedRows) -> Spectrum:
        """From any factor of P K P = left left'."""
        products = left.T @ left
        if not np.isfinite(products).all():
            raise too_large()
        values, axes = linalg.eigh(products, driver="evd", overwrite_a=True)
        return cls(sample, left @ axes[:, ::-1], np.maximum(values[::-1], 0.0))

    def smoother(self, factor: float, *, whole: bool = False) -> Smoother:
        return _Spectral(self, factor)

    def smoothers(self, factors: FloatArray) -> Iterator[Smoothers]:
        columns, values = self.up_to(float(factors.max()))
        choices = (_Bands.of(values, factors, width) for width in WIDTHS)
        bands = min(choices, key=lambda bands: bands.cost)
        shrink = factors[:, None] / (1.0 + np.outer(factors, values))
        errors = self.target - (shrink * (columns.T @ self.target)) @ columns.T
        diagonals = 1.0 - self.sample.unit**2 - shrink @ np.square(columns).T
        longest = int(np.diff(self.sample.ptr).max())
        blocks = partial(bands.blocks, self.sample, columns, longest)
        yield Smoothers(errors, diagonals, bands.height(longest), blocks)

    def up_to(self, factor: float) -> tuple[FloatArray, FloatArray]:
        """The columns and values that are not negligible at this C'."""
        rank = int(np.searchsorted(-self.values, -NEGLIGIBLE / factor))
        return self.columns[:, :rank], self.values[:rank]


class _Spectral(Smoother):
    def __init__(self, spectrum: Spectrum, factor: float) -> None:
        self.sample = spectrum.sample
        self._columns, values = spectrum.up_to(factor)
        self._left = self._columns * (factor / (1.0 + factor * values))
        self.error = spectrum.target - self._left @ (self._columns.T @ spectrum.target)

    def among(self, rows: IntArray) -> FloatArray:
        R = np.eye(len(rows)) - self._centering(rows)
        return np.asarray(R - self._left[rows] @ self._columns[rows].T)


class _Bands(NamedTuple):
    """C' / (1 + C' v) for every C' and v, as combinations of a few functions of v in each band."""

    parts: list[tuple[slice, FloatArray]]  # columns of a band, (n_functions, n_columns) functions
    combination: FloatArray  # (n_factors, n_functions of all bands)

    @classmethod
    def of(cls, values: FloatArray, factors: FloatArray, width: float) -> _Bands:
        scaled = np.outer(factors, values)
        shares = scaled / (1.0 + scaled)
        band = np.floor(np.log(values) / np.log(width))
        edges = [0, *(np.flatnonzero(np.diff(band)) + 1).tolist(), len(values)] if len(band) else []
        parts, combinations = [], [np.zeros((len(factors), 0))]
        for columns in map(slice, edges[:-1], edges[1:]):
            left, singular, functions = linalg.svd(shares[:, columns], full_matrices=False)
            kept = singular > PRECISION
            parts.append((columns, functions[kept] / values[columns]))
            combinations.append(left[:, kept] * singular[kept])
        return cls(parts, np.hstack(combinations))

    @property
    def cost(self) -> int:
        """Multiplications for each entry of R."""
        return sum(functions.size for _, functions in self.parts) + self.combination.size

    def height(self, longest: int) -> int:
        """Rows in a block, given those of the longest query."""
        height = int(BUFFER // (max(self.combination.shape) * longest))
        return max(1, min(height, max(longest, SHORT)))

    def blocks(
        self, sample: WeightedRows, table: FloatArray, longest: int, low: int, high: int
    ) -> Iterator[tuple[int, int, FloatArray]]:
        """R + B B' of the rows low .. high - 1, from the columns T of the spectrum."""
        n_factors, n_functions = self.combination.shape
        height = self.height(longest)
        size = height * (longest + height)
        products, combined = np.empty(n_functions * size), np.empty(n_factors * size)
        for start in range(low, high, height):
            stop, first = min(start + height, high), int(sample.ptr[sample.codes[start]])
            rows, columns = table[start:stop], table[first:stop]
            size, done = len(rows) * len(columns), 0
            for part, functions in self.parts:
                stack = (functions[:, None] * rows[:, part]).reshape(-1, functions.shape[1])
                out = products[done : done + len(stack) * len(columns)]
                np.matmul(stack, columns[:, part].T, out=out.reshape(-1, len(columns)))
                done += len(out)
            values = combined[: n_factors * size].reshape(n_factors, size)
            np.matmul(-self.combination, products[:done].reshape(n_functions, size), out=values)
            yield start, first, values.reshape(n_factors, len(rows), len(columns))


def gram_source(K: FloatArray, sample: WeightedRows, n_factors: int) -> KernelSource:
    """The fastest exact form of a kernel matrix for ``n_factors`` values of C; K is overwritten."""
    if not np.isfinite(scale_gram(K, sample)).all():
        raise too_large()
    features = _few_features(K)
    if features is not None:
        unit = sample.unit[:, None]
        sums = np.add.reduceat(unit * features, sample.ptr[:-1], axis=0)
        return Spectrum.of_factor(features - unit * sums[sample.codes], sample)
    center_gram(K, sample)
    if n_factors > FEW:
        values, columns = linalg.eigh(K, driver="evd", check_finite=False)
        # Otherwise K is not positive semidefinite: Cholesky factors fail from the C where it shows.
        if values[0] > -1e-12 * values[-1]:
            values = np.maximum(values[::-1], 0.0)
            return Spectrum(sample, columns[:, ::-1] * np.sqrt(values), values)
    return GramSource(sample, K)


def _few_features(K: FloatArray) -> FloatArray | None:
    """Features whose products are K, by pivoted Cholesky; None if half of the rows need more."""
    diagonal = K.diagonal()
    least = 1e-14 * float(diagonal.max())
    # If half of the rows (and one more) are independent, the rank is not small. That costs an
    # eighth of the rank itself.
    some = np.unique(np.linspace(0, len(K) - 1, len(K) // 2 + 1).astype(np.int64))
    part = np.asfortranarray(K[np.ix_(some, some)])
    cholesky, failed = linalg.lapack.dpotrf(part, lower=1, overwrite_a=1, clean=0)
    if not failed and bool((cholesky.diagonal() ** 2 > least).all()):
        return None
    factor, pivots, rank, failed = linalg.lapack.dpstrf(K.T, lower=0, tol=least)
    if failed < 0 or rank > len(K) // 2:
        return None
    features = np.empty((len(K), rank))
    features[pivots - 1] = np.triu(factor[:rank]).T
    rest = diagonal - np.einsum("ij,ij->i", features, features)
    return features if (rest > -1e4 * least).all() else None  # an indefinite matrix stops early too
