"""The formulas of the measures of a list: binary (AP, P, RR, ...), graded (NDCG, ERR), RankLoss.

``rel=1`` calls grades from 1 up relevant, ``rel="max"`` the highest grade of each list. With ties,
every function gives the exact mean over all orders of the tied items, by two facts:

- any rank of a tie of Q items, q of them relevant, holds a relevant one with probability q/Q;
  given that, (l - 1)(q - 1)/(Q - 1) of the l - 1 items before it in the tie are relevant;
- if none of the first l - 1 items of the tie was relevant, the l-th is with probability
  q/(Q - l + 1). Multiplying the complements along a list gives the law of the first relevant rank
  (RankBoost's Appendix A, eq 22, without its binomials).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from math import ceil, log

import numpy as np
from numpy.typing import ArrayLike

from rankwright._typing import BoolArray, FloatArray, IntArray
from rankwright.exceptions import DataError
from rankwright.metrics.ranked_lists import RankedLists, TieGroups

Values = tuple[FloatArray, BoolArray]
Rel = float | str
Function = Callable[[FloatArray], FloatArray]


def precision(
    lists: RankedLists, cutoff: int | None = None, rel: Rel = 1, over: str = "cutoff"
) -> Values:
    """Fraction of relevant items in the first ``cutoff`` (``over="list"``: of a shorter list)."""
    assert cutoff is not None
    n_relevant = _relevant(lists, rel).sum(axis=1)
    n_listed = lists.zero_unretrieved(_expected(lists, rel))[:, :cutoff].sum(axis=1)
    n_ranks = np.minimum(cutoff, lists.sizes) if over == "list" else cutoff
    return n_listed / n_ranks, n_relevant > 0


def recall(lists: RankedLists, cutoff: int | None = None, rel: Rel = 1) -> Values:
    """Fraction of the relevant items that are in the first ``cutoff``."""
    n_relevant = _relevant(lists, rel).sum(axis=1)
    n_listed = lists.zero_unretrieved(_expected(lists, rel))[:, :cutoff].sum(axis=1)
    return _ratio(n_listed, n_relevant), n_relevant > 0


def r_precision(lists: RankedLists, rel: Rel = 1) -> Values:
    """Fraction of relevant items in the first R, where R is the number of relevant items."""
    n_relevant = _relevant(lists, rel).sum(axis=1)
    first = lists.ranks <= n_relevant[:, None]
    n_listed = (lists.zero_unretrieved(_expected(lists, rel)) * first).sum(axis=1)
    return _ratio(n_listed, n_relevant), n_relevant > 0


def binary_preference(lists: RankedLists, rel: Rel = 1) -> Values:
    """1 - the share of judged irrelevant items above a relevant one, of at most R (bpref).

    In a tie with m of the irrelevant items, the number of them above a relevant one is 0 .. m, each
    with the same probability.
    """
    judged = lists.judged
    relevant = _relevant(lists, rel) * judged
    other = (1.0 - _relevant(lists, rel)) * judged
    n_relevant = relevant.sum(axis=1, keepdims=True)
    least = np.minimum(n_relevant, other.sum(axis=1, keepdims=True))
    if lists.ties is None:
        above = np.minimum(np.cumsum(other, axis=1), n_relevant)
    else:
        before, m = np.minimum(_before(other, lists.ties), n_relevant), lists.ties.sum(other)
        t = np.minimum(m, n_relevant - before)
        above = ((t + 1) * (before + t / 2) + (m - t) * n_relevant) / (m + 1)
    preferred = lists.zero_unretrieved(relevant) * (1.0 - _ratio(above, least))
    return _ratio(preferred.sum(axis=1), n_relevant[:, 0]), n_relevant[:, 0] > 0


def judged_share(lists: RankedLists, cutoff: int | None = None) -> Values:
    """Fraction of judged items among the first ``cutoff`` of those retrieved."""
    retrieved = lists.zero_unretrieved(np.where(np.isnan(lists.grades), 0.0, 1.0))[:, :cutoff]
    judged = (lists.expected(lists.judged)[:, :cutoff] * retrieved).sum(axis=1)
    n_retrieved = retrieved.sum(axis=1)
    return _ratio(judged, n_retrieved), n_retrieved > 0


def average_precision(
    lists: RankedLists,
    cutoff: int | None = None,
    rel: Rel = 1,
    over: str = "all",
    steps: str = "item",
) -> Values:
    """Mean over the relevant items of the precision at their rank.

    ``over`` : relevant items in the denominator: "all", or at most "cutoff" of them.
    ``steps="threshold"`` : tied items enter together, as in scikit-learn's curve.
    """
    relevant = _relevant(lists, rel)
    n_relevant = relevant.sum(axis=1)
    if steps == "threshold":
        ties = lists.score_ties  # the precision at the end of the tie
        n_listed = _before(relevant, ties) + ties.sum(relevant)
        per_rank = relevant * n_listed / (ties.first + ties.size)
    elif lists.ties is None:
        per_rank = relevant * (np.cumsum(relevant, axis=1) / lists.ranks)
    else:
        per_rank = _precisions_in_ties(relevant, lists.ranks, lists.ties)
    whole = n_relevant if over == "all" else np.minimum(n_relevant, cutoff or np.inf)
    return _ratio(lists.zero_unretrieved(per_rank)[:, :cutoff].sum(axis=1), whole), n_relevant > 0


def reciprocal_rank(lists: RankedLists, cutoff: int | None = None, rel: Rel = 1) -> Values:
    """1 / rank of the first relevant item."""
    first = lists.zero_unretrieved(_first_relevant(lists, rel))[:, :cutoff]
    return first @ (1.0 / lists.ranks[:cutoff]), _relevant(lists, rel).max(axis=1) > 0


def top(lists: RankedLists, cutoff: int | None = None, rel: Rel = 1) -> Values:
    """Whether a relevant item is in the first ``cutoff`` (the probability, with ties)."""
    first = lists.zero_unretrieved(_first_relevant(lists, rel))[:, :cutoff]
    return first.sum(axis=1), _relevant(lists, rel).max(axis=1) > 0


def coverage(lists: RankedLists, rel: Rel = "max") -> Values:
    """Number of relevant items / rank of the last one: precision at full recall."""
    relevant = _relevant(lists, rel)
    n_relevant = relevant.sum(axis=1)
    chance = relevant
    if lists.ties is not None:
        nth = lists.ranks - lists.ties.first
        chance = np.minimum(lists.ties.sum(relevant) / nth, 1.0)
    last = _first_success(chance[:, ::-1])[:, ::-1]
    return n_relevant * (last @ (1.0 / lists.ranks)), n_relevant > 0


def average_rank(lists: RankedLists, rel: Rel = 1, cap: float = np.inf) -> Values:
    """Mean rank of the relevant items, ranks beyond ``cap`` counting as ``cap``."""
    n_relevant = _relevant(lists, rel).sum(axis=1)
    ranks = _expected(lists, rel) @ np.minimum(lists.ranks, cap)
    return _ratio(ranks, n_relevant), n_relevant > 0


def rank_biased_precision(
    lists: RankedLists, cutoff: int | None = None, rel: Rel = 1, p: float = 0.8
) -> Values:
    """Fraction of relevant items seen by a reader who continues with probability p."""
    weights = (1.0 - p) * p ** (lists.ranks[:cutoff] - 1.0)
    gains = lists.zero_unretrieved(_expected(lists, rel))[:, :cutoff]
    return gains @ weights, _relevant(lists, rel).max(axis=1) > 0


def auc(lists: RankedLists, rel: Rel = 1) -> Values:
    """Fraction of (relevant, other) pairs in the right order; a tie counts 1/2 in expectation."""
    n_relevant = _relevant(lists, rel).sum(axis=1)
    n_pairs = n_relevant * (lists.sizes - n_relevant)
    others_above = _expected(lists, rel) @ lists.ranks - n_relevant * (n_relevant + 1) / 2
    return 1.0 - _ratio(others_above, n_pairs), n_pairs > 0


def _relevant(lists: RankedLists, rel: Rel) -> FloatArray:
    """1.0 at the ranks of relevant items, 0.0 elsewhere."""

    def compare() -> FloatArray:
        if isinstance(rel, str):
            best = np.fmax.reduce(lists.grades, axis=1, keepdims=True)
            return (lists.grades >= best).astype(np.float64)
        return (lists.grades >= rel).astype(np.float64)

    relevant: FloatArray = lists.cached(("relevant", rel), compare)
    return relevant


def _expected(lists: RankedLists, rel: Rel) -> FloatArray:
    """The probability of a relevant item at each rank."""
    share: FloatArray = lists.cached(("share", rel), lambda: lists.expected(_relevant(lists, rel)))
    return share


def _first_relevant(lists: RankedLists, rel: Rel) -> FloatArray:
    """The probability that the first relevant item is at each rank."""

    def law() -> FloatArray:
        chance = _relevant(lists, rel)
        if lists.ties is not None:
            left = lists.ties.size - (lists.ranks - 1 - lists.ties.first)
            chance = np.minimum(lists.ties.sum(chance) / left, 1.0)
        return _first_success(chance)

    first: FloatArray = lists.cached(("first", rel), law)
    return first


def _first_success(chance: FloatArray) -> FloatArray:
    """From the chance at each rank, if none came before, to the law of the first success."""
    none_yet = np.cumprod(1.0 - chance, axis=1)
    first = chance.copy()
    first[:, 1:] *= none_yet[:, :-1]
    return first


def _precisions_in_ties(relevant: FloatArray, rank: FloatArray, ties: TieGroups) -> FloatArray:
    """Expected [relevant] x precision at each rank."""
    q = ties.sum(relevant)
    before = _before(relevant, ties)
    within = (rank - 1 - ties.first) * (q - 1) / np.maximum(ties.size - 1, 1)
    return q / ties.size * (before + 1 + within) / rank


def _before(relevant: FloatArray, ties: TieGroups) -> FloatArray:
    """The number of relevant items before each rank's tie."""
    counts = np.zeros((len(relevant), relevant.shape[1] + 1))
    np.cumsum(relevant, axis=1, out=counts[:, 1:])
    return np.take_along_axis(counts, ties.first, axis=1)


