"""Smoothers from one eigendecomposition: a path of C at little more than the price of one.

Each C' needs every entry of R, which is m^3 multiplications. But it enters through the functions
C' v / (1 + C' v) of the eigenvalues v alone, one for each C', and on a band of neighboring
eigenvalues all of them are, to the last digits, combinations of a few. The singular values say of
how many. So matrices are multiplied for these few, and each C' takes its mixture.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg, sparse

from rankwright._typing import FloatArray, IntArray
from rankwright.rankers.magnitude.scatter import (
    Sample,
    Scatter,
    center_gram,
    factorized,
    inverse,
    scale_gram,
    too_large,
)


class Smoother(ABC):
    """R for one value of C'.

    Attributes
    ----------
    error : (n_rows,) R y
    """

    sample: Sample
    error: FloatArray

    @abstractmethod
    def among(self, rows: IntArray) -> FloatArray:
        """R among some rows, whole."""


class Block(NamedTuple):
    """R + B B' for several C' in some rows, and in the columns first .. of their queries.

    Only what lies below the diagonal is meant: columns before the row, of the row's query.
    """

    start: int
    first: int
    values: FloatArray  # (n_factors, n_rows of the block, n_columns)


class Smoothers(ABC):
    """R for several values of C', as a leave-pair-out error asks for it: whole, block by block.

    Attributes
    ----------
    errors : (n_factors, n_rows) R y
    diagonals : (n_factors, n_rows) of R
    """

    errors: FloatArray
    diagonals: FloatArray

    @abstractmethod
    def blocks(self) -> Iterator[Block]:
        """All rows; a block's memory serves the next one."""


class Source(ABC):
    """A kernel matrix, ready to be smoothed with any C'."""

    sample: Sample

    @abstractmethod
    def smoother(self, factor: float, *, some: bool = False) -> Smoother:
        """R for this C'; ``some`` when only a few rows of it will be asked for."""

    @abstractmethod
    def smoothers(self, factors: FloatArray) -> Iterator[Smoothers]:
        """R for all these C', in their order; each lives until the next is asked for."""

    def solve(self, factor: float) -> FloatArray:
        """The dual coefficients of the sample's rows."""
        error = self.smoother(factor, some=True).error
        return np.asarray(factor * self.sample.roots * error)


def unit_products(sample: Sample, rows: IntArray) -> FloatArray:
    """B B' among some rows."""
    same = sample.codes[rows][:, None] == sample.codes[rows]
    return np.asarray(same * np.outer(sample.unit[rows], sample.unit[rows]))


BLOCK = 512


@dataclass(frozen=True, eq=False)
class GramSource(Source):
    """P K P itself: each C' costs one Cholesky factor, and one inverse of it.

    A smoother lives until the next one takes its memory, or with ``keep=False`` the matrix itself.
    """

    sample: Sample
    K: FloatArray
    keep: bool = True

    @cached_property
    def _work(self) -> FloatArray:
        return np.empty_like(self.K) if self.keep else self.K

    def smoother(self, factor: float, *, some: bool = False) -> Smoother:
        whole = factorized(self.K, factor, into=self._work)
        y = self.sample.roots * self.sample.centered(self.sample.y)
        error = linalg.lapack.dpotrs(whole, y, lower=0)[0]
        return _Factor(self.sample, whole, error) if some else _Inverse(self.sample, whole, error)

    def smoothers(self, factors: FloatArray) -> Iterator[Smoothers]:
        for factor in factors:
            smoother = self.smoother(float(factor))
            assert isinstance(smoother, _Inverse)
            yield smoother


class _Inverse(Smoother, Smoothers):
    def __init__(self, sample: Sample, whole: FloatArray, error: FloatArray) -> None:
        self.sample, self.error = sample, error
        self._inverse = inverse(whole)
        self.errors = error[None]
        self.diagonals = (self._inverse.diagonal() - sample.unit**2)[None]

    def blocks(self) -> Iterator[Block]:
        sample = self.sample
        for start in range(0, sample.n_rows, BLOCK):
            stop, first = start + BLOCK, int(sample.ptr[sample.codes[start]])
            yield Block(start, first, self._inverse[None, start:stop, first:stop])

    def among(self, rows: IntArray) -> FloatArray:
        below, above = np.maximum.outer(rows, rows), np.minimum.outer(rows, rows)
        return self._inverse[below, above] - unit_products(self.sample, rows)


class _Factor(Smoother):
    def __init__(self, sample: Sample, whole: FloatArray, error: FloatArray) -> None:
        self.sample, self.error, self._whole = sample, error, whole

    def among(self, rows: IntArray) -> FloatArray:
        right = np.zeros((self.sample.n_rows, len(rows)), order="F")
        right[rows, np.arange(len(rows))] = 1.0
        solved = linalg.lapack.dpotrs(self._whole, right, lower=0, overwrite_b=1)[0]
        return np.asarray(solved[rows]) - unit_products(self.sample, rows)


