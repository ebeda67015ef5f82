"""What a relaxation ranker is shown, one after the other: rows with a grade, or pairs of rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rankwright.feedback import Feedback, Grades, Pairs

__all__ = ["Visits", "grades_of"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Visits:
    """A sequence of visits.

    Attributes
    ----------
    upper : (n_visits,) the row shown
    lower : (n_visits,) the row that belongs below it, or -1 where a grade is shown
    code : (n_visits,) the grade shown, as its place among ``classes``
    weight : (n_visits,) how often the visit counts
    """

    upper: IntArray
    lower: IntArray
    code: IntArray
    weight: FloatArray

    @classmethod
    def of(cls, feedback: Feedback, classes: FloatArray) -> Visits:
        """Graded rows in the order of X, pairs in theirs; visits of weight 0 are left out."""
        parts = []
        for factor, term in feedback.terms():
            if isinstance(term, Grades):
                weight = factor * term.row_weight
                rows, code = np.arange(len(term.y)), np.searchsorted(classes, term.y)
                parts.append((rows, np.full(len(rows), -1), code, weight))
            elif isinstance(term, Pairs):
                code = np.zeros(term.n_pairs, np.int64)
                parts.append((term.upper, term.lower, code, factor * term.weight))
        upper, lower, code, weight = (np.concatenate(column) for column in zip(*parts, strict=True))
        visits = cls(upper, lower, code.astype(np.int64), weight)
        return visits.take(np.flatnonzero(weight > 0))

    def __len__(self) -> int:
        return len(self.upper)

    def take(self, index: IntArray | slice) -> Visits:
        return Visits(self.upper[index], self.lower[index], self.code[index], self.weight[index])

    def blocks(self, size: int) -> Iterator[tuple[IntArray, Visits]]:
        """Runs of visits, each with the distinct rows it shows; its visits number those rows."""
        for start in range(0, len(self), size):
            part = self.take(slice(start, start + size))
            rows, place = np.unique(np.stack([part.upper, part.lower]), return_inverse=True)
            place = place.reshape(2, -1)
            if rows[0] < 0:
                rows, place = rows[1:], place - 1
            yield rows, Visits(place[0], place[1], part.code, part.weight)


def grades_of(feedback: Feedback) -> FloatArray:
    """All grades that occur with a weight above zero, ascending; none in a list of pairs."""
    found = [
        term.y[term.row_weight > 0] for _, term in feedback.terms() if isinstance(term, Grades)
    ]
    return np.unique(np.concatenate([np.zeros(0), *found]))