def _ratio(part: FloatArray, whole: FloatArray) -> FloatArray:
    return part / np.where(whole > 0, whole, 1.0)


GAINS: dict[str, Function] = {
    "exp": lambda grades: np.exp2(grades) - 1.0,
    "linear": lambda grades: grades,
}
DISCOUNTS: dict[str, Function] = {
    "log2": lambda rank: 1.0 / np.log2(rank + 1.0),
    "letor3": lambda rank: 1.0 / np.log2(np.maximum(rank, 2.0)),
}


def ndcg(
    lists: RankedLists, cutoff: int | None = None, gain: str = "exp", discount: str = "log2"
) -> Values:
    """Discounted gain of the first ranks over the most that was possible.

    The gain at a rank is, in expectation over random tie-breaking, the mean gain of the tie.
    """
    n_ranks = lists.width if cutoff is None else min(cutoff, lists.width)
    weights = DISCOUNTS[discount](lists.ranks[:n_ranks])
    gained = _gains(lists, gain, n_ranks) @ weights

    def best(grades: FloatArray) -> FloatArray:
        gains = GAINS[gain](-np.sort(-grades, axis=1)[:, :n_ranks])
        return np.asarray(np.where(np.isnan(gains), 0.0, gains) @ weights)

    ideal = lists.of_grades(("ideal", gain, discount, n_ranks), best)
    return gained / np.where(ideal > 0, ideal, 1.0), ideal > 0


