"""What AutoRanker tries: default candidates by the size of the data, and how well each did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from rankwright._typing import FloatArray
from rankwright.metrics.comparison import Comparison, compare
from rankwright.metrics.measure import Measure
from rankwright.metrics.scores import Scores
from rankwright.rankers.boosting.lambdamart import LambdaMART
from rankwright.rankers.boosting.rankboost import RankBoost
from rankwright.rankers.boosting.weak_learners.estimators import TreeRanking
from rankwright.rankers.early_stopping import EarlyStopping
from rankwright.rankers.gradient.ranksvm import RankSVM

Candidates = list[tuple[str, Any]]

WEIGHTS = {"NDCG": "NDCG@30", "AP": "AP", "ERR": "ERR", "RR": "RR"}  # by the measure that chooses


class Budget(NamedTuple):
    """What the size of the data allows.

    Attributes
    ----------
    n_estimators : the most rounds of boosting
    patience : rounds without a better value on a fold, after which its training stops
    leaves : few, usual and many leaves of a tree
    penalties : values of C for RankSVM
    n_refinements : variants of the best trees to try after the first candidates
    """

    n_estimators: int
    patience: int
    leaves: tuple[int, int, int]
    penalties: tuple[float, ...]
    n_refinements: int


def budget_for(n_rows: int, n_features: int) -> Budget:
    """The budget by the size of the data.

    Small data are cheap, but too noisy to choose among many candidates; on large data each
    candidate is expensive, and deep trees pay.

    >>> budget_for(2_000, 10).n_refinements, budget_for(1_000_000, 136).leaves
    (0, (31, 63, 127))
    """
    if n_rows < 3_000:
        return Budget(200, 30, (4, 8, 16), (0.01, 1.0, 100.0), 0)
    if n_rows * n_features < 20_000_000:
        return Budget(500, 50, (7, 15, 31), (0.01, 1.0, 100.0), 3)
    return Budget(1000, 50, (31, 63, 127), (1.0,), 2)


def first_candidates(measure: Measure, budget: Budget, boosting: bool) -> Candidates:
    """Linear rankers, then boosted thresholds and trees by loss and pair weights."""
    linear: Candidates = [(f"RankSVM C={C:g}", RankSVM(C=C)) for C in budget.penalties]
    if not boosting:
        return linear
    stopping = EarlyStopping(measure=str(measure), n_iter_no_change=budget.patience)
    shared: dict[str, Any] = {"n_estimators": budget.n_estimators, "early_stopping": stopping}
    usual = budget.leaves[1]
    trees = TreeRanking(max_leaf_nodes=usual)
    boosted: Candidates = [
        ("RankBoost thresholds", RankBoost(**shared)),
        ("RankBoost trees", RankBoost(estimator=trees, **shared)),
    ]
    weights = [WEIGHTS.get(measure.name), None]
    for weighting in dict.fromkeys(weights):
        model = LambdaMART(weighting=weighting, max_leaf_nodes=usual, **shared)
        boosted.append((_name(model), model))
    return linear + boosted


def unjudged_candidates() -> Candidates:
    """The safest ranker first: nothing is held out to evaluate it."""
    return [("RankSVM C=1", RankSVM()), ("RankBoost thresholds", RankBoost())]


def refinements(results: list[CandidateResult], budget: Budget) -> Candidates:
    """The best LambdaMART with fewer leaves, with more, and with a smaller learning rate."""
    boosted = [result for result in results if isinstance(result.model, LambdaMART)]
    if not boosted:
        return []
    best = max(boosted, key=goodness).model
    few, _, many = budget.leaves
    changes: list[dict[str, Any]] = [
        {"max_leaf_nodes": few},
        {"max_leaf_nodes": many},
        {"learning_rate": best.learning_rate / 2, "n_estimators": 2 * best.n_estimators},
    ]
    models = [clone(best).set_params(**change) for change in changes[: budget.n_refinements]]
    return [(_name(model), model) for model in models]


def _name(model: LambdaMART) -> str:
    weighting = model.weighting or "unweighted"
    rate = "" if model.learning_rate == 0.1 else f", rate {model.learning_rate:g}"
    return f"LambdaMART {weighting}, {model.max_leaf_nodes} leaves{rate}"


def simplicity(model: Any) -> float:
    """How complex a default candidate is: linear, boosted thresholds, then boosted trees."""
    last = model[-1] if hasattr(model, "steps") else model
    if isinstance(last, RankSVM):
        return float(last.C) / 1000.0
    if isinstance(last, RankBoost):
        return 2.0 if isinstance(last.estimator, TreeRanking) else 1.0
    return 3.0 + float(last.max_leaf_nodes) / 1000.0


@dataclass(frozen=True, eq=False)
class CandidateResult:
    """One candidate and its scores on held-out queries.

    Attributes
    ----------
    name : str
    model : the candidate, fitted on the training rows of the first fold
    scores : Scores of the held-out rows; None if nothing was held out
    held_out : (n_held_out,) the score of each held-out row; None likewise
    n_iterations : the number of rounds to train, from the mean curve; None without early stopping
    curve : (n_rounds,) the mean of the measure over the folds after each round; None likewise
    n_folds : int, over how many folds
    seconds : float, for training and evaluation on all folds
    simplicity : float, lower for simpler default candidates; None for those of the caller
    """

    name: str
    model: Any
    scores: Scores | None = None
    held_out: FloatArray | None = None
    n_iterations: int | None = None
    curve: FloatArray | None = None
    n_folds: int = 0
    seconds: float = 0.0
    simplicity: float | None = None

    def __str__(self) -> str:
        means = {} if self.scores is None else self.scores.to_dict()
        parts = [f"{name} {mean:.4f}" for name, mean in means.items() if mean is not None]
        if self.n_iterations is not None:
            parts.append(f"early stopping keeps {self.n_iterations} rounds")
        return ", ".join([*parts, f"{self.seconds:.1f} s"])


class CandidateResults(tuple[CandidateResult, ...]):
    """The candidates that were tried, in order. Prints as the table of :func:`compare`."""

    __slots__ = ()

    @property
    def comparison(self) -> Comparison | None:
        """The candidates side by side; None if nothing was held out."""
        scores = {result.name: result.scores for result in self if result.scores is not None}
        return compare(scores) if scores else None

    @property
    def best(self) -> CandidateResult:
        """The candidate to keep.

        The best mean of the first measure. Of the default candidates within one standard error
        of it (of the difference, paired by query) the simplest. The first candidate if nothing was
        held out.
        """
        top = self._top
        near = [
            result for result in self if result.simplicity is not None and _is_near(result, top)
        ]
        return min(near, key=lambda result: result.simplicity or 0.0, default=top)

    @property
    def _top(self) -> CandidateResult:
        return max(self, key=goodness)

    @property
    def reason(self) -> str:
        """Why ``best`` is kept, if another candidate has a better mean; else empty."""
        if self.best is self._top:
            return ""
        return (
            f"{self.best.name} is the simplest candidate within one standard error of the best one"
        )

    def __repr__(self) -> str:
        comparison = self.comparison
        return "no query was held out" if comparison is None else repr(comparison)

    def _repr_html_(self) -> str:
        comparison = self.comparison
        return repr(self) if comparison is None else comparison.to_html()


def goodness(result: CandidateResult) -> float:
    if result.scores is None:
        return -np.inf
    measure = result.scores.measures[0]
    mean = result.scores.to_dict()[str(measure)]
    return -np.inf if mean is None else measure.sign * mean


def _is_near(result: CandidateResult, top: CandidateResult) -> bool:
    """Whether the mean is at most one standard error of the paired difference below the top."""
    if result.scores is None or top.scores is None or top.simplicity is None:
        return result is top
    measure = top.scores.measures[0]
    lead = measure.sign * (top.scores.per_query(measure) - result.scores.per_query(measure))
    lead = lead[np.isfinite(lead)]
    if len(lead) < 2:
        return result is top
    return bool(lead.mean() <= lead.std(ddof=1) / np.sqrt(len(lead)))


def best_round(curves: list[FloatArray], sign: float) -> tuple[int, FloatArray]:
    """How many rounds to train, and the mean of the curves of the folds.

    The best round of the mean curve is a lucky one where the curve is flat and noisy. So the
    number is the median of all rounds whose mean is within one standard error of the best (of the
    difference, paired by fold), after a running mean over a tenth of the rounds. With one fold it
    is the best round of that running mean.

    >>> best_round([np.array([0.1, 0.5, 0.3]), np.array([0.1, 0.3, 0.5, 0.9])], 1.0)
    (2, array([0.1, 0.4, 0.4]))
    """
    n_rounds = min(len(curve) for curve in curves)  # that all folds have made
    if n_rounds == 0:  # some fold had nothing to learn
        return 1, np.zeros(0)
    cut = np.array([curve[:n_rounds] for curve in curves])
    smooth = np.array([running_mean(sign * curve, n_rounds // 20) for curve in cut])
    best = int(np.argmax(smooth.mean(axis=0)))
    if len(curves) > 1:
        behind = smooth[:, [best]] - smooth
        error = behind.std(axis=0, ddof=1) / np.sqrt(len(curves))
        best = int(np.median(np.flatnonzero(behind.mean(axis=0) <= error)))
    return best + 1, cut.mean(axis=0)


def running_mean(curve: FloatArray, half: int) -> FloatArray:
    """The mean over ``half`` values on either side, fewer at the ends.

    >>> running_mean(np.array([1.0, 2.0, 6.0]), 1)
    array([1.5, 3. , 4. ])
    """
    window, n = np.ones(2 * half + 1), len(curve)
    counts = np.convolve(np.ones(n), window)[half : half + n]
    return np.asarray(np.convolve(curve, window)[half : half + n] / counts)
