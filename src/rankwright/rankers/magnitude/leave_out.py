"""The leave-out errors of a fitted MPRank, as methods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from scipy import linalg
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from rankwright._typing import FloatArray, IntArray
from rankwright.exceptions import DataError, ParameterError
from rankwright.feedback.grades import Grades
from rankwright.rankers.kernels import DrawnLandmarks
from rankwright.rankers.magnitude.base import Problem
from rankwright.rankers.magnitude.scatter import (
    Sample,
    center_gram,
    factorized,
    inverse,
    scale_gram,
)
from rankwright.rankers.magnitude.smoothers import (
    GramSource,
    Smoother,
    Source,
    Spectrum,
    StreamSource,
)


def pairs_out(source: Source, factors: FloatArray, average: str = "pairs") -> FloatArray:
    """Eq 17 for each C': the mean cost of a pair under the model trained without it, exactly.

    Of rows and queries with a weight k one copy is left out and k - 1 stay, as they would if the
    copies stood there.
    """
    from rankwright.rankers.magnitude._kernels import left_out_pairs

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
    from rankwright.rankers.magnitude._kernels import left_out_pairs_approximately

    if not (sample.row_weight == 1.0).all() or not (sample.query_weight == 1.0).all():
        raise ParameterError(
            "leave_pair_out(exact=False): the paper's approximation is for rows and queries "
            "without weights. Use exact=True."
        )
    rows_of = np.add.reduceat(K, sample.ptr[:-1], axis=0) / sample.sums[:, None]
    whole = inverse(factorized(center_gram(K, sample), factor))
    y = sample.centered(sample.y)
    alpha = factor * linalg.blas.dsymv(1.0, whole.T, y, lower=0)
    centered = (
        rows_of - (np.add.reduceat(rows_of, sample.ptr[:-1], axis=1) / sample.sums)[:, sample.codes]
    )
    shift = factor * linalg.blas.dsymm(1.0, whole.T, centered.T, lower=0)
    # Inside a query h is known from the dual: h - y centered is -alpha / C'; its mean is k.alpha.
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


@dataclass(frozen=True, eq=False)
class Training:
    """What the last fit of a model has seen."""

    problem: Problem
    grades: Grades
    landmarks: DrawnLandmarks | None = None


# Beside the models, not in them: copies, pickles and model files do not carry the training rows.
TRAINED_ON: WeakKeyDictionary[Any, Training] = WeakKeyDictionary()


class LeaveOut:
    """What the squared loss gives for free: errors on rows left out, without retraining.

    The rows of the last ``fit`` are remembered for this, by reference, as long as the model lives.
    A row of weight k is k copies of which one is left out; a query of weight k likewise.
    """

    C: float

    def leave_pair_out(
        self, *, exact: bool = True, refit: bool = False, average: str = "pairs"
    ) -> float:
        """The mean cost of a pair under the model trained without its two rows (eq 17).

        Parameters
        ----------
        exact : bool, default True
            The closed form that equals retraining. False gives the paper's approximation, which
            takes the mean prediction of the model without the pair from the model with it.
        refit : bool, default False
            Whether C is held instead of C' = 2C/m: training on m - 2 rows with the same C.
        average : "pairs" or "queries", default "pairs"
            Whether each pair counts alike, or each query.

        Notes
        -----
        Time O(m^3) and memory 8 m^2 bytes with a kernel; with d <= m features of a linear kernel
        (or as many landmarks) O(m^2 d), and 8 m d bytes.
        """
        sample = self._trained_on("leave_pair_out").problem.sample
        _check_average(average)
        factor = self._held("leave_pair_out", sample, refit)
        if exact:
            return float(pairs_out(self._source(), np.array([factor]), average)[0])
        matrix = self._trained_on("leave_pair_out").problem.matrix()
        return approximate_pairs_out(matrix, sample, factor, average)

    def estimate_leave_pair_out(
        self,
        n_rows: int = 300,
        *,
        refit: bool = False,
        average: str = "pairs",
        random_state: Any = None,
    ) -> Estimate:
        """The same from some rows (or whole queries, where they are many), with a standard error.

        Costs a solution per row drawn instead of an inverse; for the linear kernel one more pass
        over the rows.
        """
        sample = self._trained_on("estimate_leave_pair_out").problem.sample
        _check_average(average)
        if n_rows < 16:
            raise ParameterError(
                f"estimate_leave_pair_out(n_rows={n_rows!r}): n_rows must be an integer >= 16."
            )
        factor = self._held("estimate_leave_pair_out", sample, refit)
        seed = int(check_random_state(random_state).randint(2**31 - 1))
        smoother = self._source(some=True).smoother(factor, some=True)
        return sampled_pairs_out(smoother, n_rows, np.random.default_rng(seed), average)

    def leave_query_out(self, *, refit: bool = False, average: str = "queries") -> float:
        """The mean cost of a pair under the model trained without its whole query.

        Parameters
        ----------
        refit : whether C is held instead of C'; queries must have equal mass then
        average : "queries" (default) or "pairs": which of them count alike
        """
        sample = self._trained_on("leave_query_out").problem.sample
        _check_average(average)
        if sample.n_queries < 2:
            raise ParameterError("leave_query_out needs two queries; this model saw one.")
        total = sample.total
        if refit:
            one = sample.sums * sample.once
            if not np.allclose(one, one[0], rtol=1e-12):
                raise ParameterError(
                    "leave_query_out(refit=True): queries differ in size or weight, so that each "
                    "would need its own C'. Use refit=False, which holds C'."
                )
            total -= float(one[0])
        return queries_out(self._source().smoother(2.0 * self.C / total), average)

    def _trained_on(self, name: str) -> Training:
        check_is_fitted(self)
        training = TRAINED_ON.get(self)
        if training is None:
            raise ParameterError(
                f"{type(self).__name__}.{name}: it needs the graded rows of a fit with "
                "loss='squared' in this session; partial_fit, Pairs, copies and model files do not "
                "keep them. Call fit(X, y) again."
            )
        return training

    def _held(self, name: str, sample: Sample, refit: bool) -> float:
        """C' of the models without a pair."""
        total = sample.total
        if refit:
            one = sample.mass * sample.copy * sample.once[sample.codes]
            if not np.allclose(one, one[0], rtol=1e-12) or total <= 2.0 * one[0]:
                raise ParameterError(
                    f"{name}(refit=True) needs three rows or more, of equal weights (or of whole "
                    "numbers): each pair would have its own C' otherwise. Use refit=False, which "
                    "holds C'."
                )
            total -= 2.0 * float(one[0])
        return 2.0 * self.C / total

    def _source(self, *, some: bool = False) -> Source:
        """R of the training rows: from features where there are few, else from the Gram matrix."""
        training = TRAINED_ON[self]
        problem, sample = training.problem, training.problem.sample
        rows = problem.rows if training.landmarks is None else training.landmarks
        few = problem.is_linear and rows.shape[1] <= rows.shape[0]
        if few or training.landmarks is not None:
            return StreamSource(sample, rows) if some else Spectrum.of_rows(rows, sample)
        K = center_gram(scale_gram(problem.matrix(), sample), sample)
        return GramSource(sample, K, keep=False)


def _check_average(average: str) -> None:
    if average not in ("pairs", "queries"):
        raise ParameterError(f"average={average!r}: it must be 'pairs' or 'queries'.")