@dataclass(frozen=True, eq=False)
class StreamSource(Source):
    """Rows with few features, of which only some are asked for: nothing is copied."""

    sample: Sample
    rows: Any

    def smoother(self, factor: float, *, some: bool = False) -> Smoother:
        return _Streamed(self.sample, self.rows, factor)

    def smoothers(self, factors: FloatArray) -> Iterator[Smoothers]:
        raise NotImplementedError("only some rows of a stream are asked for")


class _Streamed(Smoother):
    def __init__(self, sample: Sample, rows: Any, factor: float) -> None:
        self.sample, self._rows = sample, rows
        scatter = Scatter(rows.shape[1])
        scatter.add(rows, sample)
        self.error = sample.roots * sample.centered(sample.y - rows @ scatter.solve(factor))
        self._means = sample.means(rows)
        system = scatter.products[:-1, :-1]
        system.flat[:: len(system) + 1] += 1.0 / factor
        self._whole = linalg.cho_factor(system, check_finite=False)

    def among(self, rows: IntArray) -> FloatArray:
        some = self._rows[rows]
        left = some.toarray() if sparse.issparse(some) else some
        left = (left - self._means[self.sample.codes[rows]]) * self.sample.roots[rows, None]
        R = np.eye(len(rows)) - unit_products(self.sample, rows)
        return np.asarray(R - left @ linalg.cho_solve(self._whole, left.T))


NEGLIGIBLE = 1e-16  # C' v below which an eigenvalue changes R by less than its rounding
PRECISION = 1e-14  # to which the mixtures give R
WIDTHS = (2.0, 4.0, 16.0, 256.0, np.inf)  # of a band: the largest eigenvalue over the smallest
BUFFER = 2**23  # numbers in a block, for all C' together: 64 MB
SHORT = 64  # rows in a block of short queries
FEW = 12  # values of C that cost less by Cholesky factors than one full eigendecomposition


@dataclass(frozen=True, eq=False)
class Spectrum(Source):
    """P K P = T T' with orthogonal columns T: of squared length ``values``, largest first.

    R = P - T diag(C' / (1 + C' values)) T': no division by small values, so it keeps its digits at
    any rank.
    """

    sample: Sample
    columns: FloatArray
    values: FloatArray

    @classmethod
    def of_rows(cls, rows: Any, sample: Sample) -> Spectrum:
        """From features (n_rows, rank): K = rows rows'."""
        dense = rows.toarray() if sparse.issparse(rows) else rows[:]
        left = (dense - sample.means(dense)[sample.codes]) * sample.roots[:, None]
        return cls.of_factor(left, sample)

    @classmethod
    def of_factor(cls, left: FloatArray, sample: Sample) -> Spectrum:
        """From any factor of P K P = left left'."""
        products = left.T @ left
        if not np.isfinite(products).all():
            raise too_large()
        values, turn = linalg.eigh(products, driver="evd", overwrite_a=True)
        return cls(sample, left @ turn[:, ::-1], np.maximum(values[::-1], 0.0))

    def smoother(self, factor: float, *, some: bool = False) -> Smoother:
        return _Spectral(self, factor)

    def smoothers(self, factors: FloatArray) -> Iterator[Smoothers]:
        yield _Mixtures(self, factors)

    def up_to(self, factor: float) -> tuple[FloatArray, FloatArray]:
        """The columns and values that matter to this C'."""
        rank = int(np.searchsorted(-self.values, -NEGLIGIBLE / factor))
        return self.columns[:, :rank], self.values[:rank]

    @cached_property
    def target(self) -> FloatArray:
        """The centered grades, scaled as the rows are."""
        return self.sample.roots * self.sample.centered(self.sample.y)


class _Spectral(Smoother):
    def __init__(self, spectrum: Spectrum, factor: float) -> None:
        self.sample = spectrum.sample
        self._columns, values = spectrum.up_to(factor)
        self._left = self._columns * (factor / (1.0 + factor * values))
        y = spectrum.target
        self.error = y - self._left @ (self._columns.T @ y)

    def among(self, rows: IntArray) -> FloatArray:
        R = np.eye(len(rows)) - unit_products(self.sample, rows)
        return np.asarray(R - self._left[rows] @ self._columns[rows].T)


@dataclass(frozen=True, eq=False)
class _Bands:
    """C' / (1 + C' v) for every C' and v, as mixtures of a few functions of v in each band.

    Attributes
    ----------
    parts : of each band, its columns and (n_functions, n_columns) its functions of v
    mixture : (n_factors, n_functions of all bands)
    """

    parts: list[tuple[slice, FloatArray]]
    mixture: FloatArray

    @classmethod
    def of(cls, values: FloatArray, factors: FloatArray, width: float) -> _Bands:
        scaled = np.outer(factors, values)
        shares = scaled / (1.0 + scaled)
        band = np.floor(np.log(values) / np.log(width))
        edges = [0, *(np.flatnonzero(np.diff(band)) + 1).tolist(), len(values)] if len(band) else []
        parts, mixtures = [], [np.zeros((len(factors), 0))]
        for columns in map(slice, edges[:-1], edges[1:]):
            mix, size, functions = linalg.svd(shares[:, columns], full_matrices=False)
            kept = size > PRECISION
            parts.append((columns, functions[kept] / values[columns]))
            mixtures.append(mix[:, kept] * size[kept])
        return cls(parts, np.hstack(mixtures))

    @property
    def cost(self) -> int:
        """Multiplications for each entry of R."""
        return sum(functions.size for _, functions in self.parts) + self.mixture.size


