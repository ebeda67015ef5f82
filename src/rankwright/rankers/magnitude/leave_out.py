"""Errors of MPRank on pairs and queries that are left out, without retraining."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import linalg
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from rankwright._typing import FloatArray, IntArray, RandomState
from rankwright.exceptions import DataError, ParameterError
from rankwright.feedback.base import Grades
from rankwright.rankers.kernels import DrawnLandmarks
from rankwright.rankers.magnitude.base import KernelProblem
from rankwright.rankers.magnitude.sample import WeightedRows
from rankwright.rankers.magnitude.smoothers import (
    GramSource,
    KernelSource,
    PrimalSmoother,
    Smoother,
    Smoothers,
    Spectrum,
    center_gram,
    factorized,
    inverse,
    scale_gram,
)
from rankwright.runtime import map_blocks, n_threads, ranges, single_threaded_blas

FEW = 8  # rows per query below which whole queries are drawn instead of rows
MOST_THREADS = 8  # each has up to 128 MB of blocks of R


def pairs_out(source: KernelSource, factors: FloatArray, average: str = "pairs") -> FloatArray:
    """Eq 17 for each C': the mean cost of a pair under the model trained without it, exactly.

    Of rows and queries with a weight k one copy is left out and k - 1 stay.
    """
    from rankwright.rankers.magnitude._kernels import Copies

    sample = source.sample
    codes, row_root, query_share = sample.codes, np.sqrt(sample.row_share), sample.query_share
    root = row_root * np.sqrt(query_share)[codes]
    copies = (sample.row_weight, row_root, query_share, root * sample.roots, sample.unit)
    rows = Copies(codes, sample.ptr, *copies)
    costs: list[float] = []
    for smoothers in source.smoothers(factors):
        errors = root * smoothers.errors
        fitted = 1.0 - sample.unit**2 - smoothers.diagonals
        diagonals = 1.0 - sample.row_share * (sample.unit**2 + query_share[codes] * fitted)
        sums = _sums_of_pairs(smoothers, sample.n_queries, rows, diagonals, errors)
        costs.extend(average_cost(one, sample, average) for one in sums)
    return np.array(costs)


def _sums_of_pairs(
    smoothers: Smoothers,
    n_queries: int,
    rows: Any,
    diagonals: FloatArray,
    errors: FloatArray,
) -> FloatArray:
    """(n_factors, n_queries) costs of pairs; blocks are added in order, whatever the threads."""
    from rankwright.rankers.magnitude._kernels import left_out_pairs

    codes, height = rows.codes, smoothers.height

    def run(span: tuple[int, int]) -> list[tuple[slice, FloatArray]]:
        low, high = span[0] * height, min(span[1] * height, len(codes))
        sums, parts = np.zeros((len(errors), n_queries)), []
        for start, first, values in smoothers.blocks(low, high):
            for block, diagonal, error, total in zip(values, diagonals, errors, sums, strict=True):
                left_out_pairs(block, start, first, rows, diagonal, error, total)
            queries = slice(codes[start], codes[start + values.shape[1] - 1] + 1)
            parts.append((queries, sums[:, queries].copy()))
            sums[:, queries] = 0.0
        return parts

    threads = min(n_threads(), MOST_THREADS)
    with single_threaded_blas():
        # More spans than threads: later rows of a query have more pairs.
        spans = ranges(-(-len(codes) // height), 8 * threads)
        parts = [part for done in map_blocks(run, spans, threads) for part in done]
    sums = np.zeros((len(errors), n_queries))
    for queries, part in parts:
        sums[:, queries] += part
    return sums


def approximate_pairs_out(
    K: FloatArray, sample: WeightedRows, factor: float, average: str
) -> float:
    """The paper's approximation (mean prediction of h' taken from h); K is overwritten."""
    from rankwright.rankers.magnitude._kernels import left_out_pairs_approximately

    if not (sample.row_weight == 1.0).all() or not (sample.query_weight == 1.0).all():
        raise ParameterError(
            "leave_pair_out(exact=False): the paper's approximation does not support weights of "
            "rows or queries. Use exact=True.",
            parameter="exact",
        )
    codes, starts = sample.codes, sample.ptr[:-1]
    rows_of = np.add.reduceat(K, starts, axis=0) / sample.sums[:, None]
    inverted = inverse(factorized(center_gram(K, sample), factor))
    y = sample.centered(sample.y)
    alpha = factor * linalg.blas.dsymv(1.0, inverted.T, y, lower=0)
    centered = rows_of - (np.add.reduceat(rows_of, starts, axis=1) / sample.sums)[:, codes]
    shift = factor * linalg.blas.dsymm(1.0, inverted.T, centered.T, lower=0)
    # Inside a query h - y centered is -alpha / C'; the mean of h is k.alpha.
    offset = rows_of @ alpha - sample.means(sample.y)
    sums, diagonal = np.zeros(sample.n_queries), inverted.diagonal().copy()
    shift, residual = shift[np.arange(sample.n_rows), codes], offset[codes] - alpha / factor
    arrays = (codes, sample.ptr, diagonal, shift, residual, offset, sums)
    left_out_pairs_approximately(inverted, *arrays)
    return average_cost(sums, sample, average)


def queries_out(smoother: Smoother, average: str = "pairs") -> float:
    """The mean cost of a pair under the model trained without the pair's whole query."""
    sample = smoother.sample
    sums = np.zeros(sample.n_queries)
    for q in range(sample.n_queries):
        rows = np.arange(sample.ptr[q], sample.ptr[q + 1])
        unit, weight = sample.unit[rows], sample.row_weight[rows]
        identity = np.eye(len(rows))
        # R is singular along the unit vector of a whole query: a multiple of it changes nothing.
        fitted = identity - np.outer(unit, unit) - smoother.among(rows)
        R = identity - sample.query_share[q] * fitted
        left = linalg.solve(R, smoother.error[rows], assume_a="pos", check_finite=False)
        gaps = left / sample.roots[rows]
        gaps = gaps - (weight @ gaps) / weight.sum()
        sums[q] = weight.sum() * (weight @ gaps**2)
    return average_cost(sums, sample, average)


