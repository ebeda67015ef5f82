"""What AutoRanker tries: default candidates by quality and size, and how well each did."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler

from rankwright._typing import FloatArray
from rankwright.metrics.comparison import Comparison, compare
from rankwright.metrics.measure import Measure
from rankwright.metrics.scores import Scores
from rankwright.rankers.boosting.frank import FRank
from rankwright.rankers.boosting.lambdamart import LambdaMART
from rankwright.rankers.boosting.rankboost import RankBoost
from rankwright.rankers.boosting.weak_learners.estimators import TreeRanking
from rankwright.rankers.early_stopping import EarlyStopping
from rankwright.rankers.gradient.ranknet import RankNet
from rankwright.rankers.gradient.ranksvm import RankSVM
from rankwright.rankers.gradient.ridge import RidgeRanker
from rankwright.rankers.keeprank.keeprank import KeepRank
from rankwright.rankers.magnitude.mprank import MPRank
from rankwright.rankers.magnitude.svrank import SVRank
from rankwright.rankers.one_hot import OneHotDecoder
from rankwright.rankers.online.bayesian import BayesianPRank
from rankwright.rankers.preprocessing import RankPipeline

Candidates = list[tuple[str, Any]]
Categories = Sequence[tuple[int, int]]  # the columns (first, stop) of the levels of each

WEIGHTS = {"NDCG": "NDCG@30", "AP": "AP", "ERR": "ERR", "RR": "RR"}  # by the measure that decides
FEW_ROWS = 3_000  # below that, leaves are small
SOME_ROWS = 6_000  # below that, trees are shallow, and fewer bins are enough
ENOUGH_QUERIES = 20  # to hold a fifth of them out
MANY_ROWS = 50_000  # from here, trees are a good default without validation
MANY_CELLS = 20_000_000  # from here, a candidate is expensive, and deep trees pay
MOST_KERNEL_ROWS = 100_000  # the landmarks of KeepRank take 2 KB of memory a row
MANY_COLUMNS = 2000  # of sparse rows; above that boosting is not tried
FIRST_IN_TIME = ("RankSVM", "LambdaMART", "RankBoost", "LambdaMART few features", "KeepRank")
N_LANDMARKS = 128  # of KeepRank; scoring 100 rows with five such models takes half a millisecond


def folds_for(quality: int, n_rows: int, n_features: int) -> tuple[int, int]:
    """How many folds, and how many times they are drawn.

    >>> folds_for(3, 10_000, 46), folds_for(3, 500_000, 136), folds_for(5, 10_000, 46)
    ((5, 1), (3, 1), (5, 2))
    """
    if quality == 1:
        return 1, 1
    large = n_rows * n_features >= MANY_CELLS
    n_folds = 3 if quality == 2 or (large and quality == 3) else 5
    return n_folds, 2 if quality == 5 else 1


def default_candidates(
    measure: Measure,
    quality: int,
    shape: tuple[int, int],
    *,
    sparse: bool,
    categories: Categories = (),
) -> Candidates:
    """The default candidates, from simple to complex.

    Trees get the levels of ``categories``, which other candidates see as columns of 0 and 1.

    Linear rankers come first, then sums of thresholds, trees by loss and pair weights, a network
    and a kernel. Trees are grown on half of the queries each, some on few of the features: on few
    queries that generalizes better, and the members of an ensemble differ more.
    """
    n_rows, n_features = shape
    scaler = MaxAbsScaler if sparse else StandardScaler

    def scaled(ranker: BaseEstimator, scale: Callable[[], Any] = scaler) -> Any:
        return RankPipeline([("scale", scale()), ("rank", ranker)])

    large = n_rows * n_features >= MANY_CELLS
    listwise = "NDCG" if measure.name == "NDCG" else None
    linear: Candidates = [("RankSVM", scaled(RankSVM()))]
    if quality >= 3:
        linear.append(("MPRank", scaled(MPRank())))
    if quality >= 3 and not large:
        linear.append(("BayesianPRank", scaled(BayesianPRank())))
        if listwise is not None:
            linear.append(("RankSVM NDCG", scaled(RankSVM(weighting=listwise))))
    if quality == 5:
        linear.append(("RidgeRanker", scaled(RidgeRanker(alpha=1.0))))
        linear.append(("SVRank", scaled(SVRank())))
    if sparse and n_features > MANY_COLUMNS:
        return linear
    boosted = _boosted(measure, quality, n_rows, large)
    boosted = [(name, _by_level(one, n_features, categories)) for name, one in boosted]
    other: Candidates = []
    if quality >= 3 and not large:
        net = RankNet(hidden_layer_sizes=(32,))
        other.append(("RankNet", scaled(net)))
    if quality >= 3 and n_rows <= MOST_KERNEL_ROWS and not sparse:
        other.append(("KeepRank", scaled(KeepRank(n_components=N_LANDMARKS), MinMaxScaler)))
    return linear + boosted + other


def _boosted(measure: Measure, quality: int, n_rows: int, large: bool) -> Candidates:
    stopping = EarlyStopping(measure=str(measure), n_iter_no_change=25, wait_share=0.25)
    rounds: dict[str, Any] = {"n_estimators": 1000, "early_stopping": stopping}
    few_rows, some_rows = n_rows < FEW_ROWS, n_rows < SOME_ROWS
    leafwise = {"tree": "leafwise", "max_leaf_nodes": 63 if large else 6 if few_rows else 15}
    trees: dict[str, Any] = {
        **rounds,
        **(leafwise if large else {"max_depth": 4 if some_rows else 6}),
        "max_bins": 64 if some_rows else 255,
        "min_samples_leaf": 5 if few_rows else 20,
        "subsample": 0.5,
        "learning_rate": 0.1,
    }
    weighting = WEIGHTS.get(measure.name)
    found: Candidates = [("RankBoost", RankBoost(**rounds))] if not large else []
    if quality >= 4 and not large:
        found.append(("FRank", FRank(n_estimators=200, early_stopping=stopping)))
        small = TreeRanking(max_leaf_nodes=6 if few_rows else 15)
        found.append(("RankBoost trees", RankBoost(estimator=small, **rounds)))
    whole = {"learning_rate": "auto", "subsample": 1.0}
    variants: dict[str, dict[str, Any]] = {"LambdaMART": whole}
    if weighting is not None:
        variants[f"LambdaMART {measure.name}"] = {"weighting": weighting}
    if weighting is None or quality >= 4:
        variants["LambdaMART logistic"] = {"weighting": None, "colsample_bytree": 0.5}
    if quality >= 3 and not large:
        variants["LambdaMART few features"] = {"colsample_bytree": 0.3}
    if quality >= 4:
        if not large:
            variants["LambdaMART xendcg"] = {"loss": "xendcg"}
            shallow = {"weighting": weighting, "max_depth": 3 if some_rows else 4}
            variants["LambdaMART small trees"] = {**shallow, "colsample_bytree": 0.5}
        variants["LambdaMART grade difference"] = {"weighting": "grade_difference"}
        variants["LambdaMART leaf-wise"] = {**leafwise, "max_depth": None}
        deep = {"max_leaf_nodes": 127} if large else {"max_depth": 8}
        variants["LambdaMART large trees"] = deep
    found += [(name, LambdaMART(**{**trees, **change})) for name, change in variants.items()]
    return found


def _by_level(ranker: BaseEstimator, n_features: int, categories: Categories) -> Any:
    """A LambdaMART behind a decoder of the categories; any other ranker as it is."""
    if not categories or not isinstance(ranker, LambdaMART):
        return ranker
    n_others = n_features - sum(stop - first for first, stop in categories)
    ranker.set_params(categorical_features=[n_others + i for i in range(len(categories))])
    return RankPipeline([("levels", OneHotDecoder(categories=[*categories])), ("rank", ranker)])


def unjudged_candidates(
    shape: tuple[int, int], n_queries: int, *, sparse: bool, categories: Categories = ()
) -> Candidates:
    """A good default first, if nothing is held out to evaluate it; one of them takes NaN.

    Trees hold out queries of their own to stop by, if there are enough; few rows are for a line.
    """
    n_rows, n_features = shape
    scaler = MaxAbsScaler() if sparse else StandardScaler()
    svm = ("RankSVM", RankPipeline([("scale", scaler), ("rank", RankSVM())]))
    if n_rows >= MANY_ROWS:
        trees = LambdaMART(subsample=0.5, colsample_bytree=0.5, n_estimators=200)
        return [("LambdaMART", _by_level(trees, n_features, categories)), svm]
    if n_rows >= FEW_ROWS and n_queries >= ENOUGH_QUERIES and not sparse:
        trees = LambdaMART(early_stopping=True)
        return [("LambdaMART", _by_level(trees, n_features, categories)), svm]
    return [svm, ("RankBoost", RankBoost())]


@dataclass(frozen=True, eq=False)
class CandidateResult:
    """One candidate, cross-fitted, and how well it ranked queries that it had not seen.

    Attributes
    ----------
    name : str
    estimator : the candidate as it was tried, not fitted
    models : the models of the folds; empty for an ensemble, which is of all of them
    scales : the standard deviation of each model's scores within queries, on rows it has not seen
    scores : Scores of the held-out rows; None if nothing was held out
    held_out : (n_held_out,) the score of each held-out row; None likewise
    n_iterations : the number of rounds of each model, from the mean curve; None without early
        stopping
    curve : (n_rounds,) the mean of the measure over the folds after each round; None likewise
    seconds : float, for training and evaluation on all folds
    """

    name: str
    estimator: Any
    models: tuple[Any, ...] = ()
    scales: tuple[float, ...] = ()
    scores: Scores | None = None
    held_out: FloatArray | None = None
    n_iterations: int | None = None
    curve: FloatArray | None = None
    seconds: float = 0.0

    @property
    def goodness(self) -> float:
        """The mean of the first measure, higher is better; -inf if there is none."""
        if self.scores is None:
            return -np.inf
        measure = self.scores.measures[0]
        mean = self.scores.to_dict()[str(measure)]
        return -np.inf if mean is None else measure.sign * mean

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
        """The candidate with the best mean of the first measure; the first if nothing is known."""
        return max(self, key=lambda result: result.goodness)

    @property
    def simplest(self) -> CandidateResult:
        """The first candidate within one standard error of the best one, paired by query."""
        best = self.best
        return next(result for result in self if result is best or _is_near(result, best))

    def __repr__(self) -> str:
        comparison = self.comparison
        return "no query was held out" if comparison is None else repr(comparison)

    def _repr_html_(self) -> str:
        comparison = self.comparison
        return repr(self) if comparison is None else comparison.to_html()


def _is_near(result: CandidateResult, best: CandidateResult) -> bool:
    """Whether the mean is at most one standard error of the paired difference below the best."""
    if result.scores is None or best.scores is None:
        return False
    measure = best.scores.measures[0]
    lead = measure.sign * (best.scores.per_query(measure) - result.scores.per_query(measure))
    lead = lead[np.isfinite(lead)]
    return len(lead) > 1 and bool(lead.mean() <= lead.std(ddof=1) / np.sqrt(len(lead)))


def best_round(curves: list[FloatArray], sign: float) -> tuple[int, FloatArray]:
    """How many rounds to train, and the mean of the curves of the folds.

    The best round of the mean curve is a lucky one where the curve is flat and noisy. So the
    number is the median of all rounds whose mean is within one standard error of the best (of the
    difference, paired by fold), after a running mean over a tenth of the rounds. With one fold it
    is the best round of that running mean. A fold that stopped early counts with its last value.

    >>> best_round([np.array([0.1, 0.5, 0.3]), np.array([0.1, 0.3, 0.5, 0.9])], 1.0)
    (3, array([0.1, 0.4, 0.4, 0.6]))
    """
    n_rounds = max(len(curve) for curve in curves)
    if min(len(curve) for curve in curves) == 0:  # some fold had nothing to learn
        return 1, np.zeros(0)
    smooth = np.array([_extended(running_mean(sign * c, len(c) // 20), n_rounds) for c in curves])
    best = int(np.argmax(smooth.mean(axis=0)))
    if len(curves) > 1:
        behind = smooth[:, [best]] - smooth
        error = behind.std(axis=0, ddof=1) / np.sqrt(len(curves))
        best = int(np.median(np.flatnonzero(behind.mean(axis=0) <= error)))
    return best + 1, np.mean([_extended(curve, n_rounds) for curve in curves], axis=0)


def _extended(curve: FloatArray, n: int) -> FloatArray:
    return np.concatenate([curve, np.full(n - len(curve), curve[-1])])


def running_mean(curve: FloatArray, half: int) -> FloatArray:
    """The mean over ``half`` values on either side, fewer at the ends.

    >>> running_mean(np.array([1.0, 2.0, 6.0]), 1)
    array([1.5, 3. , 4. ])
    """
    window, n = np.ones(2 * half + 1), len(curve)
    counts = np.convolve(np.ones(n), window)[half : half + n]
    return np.asarray(np.convolve(curve, window)[half : half + n] / counts)
