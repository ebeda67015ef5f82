"""Measures on pairs: Disagreement, Misranked, KendallTau, Spearman, HR, MP, HMP, SVR, MSD, M1D.

With predictions h and grades y, the cost of a pair (HR to M1D) depends on D = h' - h and
Y = y' - y; a list of m items gets the mean over all m² ordered pairs (MPRank, eq 2). A few sorts
are enough: D - Y is a difference of residuals h - y, and a misranked pair has a D and a D - Y of
known sign, so that its cost is a polynomial, summed while wrong pairs are counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import BoolArray, FloatArray, IntArray
from rankwright.data.queries import Queries
from rankwright.exceptions import DataError
from rankwright.metrics.ranked_lists import RankedLists, TieGroups, group_begins, ranked_lists

_FEW_CODES = 8


def count_ascents(codes: NDArray[np.integer]) -> IntArray:
    """The number of ascents of each row; codes must be below 2**30 in size.

    >>> count_ascents(np.array([[3, 2, 1, 0], [0, 1, 1, 2]]))
    array([0, 5])
    """
    if codes.size and codes.max() <= _FEW_CODES:
        return _count_by_code(codes)
    rows, width = _pad(codes, np.int32)
    n_ascents = np.zeros(len(rows), np.int64)
    half = 1
    while half < width:
        merges = rows.reshape(len(rows), -1, 2 * half)
        # Equal codes are not an ascent: the right one (even key) has to come first.
        merges *= 2
        merges[:, :, :half] += 1
        merges.sort(axis=2)
        places = (merges & 1 == 0) @ np.arange(2 * half, dtype=np.float64)  # exact below 2**53
        surplus = places.sum(axis=1) - places.shape[1] * (half * (half - 1) // 2)
        n_ascents += surplus.astype(np.int64)
        merges >>= 1
        half *= 2
    return n_ascents


def sum_over_ascents(
    codes: NDArray[np.integer], products: Sequence[tuple[FloatArray, FloatArray]]
) -> FloatArray:
    """For each pair of arrays (u, v) and each row, the sum of ``u[i] * v[j]`` over the ascents.

    Returns (n_products, n_rows). With u = v = 1 these are the counts:

    >>> codes, one = np.array([[0, 1, 1, 2]]), np.ones((1, 4))
    >>> sum_over_ascents(codes, [(one, one), (np.array([[5.0, 1, 1, 1]]), one)])
    array([[ 5.], [17.]])
    """
    rows, width = _pad(codes, np.int64)
    factors = [_pad(values, np.float64)[0] for pair in products for values in pair]
    sums = np.zeros((len(products), len(rows)))
    half = 1
    while half < width:
        shape = (len(rows), -1, 2 * half)
        keys = rows.reshape(shape) * 2
        keys[:, :, :half] += 1
        order = keys.argsort(axis=2, kind="stable")
        right = order >= half
        rows = np.take_along_axis(keys, order, axis=2).reshape(rows.shape) >> 1
        factors = [np.take_along_axis(f.reshape(shape), order, axis=2) for f in factors]
        for number in range(len(products)):
            below = np.cumsum(np.where(right, 0.0, factors[2 * number]), axis=2)
            below *= np.where(right, factors[2 * number + 1], 0.0)
            sums[number] += below.sum(axis=(1, 2))
        half *= 2
    return sums


def _count_by_code(codes: NDArray[np.integer]) -> IntArray:
    """The same for small codes: for each code, how many smaller ones come before it."""
    n_ascents = np.zeros(len(codes), np.int64)
    for code in range(1, int(codes.max()) + 1):
        here = codes == code
        before = np.cumsum((codes >= 0) & (codes < code), axis=1, dtype=np.int32)
        n_ascents += np.sum(before, axis=1, where=here, dtype=np.int64)
    return n_ascents


def _pad(values: NDArray[Any], dtype: type) -> tuple[NDArray[Any], int]:
    """A copy whose width is a power of two, filled with values that make no ascent (-1)."""
    n_rows, n_columns = values.shape
    width = 1 << max(0, n_columns - 1).bit_length()
    padded = np.full((n_rows, width), -1, dtype=dtype)
    padded[:, :n_columns] = values
    return padded, width


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
    """Mean over queries of the fraction of correctly ordered pairs; a tied score counts 1/2.

    The weight of a pair is the product of its two sample weights. Queries without a pair of
    positive weight (one item, one grade) are left out.

    Returns
    -------
    value : float, 0.0 if no query has a pair
    n_queries : int, the number of queries with a pair

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
        raise DataError(f"y is NaN in row {np.argmax(np.isnan(y))}: every row needs a grade.")
    if sample_weight is not None and len(sample_weight) != len(scores):
        given = f"sample_weight has {len(sample_weight)} entries for {len(scores)} rows"
        raise DataError(f"{given}: one is needed per row.")
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
    """Fraction of pairs in the wrong order; in expectation a tie is wrong half of the time."""
    total, wrong, tied = count_pairs(lists, lists.ties)
    return (wrong + tied / 2) / np.maximum(total, 1), total > 0


