"""What boosting asks of the features each round: the best cut of every one, found in one pass.

``BinnedScan``   a byte per value; the fastest, for dense data and the criterion r
``SortedScan``   rows in the order of each feature: every threshold, and sparse data
``GroupedScan``  rows sorted inside each query, for the criterion z
``ValueScan``    features as they are, without cuts

All answer with ``Gains``; cuts are numbered by each scan in its own way.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rankwright.feedback.base import FloatArray, IntArray
from rankwright.parallel import Team, ranges
from rankwright.rankers.boosting.columns import Columns
from rankwright.rankers.boosting.levels import Flags, pointers

__all__ = ["Asked", "Gains", "Parts", "Scan", "Weighted", "take_all", "team_for"]

SMALL = 200_000  # cells of X below which threads cost more than they save
Asked = tuple[IntArray, IntArray, IntArray]  # features, cuts, defaults
Parts = list[tuple[int, int]]  # ranges of rows


class Weighted(Protocol):
    """What a scan over potentials needs to know: ``whole`` is their sum, ``total`` their scale."""

    potential: FloatArray
    total: float
    whole: float


class Gains:
    """Per feature: the best gain upwards and downwards, for either default, and their cuts."""

    def __init__(self, n_features: int) -> None:
        self.top, self.bottom = np.full((2, n_features), -np.inf), np.full((2, n_features), np.inf)
        self.top_cut = np.full((2, n_features), -2, np.int64)
        self.bottom_cut = np.full((2, n_features), -2, np.int64)
        self.listed = np.zeros(n_features)

    @property
    def arrays(self) -> tuple[Any, ...]:
        return self.top, self.top_cut, self.bottom, self.bottom_cut, self.listed


class Scan(ABC):
    """What boosting asks of the features each round."""

    n_features: int
    abstains: NDArray[np.bool_]
    margin = 1e-12  # by how much one gain must exceed another, so that rounding decides nothing

    def __init__(self, columns: Columns, team: Team) -> None:
        self.n_features, self.n_rows = columns.n_features, columns.n_rows
        self._columns, self._team = columns, team
        self.abstains = np.zeros(self.n_features, bool)
        self.gains = Gains(self.n_features)
        # More blocks than threads, so that a thread with easy features takes more of them.
        self.blocks = ranges(self.n_features, 1 if team.threads == 1 else 2 * team.threads)

    def begin(self, pairs: Weighted) -> Callable[[int], None] | None:
        """What to do with each part of the rows as soon as its potentials are known, if anything.

        Called before the potentials change, so that threads need not meet between the two.
        """
        return None

    @abstractmethod
    def scan(self, pairs: Any, asked: Asked) -> FloatArray:
        """Update ``gains``; return the gains of the cuts that were asked for."""

    @abstractmethod
    def hit(self, feature: int, cut: int, default: int) -> Flags:
        """Which rows a cut hits."""

    @abstractmethod
    def threshold(self, feature: int, cut: int) -> float:
        """The value that rows must exceed to be hit."""

    @abstractmethod
    def listing_cut(self, feature: int) -> int:
        """The cut that hits every row that has the feature."""

    @abstractmethod
    def empty_cut(self, feature: int) -> int:
        """The cut that hits none of them."""

    def _each_feature(self, function: Any) -> None:
        def block(bounds: tuple[int, int]) -> None:
            for feature in range(*bounds):
                function(feature)

        self._team.map(block, self.blocks)


def team_for(X: Any) -> Team:
    """One thread or all of them, whichever is faster on so many cells."""
    return Team(1 if X.shape[0] * X.shape[1] < SMALL else None)


def take_all(pieces: list[Any]) -> tuple[IntArray, Any]:
    """Where each piece starts, and all in one array; each is let go as soon as it is copied."""
    ptr = pointers([len(piece) for piece in pieces])
    out = np.empty(int(ptr[-1]), pieces[0].dtype)
    for i in range(len(pieces)):
        out[ptr[i] : ptr[i + 1]] = pieces[i]
        pieces[i] = pieces[i][:0].copy()
    return ptr, out