def average_cost(sums: FloatArray, sample: WeightedRows, average: str) -> float:
    """The mean cost, from sums of u_i u_j c over the pairs j < i of each query."""
    counts = pair_mass(sample)
    kept = counts > 0
    if not kept.any():
        raise DataError(
            "leave-pair-out needs a query with two rows of positive weight: there is none."
        )
    weight = sample.query_weight[kept]
    if average == "queries":
        return float(weight @ (sums[kept] / counts[kept]) / weight.sum())
    return float(weight @ sums[kept] / (weight @ counts[kept]))


def pair_mass(sample: WeightedRows) -> FloatArray:
    """The number of pairs in each query, including pairs of copies of one row."""
    weight, starts = sample.row_weight, sample.ptr[:-1]
    counts = np.add.reduceat(weight, starts) ** 2
    counts -= np.add.reduceat(weight**2 * sample.row_share, starts)
    # One row of weight 1 or less has no pair, only a rounding error.
    several = (np.diff(sample.ptr) > 1) | (np.maximum.reduceat(weight, starts) > 1)
    return np.where(several, 0.5 * counts, 0.0)


class PairErrorEstimate(NamedTuple):
    """A value and its standard error."""

    value: float
    error: float


def sampled_pairs_out(
    smoother: Smoother, n_rows: int, rng: np.random.Generator, average: str = "pairs"
) -> PairErrorEstimate:
    """The mean cost over all pairs among some rows (few queries) or in some queries (many).

    The error is a jackknife over rows or queries, times the root of the share that was not drawn.
    """
    n_queries = (np.diff(smoother.sample.ptr) > 1).sum()
    draw = _from_queries if n_queries * FEW > n_rows else _from_rows
    return draw(smoother, n_rows, rng, average)


def _from_rows(
    smoother: Smoother, n_rows: int, rng: np.random.Generator, average: str
) -> PairErrorEstimate:
    sample = smoother.sample
    sizes, mass = np.diff(sample.ptr), pair_mass(sample)
    sums, variance = np.zeros(sample.n_queries), np.zeros(sample.n_queries)
    for q in np.flatnonzero(mass > 0):
        n_drawn = max(FEW, round(n_rows * sizes[q] / sizes[mass > 0].sum()))
        drawn = np.sort(rng.permutation(sizes[q])[:n_drawn]) + sample.ptr[q]
        costs, weights = _pairs_among(smoother, drawn)
        # Dropping a row drops its pairs from both sums, each of them twice.
        tops = costs.sum() - 2.0 * costs.sum(axis=1)
        bottoms = weights.sum() - 2.0 * weights.sum(axis=1) + weights.diagonal()
        sums[q] = mass[q] * costs.sum() / weights.sum()
        unseen = 1.0 - len(drawn) / sizes[q]
        variance[q] = unseen * _jackknife(tops, bottoms) if unseen > 0 else 0.0
    share = sample.query_weight * (mass if average == "pairs" else mass > 0)
    share = share / max(share.sum(), np.finfo(float).tiny)
    return PairErrorEstimate(
        average_cost(sums, sample, average), float(np.sqrt(share**2 @ variance))
    )