def misranked(lists: RankedLists) -> Values:
    """Fraction of pairs not in the right order: a tie is an error whatever the tie rule."""
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
        codes, tied = lists.grade_codes, np.zeros(len(total))
        if ties is not None:
            codes, same = _order_ties(codes, ties)
            tied = _equal_pairs(ties) - _equal_pairs(same)
        return PairCounts(total, count_ascents(codes).astype(float), tied)

    counts: PairCounts = lists.cached(("pairs", ties is None), count)
    return counts


def best_order(lists: RankedLists) -> IntArray:
    """The order of each row by score and, for equal scores, by descending grade."""
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


def _sum_products(weight: FloatArray, stop: IntArray, start: IntArray | None = None) -> FloatArray:
    """Per row, the sum of each weight times the weights at the places ``start .. stop - 1``."""
    before = np.zeros((len(weight), weight.shape[1] + 1))
    np.cumsum(weight, axis=1, out=before[:, 1:])
    between = np.take_along_axis(before, stop, axis=1)
    if start is not None:
        between = between - np.take_along_axis(before, start, axis=1)
    return np.asarray(np.einsum("ij,ij->i", weight, between))


def _order_ties(codes: IntArray, ties: TieGroups) -> tuple[IntArray, TieGroups]:
    """Codes with each tie sorted best first, so that a tie has no ascent; groups of equal code."""
    base = int(codes.max()) + 2
    keys = ties.first * base + (base - 2 - codes)
    keys.sort(axis=1)
    return base - 2 - keys % base, TieGroups.of_sorted(keys)


def _equal_pairs(groups: TieGroups) -> FloatArray:
    """Per row, the number of pairs inside one group: each item meets those before it."""
    before = np.arange(groups.first.shape[1]) - groups.first
    return np.asarray(np.sum(before, axis=1, dtype=np.float64))


def _middle_ranks(lists: RankedLists, ties: TieGroups) -> FloatArray:
    """Ranks minus their mean, tied ranks averaged; 0 in the padding."""
    ranks = ties.first + (ties.size + 1) / 2 - (lists.sizes[:, None] + 1) / 2
    return ranks if lists.inside is None else np.where(lists.inside, ranks, 0.0)


def mean_square_difference(lists: RankedLists) -> Values:
    """MSD, mean of (D - Y)² for predictions: twice the variance of their residuals."""
    return _mean_square(_residuals(lists, lists.predictions), lists), lists.sizes > 1


def mean_1_difference(lists: RankedLists) -> Values:
    """M1D, mean of the distance of D and Y for predictions."""
    return _mean_1(_residuals(lists, lists.predictions), lists), lists.sizes > 1


def magnitude(lists: RankedLists, n: int = 1) -> Values:
    """MP: the distance of D and Y, to the power n."""
    mean = _mean_1 if n == 1 else _mean_square
    return mean(_residuals(lists, lists.scores), lists), lists.sizes > 1


