"""FRank: threshold rankings added up to lower the fidelity loss."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwright._typing import FloatArray, Matrix
from rankwright.exceptions import DegenerateDataWarning, ParameterError
from rankwright.feedback.base import Feedback, Grades
from rankwright.feedback.pair_losses import Batch, all_batches
from rankwright.feedback.pair_weights import power_above
from rankwright.feedback.pairs import Pairs
from rankwright.rankers import schema
from rankwright.rankers.boosting.binning import MAX_BINS, FeatureColumns
from rankwright.rankers.boosting.ensemble import THRESHOLDS, BoostedThresholds, round_scores
from rankwright.rankers.boosting.weak_learners.features import WeakRanking, split_alpha
from rankwright.rankers.boosting.weak_learners.splitting import (
    BinnedScan,
    Directions,
    Scan,
    threshold_scan,
)
from rankwright.rankers.early_stopping import EARLY_STOPPING, EarlyStopping, Validation
from rankwright.rankers.schema import floats, integer
from rankwright.runtime import Team

HALVINGS = 30


class FRank(BoostedThresholds):
    r"""A generalized additive model of threshold rankings under the fidelity loss.

    A pair (i above j) is in the right order with probability
    :math:`P_{ij} = 1 / (1 + e^{-(s_i - s_j)})` and costs :math:`1 - \sqrt{P_{ij}}`: nothing when it
    is certain, and at most 1, so that no pair or query dominates. Every query has the same weight,
    regardless of its number of pairs.

    Each round scans all thresholds of all features for the ranking h(x) = [x_f > threshold] along
    which the loss falls fastest, and adds it with the published weight

    .. math:: \alpha = \tfrac12 \ln \frac{\sum_{h_i > h_j} W_{ij}}{\sum_{h_i < h_j} W_{ij}},

    where W is the slope of the loss of each pair. The weight is halved until the loss falls.
    Features may abstain (NaN), as in :class:`RankBoost`, with which it shares the
    search for thresholds. Sums over the pairs of a query of n rows take about O(n log n).

    Parameters
    ----------
    n_estimators : int, default 100
    choice : "descent", "loss" or "full", default "descent"
        How a round chooses its threshold. ``"descent"``: the one along which the loss falls
        fastest. ``"full"``, as published: the one with the lowest loss after its step, of all
        thresholds of all features. Each of them needs two sums over all pairs, so it is for small
        data or a small ``max_bins``. ``"loss"``: the same among the best cuts by descent of every
        feature in both directions.
    cumulative : "signed", True or False, default False
        Constraint on the contribution of a feature, as in :class:`RankBoost`. The published form
        has none.
    max_bins : int from 2 to 255, or None, default 255
        Maximum number of bins per feature; None tries every threshold.
    smoothing : float > 0, at most 0.25, or None
        Keeps the weight of a perfect ranking finite; None is 1 / (2 pairs).
    normalize : None or "query", default None
        ``"query"`` scales each feature to 0 .. 1 within the row's query, in training and when
        scoring (which then needs ``qid``); it is saved with the model.
    early_stopping : bool, int, EarlyStopping or None, default None
        Keep the rounds up to the best one on the ``eval_set`` of ``fit`` or, without it, on
        held-out queries. An int is the ``n_iter_no_change`` of an :class:`EarlyStopping`.

    Attributes
    ----------
    feature_, threshold_, default_, alpha_ : (n_estimators,) arrays, the weak rankings
    losses_ : (n_estimators + 1,) array, the mean loss before the first round and after each
    validation_ : (n_rounds_tried,) array or None, the measure on the validation queries after each
        round
    best_iteration_ : int, the number of rounds kept

    References
    ----------
    M.-F. Tsai, T.-Y. Liu, T. Qin, H.-H. Chen, W.-Y. Ma (2007), FRank: a ranking method with
    fidelity loss. SIGIR.

    Examples
    --------
    >>> X = [[1.0, 5.0], [2.0, 4.0], [3.0, 3.0], [4.0, float("nan")]]
    >>> model = FRank(n_estimators=5).fit(X, [0, 1, 1, 2])
    >>> model.rank(X)
    array([4, 2, 3, 1])
    >>> bool((np.diff(model.losses_) < 0).all())
    True
    """

    _constraints: ClassVar = {
        "n_estimators": schema.at_least(1),
        "choice": schema.one_of("descent", "loss", "full"),
        "cumulative": schema.one_of("signed", True, False),
        "max_bins": MAX_BINS,
        "smoothing": schema.optional(schema.positive(0.25)),
        "normalize": schema.optional(schema.one_of("query")),
        "early_stopping": EARLY_STOPPING,
    }
    _learned: ClassVar = {
        **THRESHOLDS,
        "losses_": floats("n_losses", low=0.0, high=1.0),
        "validation_": floats("n_rounds_tried", optional=True),
        "best_iteration_": integer(low=0),
    }
    _takes: ClassVar = (Grades, Pairs)
    _sums: ClassVar = True
    _uses_confidence: ClassVar = True

    def __init__(
        self,
        *,
        n_estimators: int = 100,
        choice: str = "descent",
        cumulative: bool | str | ArrayLike = False,
        max_bins: int | None = 255,
        smoothing: float | None = None,
        normalize: str | None = None,
        early_stopping: EarlyStopping | bool | int | None = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.choice = choice
        self.cumulative = cumulative
        self.max_bins = max_bins
        self.smoothing = smoothing
        self.normalize = normalize
        self.early_stopping = early_stopping

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.choice == "full" and self.cumulative is not False:
            raise ParameterError(
                f"FRank(choice='full', cumulative={self.cumulative!r}): the published search "
                "has no constraint. Use cumulative=False, or choice='loss'."
            )

    def _fit(self, X: Matrix, feedback: Feedback, validation: Validation | None = None) -> None:
        loss = FidelityLoss(all_batches(feedback, None, X, by_query=True), feedback)
        rounds: list[WeakRanking] = []
        losses = [loss.value]
        with Team.for_rows(X) as pool:
            if len(loss.rows):
                columns = FeatureColumns(X, loss.rows, loss.row_mass, self.max_bins)
                scan = threshold_scan(columns, pool)
                directions = Directions(self.cumulative, "learned", X.shape[1])
                for _ in range(self.n_estimators):
                    if self.choice == "full":
                        weak = self._full_round(scan, columns, loss)
                    else:
                        weak = self._round(scan, directions, loss)
                    if weak is None:
                        break
                    rounds.append(weak)
                    losses.append(loss.value)
                    if validation and validation.add(round_scores(weak, validation.X)):
                        break
        kept = self._keep(rounds, validation)
        self.losses_ = np.array(losses[: len(kept) + 1], dtype=np.float64)
        if not rounds and feedback.total_weight > 0:
            warnings.warn(
                "FRank: no threshold orders the training pairs better than chance (are all "
                "features constant within queries?), so every score is 0.",
                DegenerateDataWarning,
                stacklevel=4,
            )

    def _round(self, scan: Scan, directions: Directions, loss: FidelityLoss) -> WeakRanking | None:
        """Add the best weak ranking, if any lowers the loss."""
        earlier_gain = scan.scan(loss, directions.earlier)

        def weigh(candidate: Any) -> float:
            return self._weight(loss, scan.h(*candidate[:3]))

        chosen: Any = directions.choose(scan, loss, earlier_gain, weigh)
        if chosen is None:
            return None
        if self.choice == "loss":
            candidates = [chosen, *directions.candidates(scan)]
            after = [loss.after(scan.h(*cut[:3]), weigh(cut)) for cut in candidates]
            chosen = candidates[int(np.argmin(after))]
        alpha = loss.descend(scan.h(*chosen[:3]), weigh(chosen))
        if alpha == 0.0:
            return None
        directions.record(scan, chosen, alpha)
        threshold = scan.threshold(chosen.feature, chosen.cut)
        return WeakRanking(chosen.feature, threshold, chosen.default, alpha)

    def _weight(self, loss: FidelityLoss, hit: NDArray[np.uint8]) -> float:
        """The published weight of a weak ranking."""
        smoothing = self.smoothing or 1.0 / (2.0 * max(loss.n_pairs, 2.0))
        return split_alpha(*loss.split(hit), smoothing * loss.total)

    def _full_round(
        self, scan: Scan, columns: FeatureColumns, loss: FidelityLoss
    ) -> WeakRanking | None:
        """Add the weak ranking that leaves the lowest loss, if any lowers it."""
        least, best = loss.value, None
        for feature in range(scan.n_features):
            values = columns.values(feature, np.arange(columns.n_rows))
            missing = np.isnan(values)
            for threshold in _thresholds(scan, feature, values[~missing]):
                for default in (0, 1) if missing.any() and threshold > -np.inf else (0,):
                    hit = np.where(missing, default, values > threshold).astype(np.uint8)
                    alpha = self._weight(loss, hit)
                    after = loss.after(hit, alpha)
                    if after < least - 1e-12:  # rounding decides nothing
                        least, best = after, (feature, threshold, default, alpha, hit)
        if best is None:
            return None
        feature, threshold, default, alpha, hit = best
        return WeakRanking(feature, threshold, default, loss.descend(hit, alpha))


def _thresholds(scan: Scan, feature: int, values: FloatArray) -> list[float]:
    """All thresholds of a feature; -inf divides rows that have it from those that lack it."""
    if isinstance(scan, BinnedScan):
        found = [scan.threshold(feature, cut) for cut in range(scan.empty_cut(feature))]
    else:
        found = np.unique(values)[:-1].tolist()
    return [-np.inf, *found] if scan.abstains[feature] else found


class FidelityLoss:
    """The mean fidelity loss at the present scores, as the scans for thresholds want it.

    Attributes
    ----------
    rows : (n,) rows of X that take part
    potential : (n,) minus the slope of the loss by each row's score
    total : the sum of |slope| over all pairs; whole : the sum of the potentials, which is zero
    value : the mean loss
    """

    whole = 0.0

    def __init__(self, batches: list[Batch], feedback: Feedback) -> None:
        rows = [np.zeros(0, np.int64), *(batch.rows for batch in batches)]
        self.rows = np.unique(np.concatenate(rows))
        self._terms = [(batch, np.searchsorted(self.rows, batch.rows)) for batch in batches]
        self.row_mass = np.ones(len(self.rows))
        if isinstance(feedback, Grades):
            self.row_mass = feedback.row_weight[self.rows]
        self.n_pairs = max(float(feedback.n_pairs), feedback.total_weight)
        self._move(np.zeros(len(self.rows)))

    def split(self, hit: NDArray[np.uint8]) -> tuple[float, float]:
        """Sums of |slope| over pairs that the ranking orders rightly and wrongly."""
        scores = self.scores
        sums = [b.split(scores[index], hit[index], "fidelity") for b, index in self._terms]
        return sum(right for right, _ in sums), sum(wrong for _, wrong in sums)

    def after(self, hit: NDArray[np.uint8], alpha: float) -> float:
        """The mean loss if alpha were added to the rows hit."""
        return self._sums(self.scores + alpha * hit)[0]

    def descend(self, hit: NDArray[np.uint8], alpha: float) -> float:
        """Add alpha (halved until the loss falls) to the rows hit; returns what was added."""
        before, value = self.scores, self.value
        for _ in range(HALVINGS):
            self._move(before + alpha * hit)
            if self.value < value:
                return alpha
            alpha /= 2
        self._move(before)
        return 0.0

    def _sums(self, scores: FloatArray) -> tuple[float, FloatArray]:
        """The mean loss, and the slope of its sum."""
        value = mass = 0.0
        slope = np.zeros(len(self.rows))
        for batch, index in self._terms:
            part, weight, own = batch.sums(scores[index], "fidelity")
            value, mass = value + part, mass + weight
            slope += np.bincount(index, own, len(slope))
        return value / mass if mass > 0 else 0.0, slope

    def _move(self, scores: FloatArray) -> None:
        self.scores = scores
        self.value, slope = self._sums(scores)
        self.potential: FloatArray = -slope
        self.total = float(np.abs(slope).sum()) / 2 or 1.0
        self.bound = power_above(self.total, 1)
