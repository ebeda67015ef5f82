"""What a trained MPRank would have answered without some of its rows.

Training errors are linear in the grades, e = R y (all rows scaled by the roots of their masses). A
model trained without the rows I, C' held, has there the errors [R_II]^-1 e_I. So every leave-out
figure needs entries of R = (I + C' P K P)^-1 - B B' only, P = I - B B' centring each query.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from rankwright.rankers.kernel.sample import FloatArray, IntArray, Sample

__all__ = ["Block", "Smoother", "Smoothers", "Source", "unit_products"]


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