def err(lists: RankedLists, cutoff: int | None = None, max: float = 4) -> Values:
    """Expected reciprocal rank of the item at which a reader stops.

    The reader stops at an item with probability (2^grade - 1) / 2^max. The probability of reading
    past the first l items of a tie is the mean, over all subsets of l items, of the product of
    (1 - stop); :func:`subset_means` computes it by dynamic programming.
    """
    read = GAINS["exp"]
    chance = lists.cached(("stop", max), lambda: _filled(read(lists.grades), lists) / 2.0**max)
    stop = lists.zero_unretrieved(chance)
    n_ranks = lists.width if cutoff is None else min(cutoff, lists.width)
    still = lists.cached(("still", max, n_ranks), lambda: _still_reading(lists, stop, n_ranks))
    stopped = still[:, :n_ranks] - still[:, 1 : n_ranks + 1]
    return stopped @ (1.0 / lists.ranks[:n_ranks]), chance.max(axis=1) > 0


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


def _gains(lists: RankedLists, gain: str, n_ranks: int) -> FloatArray:
    """Gains of the first ranks, in expectation."""
    if lists.ties is None and lists.all_retrieved:
        return _filled(GAINS[gain](lists.grades[:, :n_ranks]), lists)
    everywhere: FloatArray = lists.cached(
        ("gains", gain),
        lambda: lists.zero_unretrieved(lists.expected(_filled(GAINS[gain](lists.grades), lists))),
    )
    return everywhere[:, :n_ranks]