class _Mixtures(Smoothers):
    def __init__(self, spectrum: Spectrum, factors: FloatArray) -> None:
        self._sample = sample = spectrum.sample
        self._columns, values = spectrum.up_to(float(factors.max()))
        self._bands = min(
            (_Bands.of(values, factors, width) for width in WIDTHS), key=lambda bands: bands.cost
        )
        shrink = factors[:, None] / (1.0 + np.outer(factors, values))
        y = spectrum.target
        self.errors = y - (shrink * (self._columns.T @ y)) @ self._columns.T
        self.diagonals = 1.0 - sample.unit**2 - shrink @ np.square(self._columns).T

    def blocks(self) -> Iterator[Block]:
        ptr, codes, bands = self._sample.ptr, self._sample.codes, self._bands
        n_factors, n_functions = bands.mixture.shape
        longest = int(np.diff(ptr).max())
        height = BUFFER // (max(n_functions, n_factors) * longest)
        height = max(1, min(height, max(longest, SHORT)))
        size = height * (longest + height)
        products, mixed = np.empty(n_functions * size), np.empty(n_factors * size)
        for start in range(0, self._sample.n_rows, height):
            stop, first = min(start + height, len(codes)), int(ptr[codes[start]])
            rows, columns = self._columns[start:stop], self._columns[first:stop]
            size, done = len(rows) * len(columns), 0
            for part, functions in bands.parts:
                stack = (functions[:, None] * rows[:, part]).reshape(-1, functions.shape[1])
                out = products[done : done + len(stack) * len(columns)]
                np.matmul(stack, columns[:, part].T, out=out.reshape(-1, len(columns)))
                done += len(out)
            values = mixed[: n_factors * size].reshape(n_factors, size)
            np.matmul(-bands.mixture, products[:done].reshape(n_functions, size), out=values)
            yield Block(start, first, values.reshape(n_factors, len(rows), len(columns)))


def gram_source(K: FloatArray, sample: Sample, n_factors: int) -> Source:
    """The cheapest exact form of a kernel matrix for so many values of C; K is overwritten.

    Pivoted Cholesky finds the numerical rank. Where it is small, an eigendecomposition of that size
    will do.
    """
    if not np.isfinite(scale_gram(K, sample)).all():
        raise too_large()
    rows = _few_features(K)
    if rows is not None:
        left = rows - sample.unit[:, None] * _unit_sums(rows, sample)[sample.codes]
        return Spectrum.of_factor(left, sample)
    center_gram(K, sample)
    if n_factors > FEW:
        values, columns = linalg.eigh(K, driver="evd", check_finite=False)
        if values[0] > -1e-12 * values[-1]:  # else no kernel: Cholesky factors tell from which C on
            values = np.maximum(values[::-1], 0.0)
            return Spectrum(sample, columns[:, ::-1] * np.sqrt(values), values)
    return GramSource(sample, K)


def _few_features(K: FloatArray) -> FloatArray | None:
    """Features whose products are K, or None if that takes more than half as many as rows."""
    diagonal = K.diagonal()
    least = 1e-14 * float(diagonal.max())
    if _half_is_regular(K, least):
        return None
    factor, pivots, rank, failed = linalg.lapack.dpstrf(K.T, lower=0, tol=least)
    if failed < 0 or rank > len(K) // 2:
        return None
    rows = np.empty((len(K), rank))
    rows[pivots - 1] = np.triu(factor[:rank]).T
    left = diagonal - np.einsum("ij,ij->i", rows, rows)
    return rows if (left > -1e4 * least).all() else None  # an indefinite matrix stops early as well


def _half_is_regular(K: FloatArray, least: float) -> bool:
    """Whether half of the rows (and one) are independent: then the rank is not small.

    An eighth of the cost of finding the rank itself.
    """
    some = np.unique(np.linspace(0, len(K) - 1, len(K) // 2 + 1).astype(np.int64))
    part = np.asfortranarray(K[np.ix_(some, some)])
    whole, failed = linalg.lapack.dpotrf(part, lower=1, overwrite_a=1, clean=0)
    return not failed and bool((whole.diagonal() ** 2 > least).all())


def _unit_sums(rows: FloatArray, sample: Sample) -> FloatArray:
    """b_q' rows for every query."""
    weighted = sample.unit[:, None] * rows
    return np.add.reduceat(weighted, sample.ptr[:-1], axis=0)