def hinge_rank(lists: RankedLists, n: int = 1) -> Values:
    """HR: the size of D, to the power n, where the pair is misranked, else 0."""
    return _sum_misranked(lists, _centered(lists, lists.scores), n), lists.sizes > 1


def hinge_magnitude(lists: RankedLists, n: int = 1) -> Values:
    """HMP: the distance of D and Y, to the power n, where the pair is misranked, else 0."""
    return _sum_misranked(lists, _residuals(lists, lists.scores), n), lists.sizes > 1


def tube(lists: RankedLists, n: int = 1, eps: float = 0.1) -> Values:
    """SVR: the excess of the distance of D and Y over eps, to the power n."""
    # For each residual t + eps, the residuals below t are a prefix of the sorted row; merging the
    # row with itself shifted by eps finds them all, and running sums of powers add up their costs.
    ordered = _sorted(_residuals(lists, lists.scores), lists)
    both = np.concatenate([ordered - eps, ordered], axis=1)
    order = np.argsort(both, axis=1, kind="stable")
    merged = np.take_along_axis(both, order, axis=1)
    is_bound = (order < lists.width) & np.isfinite(merged)
    value = np.where(np.isfinite(merged), merged, 0.0)
    powers = [np.where(order < lists.width, 0.0, value**d) for d in range(n + 1)]
    below = [np.cumsum(power, axis=1) for power in powers]
    if n == 1:
        costs = value * below[0] - below[1]
    else:
        costs = value**2 * below[0] - 2 * value * below[1] + below[2]
    sums = np.where(is_bound, np.maximum(costs, 0.0), 0.0).sum(axis=1)
    return 2.0 * sums / lists.sizes**2, lists.sizes > 1


def _centered(lists: RankedLists, values: FloatArray) -> FloatArray:
    """Values minus their mean (sums of powers lose fewer digits), 0 in the padding."""
    if lists.inside is not None:
        values = np.where(lists.inside, values, 0.0)
    centered = values - (values.sum(axis=1) / lists.sizes)[:, None]
    return centered if lists.inside is None else np.where(lists.inside, centered, 0.0)


def _residuals(lists: RankedLists, values: FloatArray) -> FloatArray:
    return _centered(lists, values - lists.grades)


def _sorted(residuals: FloatArray, lists: RankedLists) -> FloatArray:
    """Residuals in ascending order, +inf in the padding."""
    if lists.inside is not None:
        residuals = np.where(lists.inside, residuals, np.inf)
    return np.sort(residuals, axis=1)


def _mean_square(residuals: FloatArray, lists: RankedLists) -> FloatArray:
    return np.asarray(2.0 * np.einsum("ij,ij->i", residuals, residuals) / lists.sizes)


def _mean_1(residuals: FloatArray, lists: RankedLists) -> FloatArray:
    """Of m sorted residuals, the i-th is i - 1 times the larger one of a pair, m - i times not."""
    ordered = _sorted(residuals, lists)
    ordered[np.isinf(ordered)] = 0.0
    surplus = 2 * lists.ranks - lists.sizes[:, None] - 1
    return np.asarray(2.0 * np.einsum("ij,ij->i", ordered, surplus) / lists.sizes**2)


def _sum_misranked(lists: RankedLists, values: FloatArray, n: int) -> FloatArray:
    """Mean over all ordered pairs of (value[i] - value[j])^n where i is wrongly placed above j."""
    order = best_order(lists)
    codes = np.take_along_axis(lists.grade_codes, order, axis=1)
    a = np.take_along_axis(values, order, axis=1)
    one = np.ones_like(a)
    if n == 1:
        upper, lower = sum_over_ascents(codes, [(a, one), (one, a)])
        sums = upper - lower
    else:
        upper, cross, lower = sum_over_ascents(codes, [(a * a, one), (a, a), (one, a * a)])
        sums = upper - 2 * cross + lower
    return np.asarray(2.0 * np.maximum(sums, 0.0) / lists.sizes**2)
