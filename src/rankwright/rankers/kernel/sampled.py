"""An estimate of the leave-pair-out error from a few hundred rows, with its own error."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rankwright.rankers.kernel.leave_pair_out import average_cost, pair_mass
from rankwright.rankers.kernel.sample import FloatArray, IntArray
from rankwright.rankers.kernel.smoother import Smoother

__all__ = ["Estimate", "sampled_pairs_out"]

FEW = 8  # rows per query below which drawing whole queries says more than drawing rows


class Estimate(NamedTuple):
    """A value and its standard error."""

    value: float
    error: float


def sampled_pairs_out(
    smoother: Smoother, n_rows: int, rng: np.random.Generator, average: str = "pairs"
) -> Estimate:
    """The mean cost over all pairs among some rows (few queries) or in some queries (many).

    The standard error comes from leaving out one row, or one query, at a time (jackknife), times
    the share of rows or queries that were not drawn: with all of them drawn the value is exact.
    """
    sizes = np.diff(smoother.sample.ptr)
    if (sizes > 1).sum() * FEW > n_rows:
        return _from_queries(smoother, n_rows, rng, average)
    return _from_rows(smoother, n_rows, rng, average)


def _from_rows(smoother: Smoother, n_rows: int, rng: np.random.Generator, average: str) -> Estimate:
    sample = smoother.sample
    sizes, whole = np.diff(sample.ptr), pair_mass(sample)
    sums, variance = np.zeros(sample.n_queries), np.zeros(sample.n_queries)
    for q in np.flatnonzero(whole > 0):
        wanted = max(FEW, round(n_rows * sizes[q] / sizes[whole > 0].sum()))
        drawn = np.sort(rng.permutation(sizes[q])[:wanted]) + sample.ptr[q]
        costs, weights = _among(smoother, drawn)
        # Dropping a row drops its pairs from both sums, each pair standing there twice.
        tops = costs.sum() - 2.0 * costs.sum(axis=1)
        bottoms = weights.sum() - 2.0 * weights.sum(axis=1) + weights.diagonal()
        sums[q] = whole[q] * costs.sum() / weights.sum()
        unseen = 1.0 - len(drawn) / sizes[q]
        variance[q] = unseen * _jackknife(tops, bottoms) if unseen > 0 else 0.0
    share = sample.query_weight * (whole if average == "pairs" else whole > 0)
    share = share / max(share.sum(), np.finfo(float).tiny)
    error = float(np.sqrt(share**2 @ variance))
    return Estimate(average_cost(sums, sample, average), error)


def _from_queries(
    smoother: Smoother, n_rows: int, rng: np.random.Generator, average: str
) -> Estimate:
    sample = smoother.sample
    usable = rng.permutation(np.flatnonzero(np.diff(sample.ptr) > 1))
    filled = np.cumsum(np.diff(sample.ptr)[usable])
    drawn = usable[: max(FEW, int(np.searchsorted(filled, n_rows)) + 1)]
    costs, counts = np.zeros(len(drawn)), np.zeros(len(drawn))
    for place, q in enumerate(drawn):
        among = _among(smoother, np.arange(sample.ptr[q], sample.ptr[q + 1]))
        costs[place], counts[place] = among[0].sum(), among[1].sum()
    weight = sample.query_weight[drawn]
    if average == "queries":
        costs, counts = weight * costs / counts, weight
    else:
        costs, counts = weight * costs, weight * counts
    unseen = 1.0 - len(drawn) / len(usable)
    spread = _jackknife(costs.sum() - costs, counts.sum() - counts) if unseen > 0 else 0.0
    return Estimate(float(costs.sum() / counts.sum()), float(np.sqrt(unseen * spread)))


def _jackknife(tops: FloatArray, bottoms: FloatArray) -> float:
    """The variance of a ratio of sums, from the sums without each unit."""
    ratios = tops / bottoms
    n = len(ratios)
    return float((n - 1) / n * ((ratios - ratios.mean()) ** 2).sum())


def _among(smoother: Smoother, rows: IntArray) -> tuple[FloatArray, FloatArray]:
    """u_i u_j c and u_i u_j for every pair of these rows of one query, had it been left out.

    As in pairs_out and its kernel, from R as a whole.
    """
    sample = smoother.sample
    query = sample.codes[rows[0]]
    copy, once = np.sqrt(sample.copy[rows]), sample.once[query]
    unit, weight = sample.unit[rows], sample.row_weight[rows]
    one, along = np.eye(len(rows)), np.outer(unit, unit)
    fitted = one - along - smoother.among(rows)
    R = one - np.outer(copy, copy) * (along + once * fitted)
    alone = copy * np.sqrt(once)
    error, root = alone * smoother.error[rows], alone * sample.roots[rows]
    own = R.diagonal()
    if sample.ptr[query + 1] - sample.ptr[query] == 2 and (copy == 1.0).all():
        across = np.subtract.outer(error / root, error / root)
        form = own[0] / root[0] ** 2 - 2.0 * R[0, 1] / root.prod() + own[1] / root[1] ** 2
        gaps = across * (1.0 / root**2).sum() / form
    else:
        det = np.outer(own, own) - R * R
        np.fill_diagonal(det, 1.0)
        left = (np.outer(error, own) - R * error) / root[:, None]
        gaps = (left - left.T) / det
    weights = np.outer(weight, weight)
    costs = weights * gaps**2
    np.fill_diagonal(weights, weight**2 * (1.0 - copy**2))
    return costs, weights
