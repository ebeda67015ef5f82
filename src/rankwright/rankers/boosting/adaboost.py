"""AdaBoost's score used as a ranking."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from rankwright._typing import FloatArray, IntArray, Matrix, MatrixLike
from rankwright.feedback.base import Feedback, Grades, as_grades
from rankwright.rankers import schema
from rankwright.rankers.boosting.binning import MAX_BINS, FeatureColumns
from rankwright.rankers.boosting.ensemble import THRESHOLDS, BoostedThresholds, round_scores
from rankwright.rankers.boosting.weak_learners.features import WeakRanking, edge_alpha
from rankwright.rankers.boosting.weak_learners.splitting import (
    DEFAULTS,
    Cuts,
    Scan,
    threshold_scan,
)
from rankwright.rankers.bounds import Bound, Bounds
from rankwright.rankers.early_stopping import EARLY_STOPPING, EarlyStopping, Validation
from rankwright.rankers.schema import floats, integer, real
from rankwright.runtime import Team

Edge = tuple[float, int, int, int]  # edge, feature, cut, default


class AdaBoostRanker(BoostedThresholds):
    r"""AdaBoost for ranking: order rows by the score of a relevant-or-not classifier.

    The authors of RankBoost propose it for comparison: with two grades, ranking can also be treated
    as classification. Each row has a weight, regardless of its query. Each round adds the threshold
    on a feature that best separates relevant from other rows, and increases the weight of
    misclassified rows. The constant classifier is among the weak classifiers; with it, AdaBoost is
    known to rank about as well as RankBoost.

    Parameters
    ----------
    n_estimators : int >= 1, default 100
    rel : float or None
        Rows of at least this grade are relevant; None: those above the lowest grade.
    default : "learned", 0 or 1, default "learned"
        The output of the weak classifiers for missing values (NaN).
    max_bins : int from 2 to 255, or None for every threshold, default 255
    absent : "zero" or "abstain", default "zero"
        How to treat entries that a CSR matrix does not store: as 0, or as missing.
    smoothing : float > 0, at most 0.25, or None
        Keeps the weight of a perfect weak classifier finite; None is 1 / (2 rows).
    early_stopping : bool, int, EarlyStopping or None, default None
        Keep the rounds up to the best one on the ``eval_set`` of ``fit`` or, without it, on
        held-out queries. An int is the ``n_iter_no_change`` of an :class:`EarlyStopping`.

    Attributes
    ----------
    feature_, threshold_, default_, alpha_ : (n_estimators,) arrays
        A round adds ``alpha`` to the score of the rows above the threshold.
    intercept_ : float
        AdaBoost classifies a row as relevant if its score plus this is positive. It does not affect
        the order.
    validation_ : (n_rounds_tried,) array or None
        The measure on the validation queries after each round.
    best_iteration_ : int
        The number of rounds kept, including those that chose the constant classifier.

    References
    ----------
    Y. Freund, R. E. Schapire: A decision-theoretic generalization of on-line learning and an
    application to boosting. JCSS 55(1), 1997. C. Rudin, R. E. Schapire: Margin-based ranking and an
    equivalence between AdaBoost and RankBoost. JMLR 10, 2009.

    Examples
    --------
    >>> X = [[1.0, 5.0], [2.0, 4.0], [3.0, 3.0], [4.0, float("nan")]]
    >>> AdaBoostRanker(n_estimators=3).fit(X, [0, 0, 1, 1]).rank(X)
    array([3, 4, 1, 2])
    """

    _constraints: ClassVar = {
        "n_estimators": schema.at_least(1),
        "rel": schema.optional(schema.number()),
        "default": schema.one_of("learned", 0, 1),
        "max_bins": MAX_BINS,
        "absent": schema.one_of("zero", "abstain"),
        "smoothing": schema.optional(schema.positive(0.25)),
        "early_stopping": EARLY_STOPPING,
    }
    _learned: ClassVar = {
        **THRESHOLDS,
        "intercept_": real(),
        "validation_": floats("n_rounds_tried", optional=True),
        "best_iteration_": integer(low=0),
    }
    _takes: ClassVar = (Grades,)

    def __init__(
        self,
        *,
        n_estimators: int = 100,
        rel: float | None = None,
        default: float | str | ArrayLike = "learned",
        max_bins: int | None = 255,
        absent: str = "zero",
        smoothing: float | None = None,
        early_stopping: EarlyStopping | bool | int | None = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.rel = rel
        self.default = default
        self.max_bins = max_bins
        self.absent = absent
        self.smoothing = smoothing
        self.early_stopping = early_stopping

    def _fit(self, X: Matrix, feedback: Feedback, validation: Validation | None = None) -> None:
        assert isinstance(feedback, Grades)
        rows = _RowWeights(feedback, self.rel)
        smoothing = self.smoothing or 1.0 / (2.0 * max(len(rows.rows), rows.weight.sum(), 2.0))
        rounds: list[WeakRanking] = []
        with Team.for_rows(X) as pool:
            if rows.has_two_sides:
                abstain = self.absent == "abstain"
                columns = FeatureColumns(X, rows.rows, rows.weight, self.max_bins, abstain)
                rounds = self._boost(threshold_scan(columns, pool), rows, smoothing, validation)
        self.intercept_ = 0.0
        for weak in self._keep(rounds, validation):
            self.intercept_ += weak.alpha / 2 if weak.feature < 0 else -weak.alpha / 2

    def _boost(
        self, scan: Scan, rows: _RowWeights, smoothing: float, validation: Validation | None
    ) -> list[WeakRanking]:
        """The weak classifier of each round; feature -1 is the constant answer."""
        rounds: list[WeakRanking] = []
        for _ in range(self.n_estimators):
            none = np.zeros(0, np.int64)
            scan.scan(rows, Cuts(none, none, none))
            edge, feature, cut, default = _best_edge(scan, rows, DEFAULTS[self.default])
            if abs(edge) <= 1e-12:
                break
            alpha = edge_alpha(edge, smoothing)
            if feature < 0:
                rows.move(np.ones(len(rows.rows)), alpha)
                threshold = 0.0
            else:
                hit = scan.h(feature, cut, default)
                rows.move(2.0 * hit.astype(np.float64) - 1.0, alpha)
                threshold = scan.threshold(feature, cut)
            rounds.append(WeakRanking(feature, threshold, default, 2 * alpha))
            if validation and validation.add(self._added(rounds[-1], validation.X)):
                break
        return rounds

    def bounds(
        self, X: MatrixLike, y: ArrayLike, *, qid: ArrayLike | None = None, delta: float = 0.05
    ) -> Bounds:
        """Compare the share of misclassified rows with AdaBoost's bound, the product of Z.

        On the training rows that product is the mean of exp(-label * score).

        Parameters
        ----------
        X, y : the training rows and their grades
        qid, delta : not used; as for other rankers

        Returns
        -------
        Bounds by name ("misclassified rows")
        """
        check_is_fitted(self)
        grades = as_grades(y, "y")
        relevant = grades > grades.min() if self.rel is None else grades >= self.rel
        margin = np.where(relevant, 1.0, -1.0) * (self.decision_function(X) + self.intercept_)
        entry = Bound(
            "misclassified rows",
            float(np.exp(-margin).mean()),
            float((margin <= 0).mean()),
            "Freund and Schapire 1997, Theorem 6",
        )
        return Bounds((entry,))

    def _added(self, weak: WeakRanking, X: Matrix) -> FloatArray:
        """What a round adds to the order of rows."""
        if weak.feature < 0:
            return np.zeros(X.shape[0])
        return round_scores(weak, X, self.absent == "abstain")


class _RowWeights:
    """The distribution over rows: potential = weight * label, and its sum ``whole``."""

    total = bound = 1.0

    def __init__(self, grades: Grades, rel: float | None) -> None:
        weight = grades.row_weight
        used = np.flatnonzero(weight > 0)
        # Sorted by grade, so that sums do not depend on the order in which rows were given.
        self.rows: IntArray = used[np.argsort(grades.y[used], kind="stable")]
        self.weight: FloatArray = weight[self.rows]
        y = grades.y[self.rows]
        relevant = y > y.min(initial=np.inf) if rel is None else y >= rel
        self.label = np.where(relevant, 1.0, -1.0)
        self.has_two_sides = bool(relevant.any() and not relevant.all())
        self._scores = np.zeros(len(self.rows))
        self.move(self._scores, 0.0)

    def move(self, h: FloatArray, alpha: float) -> None:
        self._scores = self._scores + alpha * h
        margin = -self.label * self._scores
        share = self.weight * np.exp(margin - margin.max(initial=-np.inf))
        share /= share.sum() or 1.0
        self.potential: FloatArray = share * self.label
        self.whole = float(self.potential.sum())


def _best_edge(scan: Scan, rows: _RowWeights, allowed: tuple[bool, bool]) -> Edge:
    """The weak classifier with the largest |edge|; feature -1 is the constant answer."""
    best = (rows.whole, -1, 0, 0)
    for feature in range(scan.n_features):
        for candidate in _edges(scan, feature, rows.whole, allowed):
            if abs(candidate[0]) > abs(best[0]) + 1e-12:
                best = candidate
    return best


def _edges(scan: Scan, feature: int, whole: float, allowed: tuple[bool, bool]) -> Iterator[Edge]:
    """The best cuts of a feature. h is +1 for the rows hit and -1 for the others."""
    gains, abstains = scan.gains, scan.abstains[feature]
    for default in range(2):
        if not allowed[default] or (default and not abstains and allowed[0]):
            continue
        for gain, cut in (
            (gains.top[default, feature], gains.top_cut[default, feature]),
            (gains.bottom[default, feature], gains.bottom_cut[default, feature]),
        ):
            if cut >= 0:
                yield 2.0 * (float(gain) + default * whole) - whole, feature, int(cut), default
    if abstains:
        present = 2.0 * float(gains.present[feature]) - whole
        if allowed[0]:
            yield present, feature, scan.present_cut(feature), 0
        else:
            yield -present, feature, scan.empty_cut(feature), 1
