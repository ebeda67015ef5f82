"""What a trained MPRank would have answered without some of its rows.

Training errors are linear in the grades, e = R y (all rows scaled by the roots of their masses). A
model trained without the rows I, C' held, has there the errors [R_II]^-1 e_I. So every leave-out
figure needs entries of R = (I + C' P K P)^-1 - B B' only, P = I - B B' centring each query.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import linalg, sparse

from rankwright.rankers.kernel.centring import centre_gram, factorised, inverse, scale_gram
from rankwright.rankers.kernel.sample import FloatArray, IntArray, Sample
from rankwright.rankers.kernel.scatter import Scatter, too_large

__all__ = ["GramSource", "Smoother", "Source", "Spectrum", "StreamSource", "gram_source"]

BLOCK = 512


class Smoother(ABC):
    """R for one value of C'.

    Attributes
    ----------
    error : (n_rows,) R y
    diagonal : (n_rows,) of R
    """

    sample: Sample
    error: FloatArray
    diagonal: FloatArray

    @abstractmethod
    def block(self, start: int, stop: int, first: int) -> FloatArray:
        """R + B B' in the rows start .. stop and the columns first .. stop, below the diagonal."""

    @abstractmethod
    def among(self, rows: IntArray) -> FloatArray:
        """R among some rows, whole."""


class Source(ABC):
    """A kernel matrix, ready to be smoothed with any C'."""

    sample: Sample

    @abstractmethod
    def smoother(self, factor: float, *, some: bool = False) -> Smoother:
        """R for this C'; ``some`` when only a few rows of it will be asked for."""

    def solve(self, factor: float) -> FloatArray:
        """The dual coefficients of the sample's rows."""
        error = self.smoother(factor, some=True).error
        return np.asarray(factor * self.sample.roots * error)


@dataclass(frozen=True, eq=False)
class Spectrum(Source):
    """P K P = T T' with orthogonal columns T: of squared length ``values``, largest first.

    R = P - T diag(C' / (1 + C' values)) T': no division by small values, so it keeps its digits at
    any rank. Each C' uses the columns that matter to it.
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
        # Columns below this change R by less than its rounding.
        rank = int(np.searchsorted(-self.values, -1e-16 / factor))
        columns = self.columns[:, :rank]
        shrink = factor / (1.0 + factor * self.values[:rank])
        return _Spectral(self.sample, columns, shrink)


class _Spectral(Smoother):
    def __init__(self, sample: Sample, columns: FloatArray, shrink: FloatArray) -> None:
        self.sample, self._columns = sample, columns
        self._left = columns * shrink
        y = sample.roots * sample.centred(sample.y)
        self.error = y - self._left @ (columns.T @ y)
        self.diagonal = (
            1.0 - sample.unit**2 - np.einsum("ij,ij->i", self._left, columns, optimize=False)
        )

    def block(self, start: int, stop: int, first: int) -> FloatArray:
        product = self._left[start:stop] @ self._columns[first:stop].T
        return np.negative(product, out=product)

    def among(self, rows: IntArray) -> FloatArray:
        R = np.eye(len(rows)) - _unit_products(self.sample, rows)
        return np.asarray(R - self._left[rows] @ self._columns[rows].T)


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
        whole = factorised(self.K, factor, into=self._work)
        y = self.sample.roots * self.sample.centred(self.sample.y)
        error = linalg.lapack.dpotrs(whole, y, lower=0)[0]
        return _Factor(self.sample, whole, error) if some else _Inverse(self.sample, whole, error)


class _Inverse(Smoother):
    def __init__(self, sample: Sample, whole: FloatArray, error: FloatArray) -> None:
        self.sample, self.error = sample, error
        self._inverse = inverse(whole)
        self.diagonal = self._inverse.diagonal() - sample.unit**2

    def block(self, start: int, stop: int, first: int) -> FloatArray:
        return self._inverse[start:stop, first:stop]

    def among(self, rows: IntArray) -> FloatArray:
        below, above = np.maximum.outer(rows, rows), np.minimum.outer(rows, rows)
        return self._inverse[below, above] - _unit_products(self.sample, rows)


class _Factor(Smoother):
    def __init__(self, sample: Sample, whole: FloatArray, error: FloatArray) -> None:
        self.sample, self.error, self._whole = sample, error, whole

    def block(self, start: int, stop: int, first: int) -> FloatArray:
        raise NotImplementedError("a smoother made for some rows has no whole blocks")

    def among(self, rows: IntArray) -> FloatArray:
        right = np.zeros((self.sample.n_rows, len(rows)), order="F")
        right[rows, np.arange(len(rows))] = 1.0
        solved = linalg.lapack.dpotrs(self._whole, right, lower=0, overwrite_b=1)[0]
        return np.asarray(solved[rows]) - _unit_products(self.sample, rows)


@dataclass(frozen=True, eq=False)
class StreamSource(Source):
    """Rows with few features, of which only some are asked for: nothing is copied."""

    sample: Sample
    rows: Any

    def smoother(self, factor: float, *, some: bool = False) -> Smoother:
        return _Streamed(self.sample, self.rows, factor)


class _Streamed(Smoother):
    def __init__(self, sample: Sample, rows: Any, factor: float) -> None:
        self.sample, self._rows = sample, rows
        scatter = Scatter(rows.shape[1])
        scatter.add(rows, sample)
        self.error = sample.roots * sample.centred(sample.y - rows @ scatter.solve(factor))
        self._means = sample.means(rows)
        system = scatter.products[:-1, :-1]
        system.flat[:: len(system) + 1] += 1.0 / factor
        self._whole = linalg.cho_factor(system, check_finite=False)

    def block(self, start: int, stop: int, first: int) -> FloatArray:
        raise NotImplementedError("a smoother made for some rows has no whole blocks")

    def among(self, rows: IntArray) -> FloatArray:
        some = self._rows[rows]
        left = some.toarray() if sparse.issparse(some) else some
        left = (left - self._means[self.sample.codes[rows]]) * self.sample.roots[rows, None]
        R = np.eye(len(rows)) - _unit_products(self.sample, rows)
        return np.asarray(R - left @ linalg.cho_solve(self._whole, left.T))


def _unit_products(sample: Sample, rows: IntArray) -> FloatArray:
    same = sample.codes[rows][:, None] == sample.codes[rows]
    return np.asarray(same * np.outer(sample.unit[rows], sample.unit[rows]))


def gram_source(K: FloatArray, sample: Sample) -> Source:
    """The cheapest exact form of a kernel matrix; K is overwritten.

    Pivoted Cholesky finds the numerical rank. Where it is small, one eigendecomposition of that
    size serves every C. Where it is not, a Cholesky inverse per C costs no more than the product
    that a full eigendecomposition leaves to do, and saves the decomposition itself.
    """
    if not np.isfinite(scale_gram(K, sample)).all():
        raise too_large()
    least = 1e-14 * float(K.diagonal().max())
    if _half_is_regular(K, least):
        return GramSource(sample, centre_gram(K, sample))
    factor, pivots, rank, failed = linalg.lapack.dpstrf(K.T, lower=0, tol=least)
    if failed < 0 or rank > len(K) // 2:
        return GramSource(sample, centre_gram(K, sample))
    rows = np.empty((len(K), rank))
    rows[pivots - 1] = np.triu(factor[:rank]).T
    left = rows - sample.unit[:, None] * _unit_sums(rows, sample)[sample.codes]
    return Spectrum.of_factor(left, sample)


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
