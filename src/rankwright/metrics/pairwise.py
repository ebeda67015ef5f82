"""Measures on pairs of items of different grade: Disagreement, Misranked, KendallTau, Spearman.

A pair is *wrong* when the item of lower grade has the higher score, *tied* when both have the same
score. Counting both takes O(n log n) for a list of n items (see :mod:`rankwright.metrics.ascents`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwright.data.queries import Queries
from rankwright.exceptions import DataError
from rankwright.metrics.ascents import count_ascents, sum_over_ascents
from rankwright.metrics.lists import RankedLists, TieGroups, group_begins, ranked_lists

__all__ = [
    "PairCounts",
    "best_order",
    "count_pairs",
    "disagreement",
    "kendall_tau",
    "misranked",
    "pairwise_accuracy",
    "spearman",
]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
Values = tuple[FloatArray, BoolArray]


class PairCounts(NamedTuple):
    """Per query: pairs of different grade in all, those ordered wrongly, those tied in score."""

    total: FloatArray
    wrong: FloatArray
    tied: FloatArray


def pairwise_accuracy(
    scores: NDArray[Any],
    y: NDArray[Any],
    queries: Queries,
    sample_weight: NDArray[Any] | None = None,
) -> tuple[float, int]:
    """Mean over queries of the share of pairs put in the right order; a tied score counts 1/2.

    A pair weighs the product of its two sample weights. Queries whose pairs weigh nothing (one
    item, one grade) are left out.

    Returns
    -------
    value : float
        0.0 when no query has a pair; look at ``n_queries``.
    n_queries : int
        How many queries have a pair.

    Examples
    --------
    >>> queries = Queries.from_ids([1, 1, 1, 2])
    >>> pairwise_accuracy(np.array([3.0, 2, 2, 9]), np.array([1, 0, 2, 0]), queries)
    (0.5, 1)
    """
    if not len(scores) == len(y) == queries.n_items:
        raise DataError(
            f"{len(scores)} scores, {len(y)} grades and {queries.n_items} query ids: "
            "one of each is needed per row."
        )
    if np.isnan(y).any():
        row = int(np.argmax(np.isnan(y)))
        raise DataError(f"y is NaN in row {row}: every row needs a grade.")
    if sample_weight is not None and len(sample_weight) != len(scores):
        raise DataError(
            f"sample_weight has {len(sample_weight)} entries for {len(scores)} rows: "
            "one is needed per row."
        )
    others = {} if sample_weight is None else {"weight": np.asarray(sample_weight)}
    total, n_queries = 0.0, 0
    for lists in ranked_lists(np.asarray(scores), np.asarray(y), queries, others=others):
        counts = count_pairs(lists, lists.ties) if sample_weight is None else _weigh_pairs(lists)
        some = counts.total > 0
        loss = (counts.wrong[some] + counts.tied[some] / 2) / counts.total[some]
        total += float(np.sum(1.0 - loss))
        n_queries += int(np.count_nonzero(some))
    return (total / n_queries if n_queries else 0.0), n_queries


def disagreement(lists: RankedLists) -> Values:
    """Share of pairs in the wrong order; in expectation a tie is wrong half of the time."""
    total, wrong, tied = count_pairs(lists, lists.ties)
    return (wrong + tied / 2) / np.maximum(total, 1), total > 0


def misranked(lists: RankedLists) -> Values:
    """Share of pairs not in the right order: a tie is a miss whatever the tie rule."""
    total, wrong, tied = count_pairs(lists, lists.score_ties)
    return (wrong + tied) / np.maximum(total, 1), total > 0


def kendall_tau(lists: RankedLists) -> Values:
    """Kendall's tau-b between scores and grades; 0 where all scores are equal."""
    total, wrong, tied = count_pairs(lists, lists.score_ties)
    all_pairs = lists.sizes * (lists.sizes - 1.0) / 2
    scored = all_pairs - _equal_pairs(lists.score_ties)
    scale = np.sqrt(total) * np.sqrt(scored)
    return (total - 2 * wrong - tied) / np.where(scale > 0, scale, 1.0), total > 0


