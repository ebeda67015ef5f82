"""Rules that combine normalised scores: Fox and Shaw's Comb family.

Each takes ``values`` (n_rows, n_runs), NaN where a run gave no score, ``listed`` (which run lists
the document) and a weight per run, and returns a score per row. Sums run over sorted values, so
that the order of the runs does not even change the last bit.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["comb_anz", "comb_max", "comb_med", "comb_min", "comb_mnz", "comb_sum", "sorted_sum"]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


def sorted_sum(values: FloatArray) -> FloatArray:
    """Row sums, NaN adding nothing, whatever the order of the columns.

    >>> sorted_sum(np.array([[0.1, 0.2, 0.3], [0.3, 0.1, np.nan]])).tolist()
    [0.6000000000000001, 0.4]
    """
    total: FloatArray = np.sort(np.where(np.isnan(values), 0.0, values), axis=1).sum(axis=1)
    return total


def comb_sum(values: FloatArray, listed: BoolArray, weights: FloatArray) -> FloatArray:
    """CombSUM: the weighted sum; a run that does not list a document adds nothing."""
    return sorted_sum(values * weights)


def comb_mnz(values: FloatArray, listed: BoolArray, weights: FloatArray) -> FloatArray:
    """CombMNZ: the weighted sum times the number of runs that list the document."""
    total: FloatArray = sorted_sum(values * weights) * listed.sum(axis=1)
    return total


def comb_anz(values: FloatArray, listed: BoolArray, weights: FloatArray) -> FloatArray:
    """CombANZ: the weighted mean over the runs that list the document."""
    total = sorted_sum(np.where(np.isnan(values), 0.0, weights))
    mean = np.zeros(len(values))  # what only runs of weight 0 list scores 0
    return np.divide(sorted_sum(values * weights), total, out=mean, where=total > 0)


def comb_med(values: FloatArray, listed: BoolArray, weights: FloatArray) -> FloatArray:
    """CombMED: the median over the runs that list the document."""
    median: FloatArray = np.nanmedian(values, axis=1)
    return median


def comb_min(values: FloatArray, listed: BoolArray, weights: FloatArray) -> FloatArray:
    """CombMIN: the lowest score that a run gave."""
    lowest: FloatArray = np.fmin.reduce(values, axis=1)
    return lowest


def comb_max(values: FloatArray, listed: BoolArray, weights: FloatArray) -> FloatArray:
    """CombMAX: the highest score that a run gave."""
    highest: FloatArray = np.fmax.reduce(values, axis=1)
    return highest
