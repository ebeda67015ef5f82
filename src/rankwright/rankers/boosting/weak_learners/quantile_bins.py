"""Features of trees in bins: edges and categories learned from the training rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import BoolArray, FloatArray, IntArray
from rankwright.parallel import Team, ranges


class BinnedRows(NamedTuple):
    """Rows as codes of bins, four features to a word; code 255 is a missing value."""

    codes: NDArray[np.uint32]  # (n_blocks, n_rows)
    n_bins: IntArray  # (n_features,) without the one of missing values
    categorical: BoolArray  # (n_features,)
    n_categories: IntArray  # (n_features,) codes below this one are categories that may go up
    monotone: NDArray[np.int8]  # (n_features,) +1, -1 or 0: the direction that a feature must keep


@dataclass(frozen=True)
class QuantileBins:
    """What the bins of each feature are.

    Attributes
    ----------
    edges : list of (n_bins - 1,) float64, ascending
        A value is in the bin whose number is the count of edges below it. Of a categorical feature:
        the values of its categories; the bin after them holds all other values.
    categorical : (n_features,) bool
    """

    edges: list[FloatArray]
    categorical: BoolArray

    @classmethod
    def learn(
        cls,
        X: Any,
        rows: IntArray,
        count: IntArray,
        max_bins: int,
        categorical: BoolArray,
        pool: Team,
    ) -> Self:
        """Bins of about as many rows each, with edges halfway between two values.

        count : (n_rows,) how many rows each of the rows counts as
        """
        X = X.tocsc() if hasattr(X, "tocsc") else X
        edges: list[FloatArray] = [np.zeros(0)] * X.shape[1]
        whole = len(rows) == X.shape[0] and bool((np.diff(rows) > 0).all())
        ones = bool((count == 1).all())

        def learn(bounds: tuple[int, int]) -> None:
            for feature in range(*bounds):
                values = column(X, feature)
                values = values if whole else values[rows]
                find = find_categories if categorical[feature] else find_edges
                edges[feature] = find(*distinct_values(values, None if ones else count), max_bins)

        pool.map(learn, ranges(X.shape[1], 4 * pool.threads))
        return cls(edges, categorical)

    def encode(self, X: Any, rows: IntArray | None, pool: Team) -> NDArray[np.uint32]:
        """The codes of rows of X (all of them without ``rows``), four features to a word."""
        from rankwright.rankers.boosting._kernels.tree import write_codes

        X = X.tocsc() if hasattr(X, "tocsc") else X
        n_blocks, n = -(-len(self.edges) // 4), X.shape[0] if rows is None else len(rows)
        codes = np.zeros((n_blocks, n), np.uint32)

        def encode(bounds: tuple[int, int]) -> None:
            for feature in range(4 * bounds[0], min(4 * bounds[1], len(self.edges))):
                values, known = column(X, feature), self.edges[feature]
                values = values if rows is None else values[rows]
                if self.categorical[feature]:
                    values = _category_codes(values, known)
                    known = np.arange(len(known), dtype=np.float64)
                write_codes(values, known, 8 * (feature % 4), codes[feature // 4])

        pool.map(encode, ranges(n_blocks, 2 * pool.threads))
        return codes

    def binned(self, X: Any, rows: IntArray, monotone: Any, pool: Team) -> BinnedRows:
        sizes = np.array([len(edges) for edges in self.edges], np.int64)
        return BinnedRows(
            self.encode(X, rows, pool),
            sizes + 1,
            self.categorical,
            np.where(self.categorical, sizes, 0),
            np.asarray(monotone, np.int8),
        )

    def name_split(self, feature: int, cut: int, up: Any) -> tuple[float, FloatArray]:
        """The value that rows with a code above the cut exceed, and the categories that go up."""
        edges = self.edges[feature]
        if self.categorical[feature]:
            return 0.0, edges[up[: len(edges)] == 1]
        return (-np.inf if cut < 0 else float(edges[cut])), np.zeros(0)


def column(X: Any, feature: int) -> FloatArray:
    """One column of an array or a CSC matrix, where what is not stored is zero."""
    if isinstance(X, np.ndarray):
        return np.ascontiguousarray(X[:, feature])
    values = np.zeros(X.shape[0])
    entries = slice(*X.indptr[feature : feature + 2])
    values[X.indices[entries]] = X.data[entries]
    return values


def distinct_values(values: FloatArray, count: IntArray | None) -> tuple[FloatArray, FloatArray]:
    """The values that are not missing, in ascending order, and how many rows have each."""
    known = ~np.isnan(values)
    if count is None:
        ordered = np.sort(values if known.all() else values[known])
        new = np.flatnonzero(np.concatenate([[True], ordered[1:] > ordered[:-1]]))
        distinct = ordered[new] if len(ordered) else ordered
        return distinct, np.diff(np.append(new, len(ordered))).astype(np.float64)
    distinct, place = np.unique(values[known], return_inverse=True)
    return distinct, np.bincount(place, count[known], len(distinct)).astype(np.float64)


def find_edges(distinct: FloatArray, mass: FloatArray, max_bins: int) -> FloatArray:
    """The edges of bins of about as many rows each."""
    from rankwright.rankers.boosting._kernels.cuts import find_bins

    if len(distinct) < 2:
        return np.zeros(0)
    starts = np.zeros(len(distinct), bool)
    find_bins(mass, max_bins, starts)
    upper = np.flatnonzero(starts)
    low, high = distinct[upper - 1], distinct[upper]
    middle = low / 2 + high / 2  # halves, because a sum of two finite numbers may be infinite
    return np.where((middle >= low) & (middle < high), middle, low)


def find_categories(distinct: FloatArray, mass: FloatArray, max_bins: int) -> FloatArray:
    """The most frequent categories, in ascending order of value."""
    frequent = np.argsort(-mass, kind="stable")[: max_bins - 1]
    return np.asarray(distinct[np.sort(frequent)]) + 0.0  # there is one zero


def _category_codes(values: FloatArray, known: FloatArray) -> FloatArray:
    """The number of each value's category as a float; unknown: their number, missing: NaN."""
    index = np.searchsorted(known, values)
    hit = (
        known[np.minimum(index, len(known) - 1)] == values
        if len(known)
        else np.zeros(len(values), bool)
    )
    return np.where(np.isnan(values), np.nan, np.where(hit, index, len(known)).astype(np.float64))