def _filled(gains: FloatArray, lists: RankedLists) -> FloatArray:
    """Gains with 0 behind the end of each list."""
    return gains if lists.inside is None else np.where(np.isnan(gains), 0.0, gains)


def _still_reading(lists: RankedLists, stop: FloatArray, n_ranks: int) -> FloatArray:
    """The probability that the reader continues after 0, 1, 2, ... items."""
    still = np.ones((len(stop), lists.width + 1))
    np.cumprod(1.0 - stop, axis=1, out=still[:, 1:])
    if lists.ties is not None:
        _average_ties(still, 1.0 - stop, lists.ties, n_ranks)
    return still


def _average_ties(still: FloatArray, go_on: FloatArray, ties: TieGroups, n_ranks: int) -> None:
    """Replace the chain inside each tie by its mean over all orders."""
    begins = (ties.first == np.arange(go_on.shape[1])) & (ties.size > 1)
    row, first = np.nonzero(begins[:, :n_ranks])  # ties behind the cutoff cannot matter
    size = ties.size[row, first]
    longest = np.argsort(-size, kind="stable")
    row, first, size = row[longest], first[longest], size[longest]
    # Ties of similar size together, so that little memory is padding.
    _, starts = np.unique(-(np.log2(size).astype(np.int64)), return_index=True)
    for some in filter(len, np.split(np.arange(len(size)), starts[1:])):
        rows, begin, sizes = row[some], first[some], size[some]
        step = np.arange(sizes[0])
        rank = np.minimum(begin[:, None] + step, go_on.shape[1] - 1)
        tied = np.where(step < sizes[:, None], go_on[rows[:, None], rank], 0.0)
        means = np.zeros((len(tied), min(int(sizes[0]), n_ranks) + 1))
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


def rank_loss(lists: RankedLists) -> Values:
    """Mean distance between predicted and true grade."""
    distance = np.abs(lists.predictions - lists.grades)
    return np.nansum(distance, axis=1) / np.maximum(lists.sizes, 1), lists.sizes > 0


def running_rank_loss(predictions: ArrayLike, y: ArrayLike) -> FloatArray:
    """Mean rank loss of an online learner up to each round.

    >>> running_rank_loss([1, 3, 2, 2], [2, 3, 2, 5])
    array([1.        , 0.5       , 0.33333333, 1.        ])
    """
    guess, truth = np.asarray(predictions, np.float64), np.asarray(y, np.float64)
    if guess.ndim != 1 or guess.shape != truth.shape:
        shapes = f"predictions have shape {guess.shape} and y {truth.shape}"
        raise DataError(f"{shapes}: one of each is needed per round.")
    return np.cumsum(np.abs(guess - truth)) / np.arange(1, len(guess) + 1)