def _from_queries(
    smoother: Smoother, n_rows: int, rng: np.random.Generator, average: str
) -> PairErrorEstimate:
    sample = smoother.sample
    usable = rng.permutation(np.flatnonzero(np.diff(sample.ptr) > 1))
    filled = np.cumsum(np.diff(sample.ptr)[usable])
    drawn = usable[: max(FEW, int(np.searchsorted(filled, n_rows)) + 1)]
    costs, counts = np.zeros(len(drawn)), np.zeros(len(drawn))
    for index, q in enumerate(drawn):
        pairs = _pairs_among(smoother, np.arange(sample.ptr[q], sample.ptr[q + 1]))
        costs[index], counts[index] = pairs[0].sum(), pairs[1].sum()
    weight = sample.query_weight[drawn]
    if average == "queries":
        costs, counts = weight * costs / counts, weight
    else:
        costs, counts = weight * costs, weight * counts
    unseen = 1.0 - len(drawn) / len(usable)
    spread = _jackknife(costs.sum() - costs, counts.sum() - counts) if unseen > 0 else 0.0
    return PairErrorEstimate(float(costs.sum() / counts.sum()), float(np.sqrt(unseen * spread)))


def _jackknife(tops: FloatArray, bottoms: FloatArray) -> float:
    """The variance of a ratio of sums, from the sums without each unit."""
    ratios, n = tops / bottoms, len(tops)
    return float((n - 1) / n * ((ratios - ratios.mean()) ** 2).sum())


def _pairs_among(smoother: Smoother, rows: IntArray) -> tuple[FloatArray, FloatArray]:
    """u_i u_j c and u_i u_j for all pairs of some rows of a query, as in ``left_out_pairs``."""
    sample = smoother.sample
    query = sample.codes[rows[0]]
    row_root, query_share = np.sqrt(sample.row_share[rows]), sample.query_share[query]
    unit, weight = sample.unit[rows], sample.row_weight[rows]
    identity, along = np.eye(len(rows)), np.outer(unit, unit)
    fitted = identity - along - smoother.among(rows)
    R = identity - np.outer(row_root, row_root) * (along + query_share * fitted)
    copy_root = row_root * np.sqrt(query_share)
    error, root = copy_root * smoother.error[rows], copy_root * sample.roots[rows]
    diagonal = R.diagonal()
    if sample.ptr[query + 1] - sample.ptr[query] == 2 and (row_root == 1.0).all():
        across = np.subtract.outer(error / root, error / root)
        form = diagonal[0] / root[0] ** 2 - 2.0 * R[0, 1] / root.prod() + diagonal[1] / root[1] ** 2
        gaps = across * (1.0 / root**2).sum() / form
    else:
        det = np.outer(diagonal, diagonal) - R * R
        np.fill_diagonal(det, 1.0)
        left = (np.outer(error, diagonal) - R * error) / root[:, None]
        gaps = (left - left.T) / det
    weights = np.outer(weight, weight)
    costs = weights * gaps**2
    np.fill_diagonal(weights, weight**2 * (1.0 - row_root**2))
    return costs, weights


class Training(NamedTuple):
    """What the last fit of a model has seen."""

    problem: KernelProblem
    grades: Grades
    landmarks: DrawnLandmarks | None = None

    @property
    def features(self) -> Any:
        """Features whose products are the kernel, no more than there are rows; else None."""
        if self.landmarks is None and self.problem.is_narrow:
            return self.problem.rows
        return self.landmarks


