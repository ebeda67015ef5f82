"""Leave-pair-out and leave-query-out errors of MPRank, without retraining."""

from __future__ import annotations

import numpy as np
from scipy import linalg

from rankwright.exceptions import DataError, ParameterError
from rankwright.rankers.kernel.centring import centre_gram, factorised, inverse
from rankwright.rankers.kernel.sample import FloatArray, IntArray, Sample
from rankwright.rankers.kernel.smoother import Smoother, Source

__all__ = ["approximate_pairs_out", "average_cost", "pair_mass", "pairs_out", "queries_out"]


def pairs_out(source: Source, factors: FloatArray, average: str = "pairs") -> FloatArray:
    """Eq 17 for each C': the mean cost of a pair under the model trained without it, exactly.

    Of rows and queries with a weight k one copy is left out and k - 1 stay, as they would if the
    copies stood there.
    """
    from rankwright.rankers.kernel._kernels import left_out_pairs

    sample = source.sample
    copy, once = np.sqrt(sample.copy), sample.once
    alone = copy * np.sqrt(once)[sample.codes]
    costs: list[float] = []
    for smoothers in source.smoothers(factors):
        errors = alone * smoothers.errors
        fitted = 1.0 - sample.unit**2 - smoothers.diagonals
        diagonals = 1.0 - sample.copy * (sample.unit**2 + once[sample.codes] * fitted)
        sums = np.zeros((len(errors), sample.n_queries))
        for start, first, values in smoothers.blocks():
            for block, diagonal, error, total in zip(values, diagonals, errors, sums, strict=True):
                left_out_pairs(
                    block, start, first, sample.codes, sample.ptr, sample.row_weight, copy, once,
                    alone * sample.roots, sample.unit, diagonal, error, total,
                )  # fmt: skip
        costs.extend(average_cost(one, sample, average) for one in sums)
    return np.array(costs)


def approximate_pairs_out(K: FloatArray, sample: Sample, factor: float, average: str) -> float:
    """The paper's approximation (mean prediction of h' taken from h); K is overwritten."""
    from rankwright.rankers.kernel._kernels import left_out_pairs_approximately

    if not (sample.row_weight == 1.0).all() or not (sample.query_weight == 1.0).all():
        raise ParameterError(
            "leave_pair_out(exact=False): the paper's approximation is for rows and queries "
            "without weights. Use exact=True."
        )
    rows_of = np.add.reduceat(K, sample.ptr[:-1], axis=0) / sample.sums[:, None]
    whole = inverse(factorised(centre_gram(K, sample), factor))
    y = sample.centred(sample.y)
    alpha = factor * linalg.blas.dsymv(1.0, whole.T, y, lower=0)
    centred = (
        rows_of - (np.add.reduceat(rows_of, sample.ptr[:-1], axis=1) / sample.sums)[:, sample.codes]
    )
    shift = factor * linalg.blas.dsymm(1.0, whole.T, centred.T, lower=0)
    # Inside a query h is known from the dual: h - y centred is -alpha / C'; its mean is k.alpha.
    offset = rows_of @ alpha - sample.means(sample.y)
    residual = offset[sample.codes] - alpha / factor
    sums = np.zeros(sample.n_queries)
    left_out_pairs_approximately(
        whole, 0, 0, sample.codes, sample.ptr, whole.diagonal().copy(),
        shift[np.arange(sample.n_rows), sample.codes], residual, offset, sums,
    )  # fmt: skip
    return average_cost(sums, sample, average)


def queries_out(smoother: Smoother, average: str = "pairs") -> float:
    """The mean cost of a pair under the model trained without the pair's whole query."""
    sample = smoother.sample
    sums = np.zeros(sample.n_queries)
    for q in range(sample.n_queries):
        rows = np.arange(sample.ptr[q], sample.ptr[q + 1])
        sums[q] = _cost_without(smoother, rows)
    return average_cost(sums, sample, average)


def _cost_without(smoother: Smoother, rows: IntArray) -> float:
    sample = smoother.sample
    unit, weight = sample.unit[rows], sample.row_weight[rows]
    one = np.eye(len(rows))
    # R is singular along the unit vector of a whole query: any multiple of it may be added.
    fitted = one - np.outer(unit, unit) - smoother.among(rows)
    R = one - sample.once[sample.codes[rows[0]]] * fitted
    left = linalg.solve(R, smoother.error[rows], assume_a="pos", check_finite=False)
    gaps = left / sample.roots[rows]
    gaps = gaps - (weight @ gaps) / weight.sum()
    return float(weight.sum() * (weight @ gaps**2))


def average_cost(sums: FloatArray, sample: Sample, average: str) -> float:
    """From sums of u_i u_j c over the pairs j < i of each query to one mean."""
    counts = pair_mass(sample)
    if not (counts > 0).any():
        raise DataError(
            "leave-pair-out needs a query with two rows of positive weight: there is none."
        )
    kept = counts > 0
    weight = sample.query_weight[kept]
    if average == "queries":
        return float(weight @ (sums[kept] / counts[kept]) / weight.sum())
    return float(weight @ sums[kept] / (weight @ counts[kept]))


def pair_mass(sample: Sample) -> FloatArray:
    """The number of pairs in each query, copies of one row among themselves included."""
    weight, starts = sample.row_weight, sample.ptr[:-1]
    counts = np.add.reduceat(weight, starts) ** 2
    counts -= np.add.reduceat(weight**2 * sample.copy, starts)
    # Of one row, of weight 1 or less, there is no pair but a rounding error.
    several = (np.diff(sample.ptr) > 1) | (np.maximum.reduceat(weight, starts) > 1)
    return np.where(several, 0.5 * counts, 0.0)
