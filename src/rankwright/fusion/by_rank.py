"""Rules that look at places only: Borda, reciprocal rank, median rank, Condorcet.

Each takes a pool, a weight per run and reciprocal rank's ``k``, and returns a score per row: higher
is better.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright.fusion.by_score import sorted_sum
from rankwright.fusion.pool import Pool

__all__ = ["borda", "condorcet", "median_rank", "reciprocal_rank"]

FloatArray = NDArray[np.float64]
BLOCK_CELLS = 1 << 22  # how many pairs of documents are compared at a time


def reciprocal_rank(pool: Pool, weights: FloatArray, k: float) -> FloatArray:
    """Reciprocal rank fusion (Cormack, Clarke and Buettcher 2009): sum of 1 / (k + place)."""
    return sorted_sum(weights / (k + pool.rank))


def borda(pool: Pool, weights: FloatArray, k: float) -> FloatArray:
    """Borda-fuse (Aslam and Montague 2001): c points for the first of c candidates, then c - 1 ...

    Documents a run did not list share the points that are left over.
    """
    candidates = np.diff(pool.ptr)[pool.query][:, None]
    return sorted_sum(weights * (candidates + 1 - pool.full_rank))


def median_rank(pool: Pool, weights: FloatArray, k: float) -> FloatArray:
    """Minus the median place; documents a run did not list share the places left over."""
    median: FloatArray = -np.median(pool.full_rank, axis=1)
    return median


def condorcet(pool: Pool, weights: FloatArray, k: float) -> FloatArray:
    """Majority duels (Copeland): wins minus losses against each other candidate.

    A run votes for the document it lists first, and for a listed one against one it does not
    list; between two that it does not list it abstains. Whoever beats everybody else comes first.
    """
    place = np.where(pool.listed, pool.rank, np.inf).astype(np.float32)
    equal = (weights == weights[0]).all()  # then votes are counted, which is faster and exact
    votes = np.ones(len(weights), np.int16) if equal else weights
    wins = np.zeros(len(pool.query))
    for start, end in zip(pool.ptr[:-1], pool.ptr[1:], strict=True):
        wins[start:end] = _net_wins(place[start:end], votes)
    return wins


def _net_wins(place: NDArray[np.float32], weights: NDArray[Any]) -> NDArray[np.int64]:
    """Duels won minus duels lost by each candidate of one query."""
    n_docs = len(place)
    even = 1e-12 * weights.sum()  # fractional weights may miss a draw by rounding
    block = max(1, BLOCK_CELLS // n_docs)
    won = np.empty(n_docs, np.int64)
    for start in range(0, n_docs, block):
        rows = place[start : start + block]
        votes = np.zeros((len(rows), n_docs), weights.dtype)
        for mine, all_places, weight in zip(rows.T, place.T, weights, strict=True):
            votes += weight * (mine[:, None] < all_places)
            votes -= weight * (mine[:, None] > all_places)
        won[start : start + block] = (votes > even).sum(axis=1) - (votes < -even).sum(axis=1)
    return won
