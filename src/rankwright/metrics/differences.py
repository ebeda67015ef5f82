"""Measures on how far apart two items are: MSD, M1D and the pair costs HR, MP, HMP, SVR.

With predictions h and grades y, the cost of a pair depends on D = h' - h and Y = y' - y. A list of
m items gets the mean cost of all m² ordered pairs (MPRank, eq 2). Nothing here costs more than a
few sorts: D - Y is a difference of residuals h - y, and a misranked pair has a D and a D - Y of
known sign, so that its cost is a polynomial, summed while wrong pairs are counted.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rankwright.metrics.ascents import sum_over_ascents
from rankwright.metrics.lists import RankedLists
from rankwright.metrics.pairwise import best_order

__all__ = [
    "hinge_magnitude",
    "hinge_rank",
    "magnitude",
    "mean_1_difference",
    "mean_square_difference",
    "tube",
]

FloatArray = NDArray[np.float64]
Values = tuple[FloatArray, NDArray[np.bool_]]


def mean_square_difference(lists: RankedLists) -> Values:
    """MSD, mean of (D - Y)² for predictions: twice the variance of their residuals."""
    return _mean_square(_residuals(lists, "predictions"), lists), lists.sizes > 1


def mean_1_difference(lists: RankedLists) -> Values:
    """M1D, mean of the distance of D and Y for predictions."""
    return _mean_1(_residuals(lists, "predictions"), lists), lists.sizes > 1


def magnitude(lists: RankedLists, n: int = 1) -> Values:
    """MP: the distance of D and Y, to the power n."""
    mean = _mean_1 if n == 1 else _mean_square
    return mean(_residuals(lists, "scores"), lists), lists.sizes > 1


def hinge_rank(lists: RankedLists, n: int = 1) -> Values:
    """HR: the size of D, to the power n, where the pair is misranked, else 0."""
    return _sum_misranked(lists, _centred(lists, lists.scores), n), lists.sizes > 1


def hinge_magnitude(lists: RankedLists, n: int = 1) -> Values:
    """HMP: the distance of D and Y, to the power n, where the pair is misranked, else 0."""
    return _sum_misranked(lists, _residuals(lists, "scores"), n), lists.sizes > 1


def tube(lists: RankedLists, n: int = 1, eps: float = 0.1) -> Values:
    """SVR: what the distance of D and Y exceeds eps by, to the power n.

    For each residual t + eps, the residuals below t are a prefix of the sorted row; merging the row
    with itself shifted by eps finds them all, and running sums of powers add up their costs.
    """
    ordered = _sorted(_residuals(lists, "scores"), lists)
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


def _centred(lists: RankedLists, values: FloatArray) -> FloatArray:
    """Values less their mean (differences stay, sums of powers lose less), 0 in the filling."""
    if lists.inside is not None:
        values = np.where(lists.inside, values, 0.0)
    centred = values - (values.sum(axis=1) / lists.sizes)[:, None]
    return centred if lists.inside is None else np.where(lists.inside, centred, 0.0)


def _residuals(lists: RankedLists, of: str) -> FloatArray:
    values = lists.scores if of == "scores" else lists.predictions
    return _centred(lists, values - lists.grades)


def _sorted(residuals: FloatArray, lists: RankedLists) -> FloatArray:
    """Residuals from small to large, +inf in the filling."""
    if lists.inside is not None:
        residuals = np.where(lists.inside, residuals, np.inf)
    return np.sort(residuals, axis=1)


def _mean_square(residuals: FloatArray, lists: RankedLists) -> FloatArray:
    squares: FloatArray = np.einsum("ij,ij->i", residuals, residuals)
    return 2.0 * squares / lists.sizes


def _mean_1(residuals: FloatArray, lists: RankedLists) -> FloatArray:
    """Of m sorted residuals, the i-th is i - 1 times the larger one of a pair, m - i times not."""
    ordered = _sorted(residuals, lists)
    ordered[np.isinf(ordered)] = 0.0
    surplus = 2 * lists.place - lists.sizes[:, None] - 1
    sums: FloatArray = np.einsum("ij,ij->i", ordered, surplus)
    return 2.0 * sums / lists.sizes**2


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
    costs: FloatArray = np.maximum(sums, 0.0)
    return 2.0 * costs / lists.sizes**2
