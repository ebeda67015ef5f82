"""How often each row is shown."""

from __future__ import annotations

import numpy as np

from rankwright.exceptions import DataError
from rankwright.feedback import Grades
from rankwright.rankers.online.rows import IntArray

__all__ = ["visits"]


def visits(grades: Grades) -> IntArray:
    """Each row as often as its weight says (once without weights), in order."""
    times = grades.row_weight
    if not np.array_equal(times, np.round(times)):
        odd = int(np.flatnonzero(times != np.round(times))[0])
        raise DataError(
            f"row {odd} has weight {times[odd]:g}. An online ranker shows a row a whole number of "
            "times: give weights 0, 1, 2, ..."
        )
    order: IntArray = np.repeat(np.arange(len(times)), times.astype(np.int64))
    if len(order) == 0:
        raise DataError("every row has weight zero: there is nothing to show.")
    return order
