"""Some queries, or some pairs, and the smooth pair losses among their rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rankwright.exceptions import FeedbackError
from rankwright.feedback import Feedback, Grades, Pairs
from rankwright.rankers.losses import LOSSES, QueryPairs

__all__ = ["Batch", "all_batches"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Flags = NDArray[np.uint8]

PAIRS_PER_QUERY = 64  # so many pairs of a list count as one query when batches are cut


class Batch(ABC):
    """Some rows, and the pair losses among them."""

    rows: IntArray

    @property
    @abstractmethod
    def n_units(self) -> int:
        """How many queries, or runs of pairs, it holds."""

    @abstractmethod
    def take(self, units: IntArray) -> Batch:
        """Some of its queries, or runs of pairs."""

    @abstractmethod
    def sums(
        self, scores: FloatArray, loss: str, weighting: str | None
    ) -> tuple[float, float, FloatArray]:
        """Sum of losses, of weights, and the slope by the scores of ``rows``."""

    @abstractmethod
    def split(self, scores: FloatArray, hit: Flags, loss: str) -> tuple[float, float]:
        """By how much the loss would fall and rise, to first order, if the rows hit went up.

        The sums of |slope| over the pairs whose upper row alone is hit, and whose lower row is.
        """


def all_batches(
    feedback: Feedback, weighting: str | None, *, by_query: bool = False
) -> list[Batch]:
    """One batch for each simple feedback in the sum; those without pairs are left out.

    ``by_query`` gives all queries the same weight, however many pairs they have.
    """
    found: list[Batch] = []
    for factor, term in feedback.terms():
        if isinstance(term, Grades):
            pairs = QueryPairs.of(term, factor)
            found.append(QueryBatch(pairs.by_query() if by_query else pairs))
        elif isinstance(term, Pairs):
            if weighting is not None:
                raise FeedbackError(
                    f"weighting={weighting!r} needs grades: pairs say which of two rows is better "
                    "and not how good they are. Use weighting=None."
                )
            found.append(PairBatch.of(term.lower, term.upper, factor * term.weight))
    return [batch for batch in found if batch.n_units]


class QueryBatch(Batch):
    def __init__(self, pairs: QueryPairs) -> None:
        self.pairs, self.rows = pairs, pairs.rows

    @property
    def n_units(self) -> int:
        return self.pairs.n_queries

    def take(self, units: IntArray) -> QueryBatch:
        return QueryBatch(self.pairs.take(units))

    def sums(
        self, scores: FloatArray, loss: str, weighting: str | None
    ) -> tuple[float, float, FloatArray]:
        return self.pairs.sums(scores, loss, weighting)

    def split(self, scores: FloatArray, hit: Flags, loss: str) -> tuple[float, float]:
        return self.pairs.split(scores, hit, loss)


@dataclass(frozen=True)
class PairBatch(Batch):
    """Pairs of places among ``rows``."""

    rows: IntArray
    lower: IntArray
    upper: IntArray
    weight: FloatArray

    @classmethod
    def of(cls, lower: IntArray, upper: IntArray, weight: FloatArray) -> PairBatch:
        """Pairs of rows; those of weight zero are left out."""
        used = weight > 0
        rows, place = np.unique(np.stack([lower[used], upper[used]]), return_inverse=True)
        below, above = place.reshape(2, -1)
        return cls(rows, below, above, weight[used])

    @property
    def n_units(self) -> int:
        return -(-len(self.weight) // PAIRS_PER_QUERY)

    def take(self, units: IntArray) -> PairBatch:
        pairs = (units[:, None] * PAIRS_PER_QUERY + np.arange(PAIRS_PER_QUERY)).ravel()
        pairs = pairs[pairs < len(self.weight)]
        return self.of(
            self.rows[self.lower[pairs]], self.rows[self.upper[pairs]], self.weight[pairs]
        )

    def sums(
        self, scores: FloatArray, loss: str, weighting: str | None
    ) -> tuple[float, float, FloatArray]:
        value, bend = LOSSES[loss][0](scores[self.upper] - scores[self.lower])
        pull = self.weight * bend
        slope = np.zeros(len(scores))
        slope += np.bincount(self.upper, pull, len(scores))
        slope -= np.bincount(self.lower, pull, len(scores))
        return float(self.weight @ value), float(self.weight.sum()), slope

    def split(self, scores: FloatArray, hit: Flags, loss: str) -> tuple[float, float]:
        _, bend = LOSSES[loss][0](scores[self.upper] - scores[self.lower])
        up, low = hit[self.upper].astype(bool), hit[self.lower].astype(bool)
        pull = -self.weight * bend
        return float(pull[up & ~low].sum()), float(pull[low & ~up].sum())
