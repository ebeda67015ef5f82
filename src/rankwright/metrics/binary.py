"""Measures of relevant and other items: AP, P, R, Rprec, bpref, RR, RBP, AUC, Coverage, Top, ...

``rel=1`` calls grades from 1 up relevant, ``rel="max"`` the highest grade of each list. With ties,
every function gives the exact mean over all orders of the tied items, by two facts:

- any place of a tie of Q items, q of them relevant, holds a relevant one with probability q/Q;
  given that, (l - 1)(q - 1)/(Q - 1) of the l - 1 items before it in the tie are relevant;
- if none of the first l - 1 items of the tie was relevant, the l-th is with probability
  q/(Q - l + 1). Multiplying the complements along a list gives the law of the first relevant place
  (RankBoost's Appendix A, eq 22, without its binomials).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import FloatArray
from rankwright.metrics.ranked_lists import RankedLists, TieGroups

Values = tuple[FloatArray, NDArray[np.bool_]]
Rel = float | str


def precision(
    lists: RankedLists, cutoff: int | None = None, rel: Rel = 1, over: str = "cutoff"
) -> Values:
    """Fraction of relevant items in the first ``cutoff`` (``over="list"``: of a shorter list)."""
    assert cutoff is not None
    n_relevant = _relevant(lists, rel).sum(axis=1)
    found = lists.found(_expected(lists, rel))[:, :cutoff].sum(axis=1)
    places = np.minimum(cutoff, lists.sizes) if over == "list" else cutoff
    return found / places, n_relevant > 0


def recall(lists: RankedLists, cutoff: int | None = None, rel: Rel = 1) -> Values:
    """Fraction of the relevant items that are in the first ``cutoff``."""
    n_relevant = _relevant(lists, rel).sum(axis=1)
    found = lists.found(_expected(lists, rel))[:, :cutoff].sum(axis=1)
    return _ratio(found, n_relevant), n_relevant > 0


def r_precision(lists: RankedLists, rel: Rel = 1) -> Values:
    """Fraction of relevant items in the first R, where R is the number of relevant items."""
    n_relevant = _relevant(lists, rel).sum(axis=1)
    first = lists.place <= n_relevant[:, None]
    found = (lists.found(_expected(lists, rel)) * first).sum(axis=1)
    return _ratio(found, n_relevant), n_relevant > 0


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
    preferred = lists.found(relevant) * (1.0 - _ratio(above, least))
    return _ratio(preferred.sum(axis=1), n_relevant[:, 0]), n_relevant[:, 0] > 0


def judged_share(lists: RankedLists, cutoff: int | None = None) -> Values:
    """Fraction of judged items among the first ``cutoff`` of those retrieved."""
    retrieved = lists.found(np.where(np.isnan(lists.grades), 0.0, 1.0))[:, :cutoff]
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
    """Mean over the relevant items of the precision at their place.

    ``over`` : relevant items in the denominator: "all", or at most "cutoff" of them.
    ``steps="threshold"`` : tied items enter together, as in scikit-learn's curve.
    """
    relevant = _relevant(lists, rel)
    n_relevant = relevant.sum(axis=1)
    if steps == "threshold":
        ties = lists.score_ties  # the precision at the end of the tie
        found = _before(relevant, ties) + ties.sum(relevant)
        per_place = relevant * found / (ties.first + ties.size)
    elif lists.ties is None:
        per_place = relevant * (np.cumsum(relevant, axis=1) / lists.place)
    else:
        per_place = _precisions_in_ties(relevant, lists.place, lists.ties)
    whole = n_relevant if over == "all" else np.minimum(n_relevant, cutoff or np.inf)
    return _ratio(lists.found(per_place)[:, :cutoff].sum(axis=1), whole), n_relevant > 0


def reciprocal_rank(lists: RankedLists, cutoff: int | None = None, rel: Rel = 1) -> Values:
    """1 / place of the first relevant item."""
    first = lists.found(_first_relevant(lists, rel))[:, :cutoff]
    return first @ (1.0 / lists.place[:cutoff]), _relevant(lists, rel).max(axis=1) > 0


def top(lists: RankedLists, cutoff: int | None = None, rel: Rel = 1) -> Values:
    """Whether a relevant item is in the first ``cutoff`` (the probability, with ties)."""
    first = lists.found(_first_relevant(lists, rel))[:, :cutoff]
    return first.sum(axis=1), _relevant(lists, rel).max(axis=1) > 0


def coverage(lists: RankedLists, rel: Rel = "max") -> Values:
    """Number of relevant items / place of the last one: precision at full recall."""
    relevant = _relevant(lists, rel)
    n_relevant = relevant.sum(axis=1)
    chance = relevant
    if lists.ties is not None:
        nth = lists.place - lists.ties.first
        chance = np.minimum(lists.ties.sum(relevant) / nth, 1.0)
    last = _first_success(chance[:, ::-1])[:, ::-1]
    return n_relevant * (last @ (1.0 / lists.place)), n_relevant > 0


def average_rank(lists: RankedLists, rel: Rel = 1, cap: float = np.inf) -> Values:
    """Mean place of the relevant items, places beyond ``cap`` counting as ``cap``."""
    n_relevant = _relevant(lists, rel).sum(axis=1)
    places = _expected(lists, rel) @ np.minimum(lists.place, cap)
    return _ratio(places, n_relevant), n_relevant > 0


def rank_biased_precision(
    lists: RankedLists, cutoff: int | None = None, rel: Rel = 1, p: float = 0.8
) -> Values:
    """Fraction of relevant items seen by a reader who continues with probability p."""
    weights = (1.0 - p) * p ** (lists.place[:cutoff] - 1.0)
    found = lists.found(_expected(lists, rel))[:, :cutoff]
    return found @ weights, _relevant(lists, rel).max(axis=1) > 0


def auc(lists: RankedLists, rel: Rel = 1) -> Values:
    """Fraction of (relevant, other) pairs in the right order; a tie counts 1/2 in expectation."""
    n_relevant = _relevant(lists, rel).sum(axis=1)
    n_pairs = n_relevant * (lists.sizes - n_relevant)
    others_above = _expected(lists, rel) @ lists.place - n_relevant * (n_relevant + 1) / 2
    return 1.0 - _ratio(others_above, n_pairs), n_pairs > 0


def _relevant(lists: RankedLists, rel: Rel) -> FloatArray:
    """1.0 at the places of relevant items, 0.0 elsewhere."""

    def compare() -> FloatArray:
        if isinstance(rel, str):
            best = np.fmax.reduce(lists.grades, axis=1, keepdims=True)
            return (lists.grades >= best).astype(np.float64)
        return (lists.grades >= rel).astype(np.float64)

    relevant: FloatArray = lists.keep(("relevant", rel), compare)
    return relevant


def _expected(lists: RankedLists, rel: Rel) -> FloatArray:
    """The probability of a relevant item at each place."""
    share: FloatArray = lists.keep(("share", rel), lambda: lists.expected(_relevant(lists, rel)))
    return share


def _first_relevant(lists: RankedLists, rel: Rel) -> FloatArray:
    """The probability that the first relevant item is at each place."""

    def law() -> FloatArray:
        chance = _relevant(lists, rel)
        if lists.ties is not None:
            left = lists.ties.size - (lists.place - 1 - lists.ties.first)
            chance = np.minimum(lists.ties.sum(chance) / left, 1.0)
        return _first_success(chance)

    first: FloatArray = lists.keep(("first", rel), law)
    return first


def _first_success(chance: FloatArray) -> FloatArray:
    """From the chance at each place, if none came before, to the law of the first success."""
    none_yet = np.cumprod(1.0 - chance, axis=1)
    first = chance.copy()
    first[:, 1:] *= none_yet[:, :-1]
    return first


def _precisions_in_ties(relevant: FloatArray, place: FloatArray, ties: TieGroups) -> FloatArray:
    """Expected [relevant] x precision at each place."""
    q = ties.sum(relevant)
    before = _before(relevant, ties)
    within = (place - 1 - ties.first) * (q - 1) / np.maximum(ties.size - 1, 1)
    return q / ties.size * (before + 1 + within) / place


def _before(relevant: FloatArray, ties: TieGroups) -> FloatArray:
    """The number of relevant items before each place's tie."""
    counts = np.zeros((len(relevant), relevant.shape[1] + 1))
    np.cumsum(relevant, axis=1, out=counts[:, 1:])
    return np.take_along_axis(counts, ties.first, axis=1)


def _ratio(part: FloatArray, whole: FloatArray) -> FloatArray:
    return part / np.where(whole > 0, whole, 1.0)
