"""Impressions counted by document and position: all that click statistics need."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rankwright._typing import FloatArray, IntArray
from rankwright.data.behavior.impressions import ImpressionLog


class Cells(NamedTuple):
    """Distinct (document, position) with counts; a document is an item of one query.

    Attributes
    ----------
    document : (n_cells,) numbers as in ``log.documents``
    position : (n_cells,) from 0
    shown, clicked : (n_cells,) how many impressions, and how many of them were clicked
    n_documents, n_positions : int
    """

    document: IntArray
    position: IntArray
    shown: FloatArray
    clicked: FloatArray
    n_documents: int
    n_positions: int

    @classmethod
    def of(cls, log: ImpressionLog) -> Cells:
        document, first = log.documents
        n_positions, n_documents = log.n_positions, len(first)
        key = document * n_positions + log.position - 1
        size = n_documents * n_positions
        if size <= 4 * len(key) + 1024:  # few empty cells: count by index, without sorting
            shown, clicked = np.bincount(key, minlength=size), np.bincount(key, log.clicked, size)
            used = np.flatnonzero(shown)
            shown, clicked = shown[used], clicked[used]
        else:
            used, number, shown = np.unique(key, return_inverse=True, return_counts=True)
            clicked = np.bincount(number, log.clicked, len(used))
        return cls(
            used // n_positions,
            used % n_positions,
            shown.astype(np.float64),
            clicked.astype(np.float64),
            n_documents,
            n_positions,
        )

    def by_document(self, values: FloatArray) -> FloatArray:
        """Sums over the cells of each document."""
        return np.bincount(self.document, values, self.n_documents).astype(np.float64)

    def by_position(self, values: FloatArray) -> FloatArray:
        """Sums over the cells of each position."""
        return np.bincount(self.position, values, self.n_positions).astype(np.float64)
