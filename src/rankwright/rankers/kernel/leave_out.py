"""The leave-out errors of a fitted MPRank, as methods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from rankwright.exceptions import ParameterError
from rankwright.feedback import Grades
from rankwright.rankers.kernel.centring import centre_gram, scale_gram
from rankwright.rankers.kernel.cholesky import GramSource, StreamSource
from rankwright.rankers.kernel.leave_pair_out import approximate_pairs_out, pairs_out, queries_out
from rankwright.rankers.kernel.magnitude import Problem
from rankwright.rankers.kernel.sample import Sample
from rankwright.rankers.kernel.sampled import Estimate, sampled_pairs_out
from rankwright.rankers.kernel.smoother import Source
from rankwright.rankers.kernel.spectrum import Spectrum
from rankwright.rankers.landmarks import DrawnLandmarks

__all__ = ["TRAINED_ON", "LeaveOut", "Training"]


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
        K = centre_gram(scale_gram(problem.matrix(), sample), sample)
        return GramSource(sample, K, keep=False)


def _check_average(average: str) -> None:
    if average not in ("pairs", "queries"):
        raise ParameterError(f"average={average!r}: it must be 'pairs' or 'queries'.")
