"""How well each feature alone orders the graded rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rankwright.runtime.kernels import njit


class NeighborRows(NamedTuple):
    """Graded rows and their weights: arrays of shape (n_items,)."""

    level: Any  # int64, the (query, grade) level of each row, neighbors within a query
    first: Any  # int64, the lowest level of the row's query
    last: Any  # int64, one past its highest
    weight: Any  # float64, the weight of each row
    share: Any  # float64, the weight of a pair of the row's query, over all weight


@njit(cache=True, nogil=True)
def column_losses(columns, graded, mean, candidates, loss, default):
    """The ranking loss of each column, with the best value for the rows that lack it.

    columns     (n_items, n_columns) float64, NaN where the column has no value
    graded      NeighborRows
    mean        (n_columns,) float64, each column's own average
    candidates  (n_candidates,) float64, ascending: values tried where a column has none
    loss        (n_columns,) float64              written
    default     (n_columns,) float64              written
    """
    level, first, last, weight, share = graded
    n_items, n_columns = columns.shape
    n_levels = level.max() + 1
    seen, group, absent = np.zeros(n_levels), np.zeros(n_levels), np.zeros(n_levels)
    upward, downward = np.empty(n_items), np.empty(n_items)
    for c in range(n_columns):
        column = columns[:, c].copy()
        unknown = np.isnan(column)
        known = np.flatnonzero(~unknown)
        n_known = len(known)
        # Most of a column may be missing: only what is there is sorted.
        rows = np.concatenate((known[np.argsort(column[known])], np.flatnonzero(unknown)))
        seen[:], absent[:] = 0.0, 0.0
        total = 0.0
        # Pairs of known values, upwards; rows of equal value form a group and count 1/2.
        start = 0
        while start < n_known:
            stop = start
            while stop < n_known and column[rows[stop]] == column[rows[start]]:
                group[level[rows[stop]]] += weight[rows[stop]]
                stop += 1
            for k in range(start, stop):
                row = rows[k]
                wrong = 0.0
                for other in range(level[row] + 1, last[row]):
                    wrong += seen[other]
                for other in range(first[row], level[row]):
                    wrong += 0.5 * group[other]
                total += wrong * weight[row] * share[row]
            for k in range(start, stop):
                seen[level[rows[k]]] += weight[rows[k]]
                group[level[rows[k]]] = 0.0
            start = stop
        # Pairs of two missing values are ties whatever the default.
        for k in range(n_known, n_items):
            row = rows[k]
            for other in range(first[row], last[row]):
                if other != level[row]:
                    total += 0.5 * absent[other] * weight[row] * share[row]
            absent[level[row]] += weight[row]
        default[c] = mean[c]
        # Pairs of a known and a missing value: what each default costs.
        if n_known < n_items and n_known > 0:
            for k in range(n_known):
                row = rows[k]
                upward[k], downward[k] = 0.0, 0.0
                for other in range(first[row], level[row]):
                    upward[k] += absent[other]
                for other in range(level[row] + 1, last[row]):
                    downward[k] += absent[other]
                upward[k] *= weight[row] * share[row]
                downward[k] *= weight[row] * share[row]
            best, distance = np.inf, np.inf
            for value in candidates:
                cost = 0.0
                for k in range(n_known):
                    known = column[rows[k]]
                    if known < value:
                        cost += upward[k]
                    elif known > value:
                        cost += downward[k]
                    else:
                        cost += 0.5 * (upward[k] + downward[k])
                far = abs(value - mean[c])
                if cost < best - 1e-12 or (cost <= best + 1e-12 and far < distance):
                    best, distance, default[c] = min(cost, best), far, value
            total += best
        loss[c] = total
