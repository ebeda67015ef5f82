"""Measures that read grades: NDCG and ERR."""

from __future__ import annotations

import sys
from collections.abc import Callable
from math import ceil, log

import numpy as np

from rankwright._typing import BoolArray, FloatArray, IntArray
from rankwright.metrics.ranked_lists import RankedLists, TieGroups

Values = tuple[FloatArray, BoolArray]
Function = Callable[[FloatArray], FloatArray]

GAINS: dict[str, Function] = {
    "exp": lambda grades: np.exp2(grades) - 1.0,
    "linear": lambda grades: grades,
}
DISCOUNTS: dict[str, Function] = {
    "log2": lambda place: 1.0 / np.log2(place + 1.0),
    "letor3": lambda place: 1.0 / np.log2(np.maximum(place, 2.0)),
}


def ndcg(
    lists: RankedLists, cutoff: int | None = None, gain: str = "exp", discount: str = "log2"
) -> Values:
    """Discounted gain of the first places over the most that was possible.

    The gain at a place is, in expectation over random tie-breaking, the mean gain of the tie.
    """
    n_places = lists.width if cutoff is None else min(cutoff, lists.width)
    weights = DISCOUNTS[discount](lists.place[:n_places])
    found = _gains(lists, gain, n_places) @ weights
    best_first = lists.keep("best first", lambda: -np.sort(-lists.grades, axis=1))
    ideal = _filled(GAINS[gain](best_first[:, :n_places]), lists) @ weights
    return found / np.where(ideal > 0, ideal, 1.0), ideal > 0


def err(lists: RankedLists, cutoff: int | None = None, max: float = 4) -> Values:
    """Expected reciprocal rank of the item at which a reader stops.

    The reader stops at an item with probability (2^grade - 1) / 2^max. The probability of reading
    past the first l items of a tie is the mean, over all subsets of l items, of the product of
    (1 - stop); :func:`subset_means` computes it by dynamic programming.
    """
    read = GAINS["exp"]
    chance = lists.keep(("stop", max), lambda: _filled(read(lists.grades), lists) / 2.0**max)
    stop = lists.found(chance)
    n_places = lists.width if cutoff is None else min(cutoff, lists.width)
    still = lists.keep(("still", max, n_places), lambda: _still_reading(lists, stop, n_places))
    stopped = still[:, :n_places] - still[:, 1 : n_places + 1]
    return stopped @ (1.0 / lists.place[:n_places]), chance.max(axis=1) > 0


def subset_means(values: FloatArray, sizes: IntArray, n_means: int) -> FloatArray:
    """Mean product of the subsets of l values of a row, for l = 0 .. n_means.

    Row r holds ``sizes[r]`` values; rows must be sorted from the longest to the shortest. Adding
    the n-th value v turns the means m_l into (1 - l/n) m_l + (l/n) v m_{l-1}: numbers between 0
    and 1 stay there, so nothing cancels. O(size × n_means) per row.

    >>> subset_means(np.array([[0.5, 0.25, 1.0]]), np.array([3]), 3).round(4)
    array([[1.    , 0.5833, 0.2917, 0.125 ]])
    """
    means = np.zeros((len(values), n_means + 1))
    means[:, 0] = 1.0
    for n in range(1, values.shape[1] + 1):
        rows = int(np.searchsorted(-sizes, -n, side="right"))  # those that have an n-th value
        last = min(n, n_means)
        share = np.arange(1, last + 1) / n
        taken = share * values[:rows, n - 1 : n] * means[:rows, :last]
        means[:rows, 1 : last + 1] *= 1.0 - share
        means[:rows, 1 : last + 1] += taken
    return means


def _gains(lists: RankedLists, gain: str, n_places: int) -> FloatArray:
    """Gains of the first places, in expectation."""
    if lists.ties is None and lists.all_found:
        return _filled(GAINS[gain](lists.grades[:, :n_places]), lists)
    everywhere: FloatArray = lists.keep(
        ("gains", gain),
        lambda: lists.found(lists.expected(_filled(GAINS[gain](lists.grades), lists))),
    )
    return everywhere[:, :n_places]


def _filled(gains: FloatArray, lists: RankedLists) -> FloatArray:
    """Gains with 0 behind the end of each list."""
    return gains if lists.inside is None else np.where(np.isnan(gains), 0.0, gains)


def _still_reading(lists: RankedLists, stop: FloatArray, n_places: int) -> FloatArray:
    """The probability that the reader continues after 0, 1, 2, ... items."""
    still = np.ones((len(stop), lists.width + 1))
    np.cumprod(1.0 - stop, axis=1, out=still[:, 1:])
    if lists.ties is not None:
        _average_ties(still, 1.0 - stop, lists.ties, n_places)
    return still


def _average_ties(still: FloatArray, go_on: FloatArray, ties: TieGroups, n_places: int) -> None:
    """Replace the chain inside each tie by its mean over all orders."""
    begins = (ties.first == np.arange(go_on.shape[1])) & (ties.size > 1)
    row, first = np.nonzero(begins[:, :n_places])  # ties behind the cutoff cannot matter
    size = ties.size[row, first]
    longest = np.argsort(-size, kind="stable")
    row, first, size = row[longest], first[longest], size[longest]
    # Ties of similar size together, so that little memory is padding.
    _, starts = np.unique(-(np.log2(size).astype(np.int64)), return_index=True)
    for some in filter(len, np.split(np.arange(len(size)), starts[1:])):
        rows, begin, sizes = row[some], first[some], size[some]
        step = np.arange(sizes[0])
        place = np.minimum(begin[:, None] + step, go_on.shape[1] - 1)
        tied = np.where(step < sizes[:, None], go_on[rows[:, None], place], 0.0)
        means = np.zeros((len(tied), min(int(sizes[0]), n_places) + 1))
        n_means = min(means.shape[1] - 1, _n_means(tied.sum(axis=1) / sizes))
        means[:, : n_means + 1] = subset_means(tied, sizes, n_means)
        # Behind the whole tie (step = size) the plain product is right already.
        group, at = np.nonzero(np.arange(1, means.shape[1]) < sizes[:, None])
        after = begin[group] + at + 1
        still[rows[group], after] = still[rows, begin][group] * means[group, at + 1]


def _n_means(mean: FloatArray) -> int:
    """From which l on a mean product of l values, at most mean**l (Maclaurin), is below 1e-18."""
    largest = float(mean.max())
    if largest <= 0.0:
        return 1
    return sys.maxsize if largest >= 1.0 else ceil(log(1e-18) / log(largest))