def spearman(lists: RankedLists) -> Values:
    """Spearman's rho: correlation of the middle ranks; 0 where all scores are equal."""
    a = _middle_ranks(lists, lists.score_ties)
    order = np.argsort(-lists.grades, axis=1)
    by_grade = np.take_along_axis(lists.grades, order, axis=1)
    b = np.empty_like(a)
    np.put_along_axis(b, order, _middle_ranks(lists, TieGroups.of_sorted(by_grade)), axis=1)
    products = [np.einsum("ij,ij->i", *pair) for pair in ((a, b), (a, a), (b, b))]
    scale = np.sqrt(products[1] * products[2])
    return products[0] / np.where(scale > 0, scale, 1.0), products[2] > 0


def count_pairs(lists: RankedLists, ties: TieGroups | None) -> PairCounts:
    """Count the pairs of every row; ``ties`` are the groups whose pairs count as tied."""

    def count() -> PairCounts:
        by_grade = np.sort(lists.grades, axis=1)
        total = lists.sizes * (lists.sizes - 1.0) / 2 - _equal_pairs(TieGroups.of_sorted(by_grade))
        codes = lists.grade_codes
        if ties is None:
            return PairCounts(total, count_ascents(codes).astype(float), np.zeros(len(total)))
        codes, same = _order_ties(codes, ties)
        tied = _equal_pairs(ties) - _equal_pairs(same)
        return PairCounts(total, count_ascents(codes).astype(float), tied)

    counts: PairCounts = lists.keep(("pairs", ties is None), count)
    return counts


def best_order(lists: RankedLists) -> NDArray[np.int64]:
    """Places that order each row by score and equal scores by falling grade."""
    codes = lists.grade_codes
    keys = lists.score_ties.first * (int(codes.max()) + 2) - codes
    return np.argsort(keys, axis=1, kind="stable")


def _weigh_pairs(lists: RankedLists) -> PairCounts:
    order = best_order(lists)  # moves items inside a tie only, so the groups stay where they are
    ties, codes = lists.score_ties, np.take_along_axis(lists.grade_codes, order, axis=1)
    weight = np.take_along_axis(lists.others["weight"], order, axis=1)
    if lists.inside is not None:
        weight = np.where(lists.inside, weight, 0.0)
    wrong = sum_over_ascents(codes, [(weight, weight)])[0]
    same = TieGroups.of(group_begins(codes) | (ties.first == np.arange(lists.width)))
    tied = _sum_products(weight, same.first, ties.first)
    by_grade = np.argsort(codes, axis=1)
    lower = TieGroups.of_sorted(np.take_along_axis(codes, by_grade, axis=1)).first
    total = _sum_products(np.take_along_axis(weight, by_grade, axis=1), lower)
    return PairCounts(total, wrong, tied)


def _sum_products(
    weight: FloatArray, stop: NDArray[np.int64], start: NDArray[np.int64] | None = None
) -> FloatArray:
    """Per row, the sum of each weight times the weights at the places ``start .. stop - 1``."""
    before = np.zeros((len(weight), weight.shape[1] + 1))
    np.cumsum(weight, axis=1, out=before[:, 1:])
    between = np.take_along_axis(before, stop, axis=1)
    if start is not None:
        between = between - np.take_along_axis(before, start, axis=1)
    sums: FloatArray = np.einsum("ij,ij->i", weight, between)
    return sums


def _order_ties(codes: NDArray[np.int64], ties: TieGroups) -> tuple[NDArray[np.int64], TieGroups]:
    """Codes with each tie sorted best first, so that a tie is no ascent; groups of equal code."""
    base = int(codes.max()) + 2
    keys = ties.first * base + (base - 2 - codes)
    keys.sort(axis=1)
    return base - 2 - keys % base, TieGroups.of_sorted(keys)


def _equal_pairs(groups: TieGroups) -> FloatArray:
    """Per row, the number of pairs inside one group: each item meets those before it."""
    before = np.arange(groups.first.shape[1]) - groups.first
    counts: FloatArray = np.sum(before, axis=1, dtype=np.float64)
    return counts


def _middle_ranks(lists: RankedLists, ties: TieGroups) -> FloatArray:
    """Ranks less their mean, ties sharing the middle of theirs; 0 in the filling."""
    middle = (lists.sizes[:, None] + 1) / 2
    ranks = ties.first + (ties.size + 1) / 2 - middle
    if lists.inside is not None:
        ranks = np.where(lists.inside, ranks, 0.0)
    return ranks