class LeaveOut:
    """Errors on rows left out, which the squared loss gives without retraining.

    The model needs the rows of the last ``fit`` for this; copies, pickles and model files do not
    contain them. A row or query of weight k counts as k copies, of which one is left out.
    """

    C: float
    _training: Training | None = None

    def leave_pair_out(
        self, *, exact: bool = True, refit: bool = False, average: str = "pairs"
    ) -> float:
        """Compute the mean cost of a pair under the model trained without its two rows (eq 17).

        Takes O(m^3) and 8 m^2 bytes with a kernel; with d <= m features of a linear kernel (or as
        many landmarks) O(m^2 d) and 8 m d bytes.

        Parameters
        ----------
        exact : the closed form that equals retraining (default); False is the paper's
            approximation: the mean prediction of the model without the pair from the model with it
        refit : whether to keep C constant instead of C' = 2C/m: training on m - 2 rows with the
            same C
        average : "pairs" (default) or "queries", which get equal weight
        """
        problem = self._trained("leave_pair_out", average).problem
        factor = self._factor("leave_pair_out", problem.sample, refit)
        if exact:
            return float(pairs_out(self._source(), np.array([factor]), average)[0])
        return approximate_pairs_out(problem.matrix(), problem.sample, factor, average)

    def estimate_leave_pair_out(
        self,
        n_rows: int = 300,
        *,
        refit: bool = False,
        average: str = "pairs",
        random_state: RandomState = None,
    ) -> PairErrorEstimate:
        """Estimate ``leave_pair_out`` from a sample of rows (or whole queries), with a standard
        error.

        Costs one linear system per sampled row instead of an inverse; for the linear kernel one
        more pass over the rows.
        """
        training = self._trained("estimate_leave_pair_out", average)
        sample = training.problem.sample
        if n_rows < 16:
            raise ParameterError(
                f"estimate_leave_pair_out(n_rows={n_rows!r}): n_rows must be an integer >= 16.",
                parameter="n_rows",
            )
        factor = self._factor("estimate_leave_pair_out", sample, refit)
        seed = int(check_random_state(random_state).randint(2**31 - 1))
        X = training.features
        smoother = (
            self._source().smoother(factor) if X is None else PrimalSmoother(sample, X, factor)
        )
        return sampled_pairs_out(smoother, n_rows, np.random.default_rng(seed), average)

    def leave_query_out(self, *, refit: bool = False, average: str = "queries") -> float:
        """The mean cost of a pair under the model trained without its whole query.

        Parameters
        ----------
        refit : whether to keep C constant instead of C'; queries must then have equal mass
        average : "queries" (default) or "pairs", which get equal weight
        """
        sample = self._trained("leave_query_out", average).problem.sample
        if sample.n_queries < 2:
            raise ParameterError("leave_query_out needs two queries; this model was fitted to one.")
        factor = self._factor("leave_query_out", sample, refit, of_queries=True)
        return queries_out(self._source().smoother(factor, whole=True), average)

    def _trained(self, method: str, average: str) -> Training:
        check_is_fitted(self)
        if self._training is None:
            raise ParameterError(
                f"{type(self).__name__}.{method} needs the graded rows of a fit with "
                "loss='squared'; partial_fit, Pairs, copies and model files do not keep them. "
                "Call fit(X, y) again."
            )
        if average not in ("pairs", "queries"):
            raise ParameterError(
                f"average={average!r}: it must be 'pairs' or 'queries'.", parameter="average"
            )
        return self._training

    def _factor(
        self, method: str, sample: WeightedRows, refit: bool, *, of_queries: bool = False
    ) -> float:
        """C' of the models without a pair or, ``of_queries``, without a query."""
        needed, left_out = "queries of equal size and weight", sample.sums * sample.query_share
        if not of_queries:
            needed = "at least three rows, of equal or integer weights"
            left_out = 2.0 * sample.mass * sample.row_share * sample.query_share[sample.codes]
        rest = sample.total - float(left_out[0])
        if refit and not (rest > 0 and np.allclose(left_out, left_out[0], rtol=1e-12)):
            raise ParameterError(
                f"{method}(refit=True) needs {needed}: otherwise each model would have its own C'. "
                "Use refit=False, which keeps C' constant.",
                parameter="refit",
            )
        return 2.0 * self.C / (rest if refit else sample.total)

    def _source(self) -> KernelSource:
        """R of the training rows: from features if they are few, else from the Gram matrix."""
        assert self._training is not None
        problem, sample = self._training.problem, self._training.problem.sample
        if self._training.features is not None:
            return Spectrum.of_rows(self._training.features, sample)
        K = center_gram(scale_gram(problem.matrix(), sample), sample)
        return GramSource(sample, K, keep=False)

    def __getstate__(self) -> dict[str, Any]:
        state: Any = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_training"}
