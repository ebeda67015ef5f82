"""The values that are there, each told to which bin of its feature it belongs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rankwright.feedback.base import FloatArray, IntArray
from rankwright.rankers.boosting.columns import Columns

__all__ = ["Entries"]


@dataclass(frozen=True)
class Entries:
    """Known values by row, as numbers of bins; bins by feature, values descending.

    Attributes
    ----------
    ptr : (n_rows + 1,) int64, where the entries of each row start
    bin : (n_entries,) uint32, the bin of each entry
    bin_ptr : (n_features + 1,) int64, where the bins of each feature start
    bin_value : (n_bins,) float64, the highest value of each bin
    abstains : (n_features,) bool, whether any row lacks the feature
    """

    ptr: IntArray
    bin: NDArray[np.uint32]
    bin_ptr: IntArray
    bin_value: FloatArray
    abstains: NDArray[np.bool_]

    @classmethod
    def read(cls, columns: Columns) -> Entries:
        """One bin for each value, but where a feature has more values than bins are allowed."""
        from rankwright.rankers.boosting.compact import _kernels

        ptr, feature, value = columns.known()
        order, starts = np.empty(len(value), np.int64), np.zeros(len(value), bool)
        first = np.concatenate([[0], np.cumsum(np.bincount(feature, minlength=columns.n_features))])
        _kernels.sort_entries(feature, value, first, order, starts)
        n_bins = np.add.reduceat(np.append(starts, False), first[:-1], dtype=np.int64)
        n_bins[first[:-1] == first[1:]] = 0
        if columns.max_bins is not None:
            for each in np.flatnonzero(n_bins >= columns.max_bins).tolist():
                lower = slice(first[each] + 1, first[each + 1])
                starts[lower] = columns.read(each).starts[1:]
                n_bins[each] = 1 + starts[lower].sum()
        number = np.empty(len(value), np.uint32)
        number[order] = np.cumsum(starts) - 1
        bin_ptr = np.concatenate([[0], np.cumsum(n_bins)])
        return cls(ptr, number, bin_ptr, value[order[starts]], np.diff(first) < columns.n_rows)
