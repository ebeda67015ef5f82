"""Smoothers from Cholesky factors: one for each C', nothing shared between them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import linalg, sparse

from rankwright.rankers.kernel.centring import factorised, inverse
from rankwright.rankers.kernel.sample import FloatArray, IntArray, Sample
from rankwright.rankers.kernel.scatter import Scatter
from rankwright.rankers.kernel.smoother import Block, Smoother, Smoothers, Source, unit_products

__all__ = ["GramSource", "StreamSource"]

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
        whole = factorised(self.K, factor, into=self._work)
        y = self.sample.roots * self.sample.centred(self.sample.y)
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
        self.error = sample.roots * sample.centred(sample.y - rows @ scatter.solve(factor))
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
