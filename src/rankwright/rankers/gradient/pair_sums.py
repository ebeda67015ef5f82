"""The squared hinge over all pairs of a feedback: value, gradient and curvature from scores.

No pair of grades is ever written out. With margin M the loss of a pair is (M - d)^2 where its
difference of scores d is below M; the plain hinge smoothed over a width is a difference of two of
these (see ``hinge_newton.py``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rankwright.exceptions import FeedbackError
from rankwright.feedback import Bipartite, Feedback, Grades, Pairs
from rankwright.parallel import map_blocks
from rankwright.rankers.gradient.graded_pairs import GradedPairs, from_bipartite, from_grades

__all__ = ["PairSums", "pair_sums"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

N_BLOCKS = 16  # fixed: what is added up in which order must not depend on the number of threads


@dataclass(frozen=True)
class Point:
    """The pair sums at given scores.

    Attributes
    ----------
    hinge, squared : sums of (M - d) and (M - d)^2 over the pairs with d < M
    slope : (n_items,) derivative of ``squared``
    curvature : (n_items,) half the diagonal of its second derivative
    """

    hinge: float
    squared: float
    slope: FloatArray
    curvature: FloatArray


class PairSums(ABC):
    """Sums over weighted pairs (upper, lower) of rows 0 .. n_items - 1."""

    weight: float  # of all pairs together

    @abstractmethod
    def at(self, scores: FloatArray, margin: float) -> tuple[Point, _Product]:
        """The sums at these scores, and a function v -> (half the Hessian) @ v there."""


class _Product(ABC):
    @abstractmethod
    def __call__(self, vector: FloatArray) -> FloatArray:
        """Half the Hessian times the vector."""


def pair_sums(feedback: Feedback, n_items: int, weighting: str | None = None) -> PairSums:
    """The pairs of a feedback (grades, bipartite, pairs, or sums of them), ready for summing."""
    graded: list[GradedPairs] = []
    sums: list[PairSums] = []
    for factor, term in feedback.terms():
        if isinstance(term, Grades):
            graded.append(from_grades(term, factor, weighting))
        elif isinstance(term, Bipartite):
            graded.append(from_bipartite(term, factor, weighting))
        elif isinstance(term, Pairs) and weighting is None:
            sums.append(_Listed(term, factor, n_items))
        else:
            raise FeedbackError(
                f"weighting={weighting!r} needs grades: {type(term).__name__} says which of two "
                "rows is better and not how good they are. Use weighting=None."
            )
    # Bipartite feedbacks come by the thousand, one for each query: one sweep takes them all.
    for n_factors in sorted({len(part.upper) for part in graded}):
        parts = [part for part in graded if len(part.upper) == n_factors]
        sums.append(_Graded(GradedPairs.concat(parts), n_items))
    return sums[0] if len(sums) == 1 else _Total(sums)


class _Graded(PairSums):
    """Pairs by grades, swept in order of score."""

    def __init__(self, pairs: GradedPairs, n_items: int) -> None:
        self._pairs, self._n_items = pairs, n_items
        self.weight = pairs.weight
        self._unique = np.bincount(pairs.rows).max(initial=0) <= 1
        cuts = np.searchsorted(pairs.ptr, np.linspace(0, len(pairs.rows), N_BLOCKS + 1))
        cuts[0], cuts[-1] = 0, len(pairs.ptr) - 1
        cuts = np.unique(np.minimum(cuts, len(pairs.ptr) - 1))
        self.blocks = list(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True))

    def at(self, scores: FloatArray, margin: float) -> tuple[Point, _Product]:
        from rankwright.rankers.gradient import _kernels

        p = self._pairs
        own = scores[p.rows]
        order = np.empty(len(own), np.int64)
        slope, curvature = np.zeros(len(own)), np.zeros(len(own))

        def work(block: tuple[int, int]) -> tuple[float, float]:
            first, last = block
            _kernels.sort_queries(p.ptr, first, last, own, order)
            sums: tuple[float, float] = _kernels.squared_hinge_sums(
                own, order, p.ptr, p.level, p.upper, p.lower, first, last, margin, slope, curvature
            )
            return sums

        found = map_blocks(work, self.blocks)
        point = Point(
            sum(hinge for hinge, _ in found),
            sum(squared for _, squared in found),
            self.to_rows(slope),
            self.to_rows(curvature),
        )
        return point, _GradedProduct(self, own, order, margin, curvature)

    def to_rows(self, values: FloatArray) -> FloatArray:
        """Values per entry added up per row of X."""
        if not self._unique:
            return np.bincount(self._pairs.rows, values, self._n_items).astype(np.float64)
        rows = np.zeros(self._n_items)
        rows[self._pairs.rows] = values
        return rows

    @property
    def pairs(self) -> GradedPairs:
        return self._pairs


@dataclass(frozen=True)
class _GradedProduct(_Product):
    sums: _Graded
    scores: FloatArray
    order: IntArray
    margin: float
    curvature: FloatArray

    def __call__(self, vector: FloatArray) -> FloatArray:
        from rankwright.rankers.gradient import _kernels

        p = self.sums.pairs
        own, product = vector[p.rows], np.empty(len(p.rows))

        def work(block: tuple[int, int]) -> None:
            state = (self.scores, self.order, p.ptr, p.level, p.upper, p.lower)
            _kernels.squared_hinge_product(
                *state, *block, self.margin, self.curvature, own, product
            )

        map_blocks(work, self.sums.blocks)
        return self.sums.to_rows(product)


class _Listed(PairSums):
    """Pairs one by one."""

    def __init__(self, pairs: Pairs, factor: float, n_items: int) -> None:
        self.lower, self.upper, self.each = pairs.lower, pairs.upper, factor * pairs.weight
        self.weight = float(self.each.sum())
        self._n_items = n_items

    def at(self, scores: FloatArray, margin: float) -> tuple[Point, _Product]:
        room = np.maximum(margin - (scores[self.upper] - scores[self.lower]), 0.0)
        pull = self.each * room
        active = np.where(room > 0.0, self.each, 0.0)
        point = Point(
            float(pull.sum()),
            float(pull @ room),
            2.0 * (self.spread(self.lower, pull) - self.spread(self.upper, pull)),
            self.spread(self.upper, active) + self.spread(self.lower, active),
        )
        return point, _ListedProduct(self, active)

    def spread(self, rows: IntArray, values: FloatArray) -> FloatArray:
        return np.bincount(rows, values, self._n_items).astype(np.float64)


@dataclass(frozen=True)
class _ListedProduct(_Product):
    sums: _Listed
    active: FloatArray

    def __call__(self, vector: FloatArray) -> FloatArray:
        s = self.sums
        gap = self.active * (vector[s.upper] - vector[s.lower])
        return s.spread(s.upper, gap) - s.spread(s.lower, gap)


class _Total(PairSums):
    """The sum of several."""

    def __init__(self, parts: list[PairSums]) -> None:
        self._parts = parts
        self.weight = sum(part.weight for part in parts)

    def at(self, scores: FloatArray, margin: float) -> tuple[Point, _Product]:
        found = [part.at(scores, margin) for part in self._parts]
        points = [point for point, _ in found]
        total = Point(
            sum(point.hinge for point in points),
            sum(point.squared for point in points),
            np.sum([point.slope for point in points], axis=0),
            np.sum([point.curvature for point in points], axis=0),
        )
        return total, _TotalProduct([product for _, product in found])


@dataclass(frozen=True)
class _TotalProduct(_Product):
    parts: list[_Product]

    def __call__(self, vector: FloatArray) -> FloatArray:
        return np.asarray(np.sum([part(vector) for part in self.parts], axis=0))
