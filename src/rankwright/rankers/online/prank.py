"""PRank: a perceptron with ordered thresholds, and its large-margin forms."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from rankwright._typing import FloatArray, IntArray, MatrixLike, RandomState
from rankwright.rankers import schema
from rankwright.rankers.bounds import Bound, Bounds
from rankwright.rankers.early_stopping import EarlyStopping
from rankwright.rankers.online.base import (
    PASS_CONSTRAINTS,
    STREAM,
    Examples,
    ThresholdRanker,
    kernels,
)
from rankwright.rankers.online.margins import (
    least_gap,
    mistake_bound,
    prank_bounds,
    replay,
    squared_lengths,
)
from rankwright.rankers.schema import floats, integer, real

NO_AVERAGE = [np.zeros(0), np.zeros(0)]
LARGE_MARGIN = ("romma", "mira", "alma")  # in the order of the codes in _kernels/prank.py


class PRank(ThresholdRanker):
    r"""Perceptron ranking: an online ordinal ranker with weights w and thresholds c.

    The grade of a row x is the first whose threshold lies above :math:`w \cdot x`. When that is
    wrong, every threshold on the wrong side of the score moves one step toward the other side, and
    x is added to the weights once for each of them:

    .. math:: a_r = l_r \text{ where } (w \cdot x - c_r) l_r \le 0, \text{ else } 0; \qquad
              w \leftarrow w + \Big(\sum_r a_r\Big) x, \quad c \leftarrow c - a,

    with :math:`l_r = +1` if the true grade lies above threshold r and -1 otherwise. Thresholds stay
    ordered. If a model of unit length separates the rows with margin :math:`\gamma`, the total rank
    loss over any stream is at most :math:`(k - 1)(R^2 + 1) / \gamma^2`, R the length of the longest
    row.

    ``update="romma"`` seeks a large margin (Li and Long's relaxed online maximum margin, here
    derived for thresholds). With v = (w, -c), a mistake whose wrong thresholds are the set E gives
    the mean constraint :math:`v \cdot z \ge 1` with
    :math:`z = l\,(x, \tfrac{1}{|E|} \sum_{r \in E} e_r)`; the next model is the shortest that
    meets it and keeps :math:`v' \cdot v \ge \|v\|^2`:

    .. math:: v' = \frac{\|z\|^2 \|v\|^2 - v \cdot z}{D}\, v
                 + \frac{\|v\|^2 (1 - v \cdot z)}{D}\, z, \qquad
              D = \|z\|^2 \|v\|^2 - (v \cdot z)^2 .

    This can break the order of the thresholds; they are then sorted, which does not change
    :math:`\|v\|`. Every model u that separates all rows by a margin of 1 satisfies
    :math:`u \cdot v \ge \|v\|^2` after every row (sorting can only increase the left side), and
    each mistake adds at least :math:`1 / (R^2 + 1)` to :math:`\|v\|^2`: so there are at most
    :math:`(R^2 + 1) / \gamma^2` mistakes. A row that contradicts the model completely is skipped.

    ``update="mira"`` (Crammer and Singer's margin infused relaxed algorithm) moves the model as
    little as possible: of the steps :math:`0 \le a_r \le C` with which
    :math:`w' = w + \sum_r a_r l_r x` and :math:`c'_r = c_r - a_r l_r`, it takes the ones that
    minimize :math:`\tfrac12 \|v'\|^2 - \sum_r a_r`. Every threshold is then right by a margin of 1,
    unless its step is C. The update is exact (one root of a piecewise linear function), and
    thresholds stay ordered. A mistake adds at least :math:`\tfrac12 \min(C, 1 / (R^2 + 1))` to the
    dual objective, whose maximum is at most :math:`1 / (2 \gamma^2)`: there are at most
    :math:`\max(1 / C, R^2 + 1) / \gamma^2` mistakes.

    ``update="alma"`` (Gentile's approximate large margin algorithm) keeps :math:`\|v\| \le 1`. Its
    k-th correction is made when some thresholds, the set E, are nearer to a row than
    :math:`(1 - \alpha) \gamma_k \rho`, :math:`\gamma_k = \sqrt{8 / k} / \alpha`,
    :math:`\rho = \sqrt{\|x\|^2 + 1}`, or on the wrong side. It adds the mean over E of
    :math:`l_r (x, e_r) / \rho` with a step of :math:`\sqrt{2 / k}`; thresholds are then sorted. On
    separable rows it makes at most :math:`2 (2 / \alpha - 1)^2 / \gamma^2 + 8 / \alpha - 4`
    corrections, for the margin :math:`\gamma` of the rows divided by their :math:`\rho`, and ends
    with a margin of at least :math:`(1 - \alpha) \gamma`.

    Parameters
    ----------
    average : bool, default False
        Predict with the mean of the model over all rows, which is much more stable than the last
        model. (With
        ``update="romma"`` each model counts with length 1.)
    update : "perceptron", "romma", "mira" or "alma", default "perceptron"
        The last two also correct rows of the right grade that are too close to a threshold.
    C : float > 0, default 1.0
        With "mira": the largest step of a threshold. The perceptron's steps are 1.
    alpha : float in (0, 1], default 0.9
        With "alma": smaller values come closer to the largest margin, with more corrections.
    max_iter : int, default 1
        Number of passes of ``fit`` over the rows.
    shuffle : bool, default False
        Whether to shuffle the rows before each pass.
    random_state : int, RandomState or None
        Seeds the shuffling.
    early_stopping : bool, int, EarlyStopping or None, default None
        Keep the best pass of ``fit`` on validation queries. An int is the number of passes without
        improvement after which to stop.

    Attributes
    ----------
    coef_ : (n_features,) array
    thresholds_ : (n_grades - 1,) array, ascending
    classes_ : (n_grades,) array
        The grades, ascending.
    n_mistakes_, n_seen_ : int
        Number of mistakes and of rows so far.
    validation_ : (n_passes,) array or None
        After ``fit``: the measure on the validation queries after each pass.
    best_iteration_ : int
        After ``fit``: the pass that was kept.
    last_coef_, last_thresholds_ : with ``average``, the model after the last row
    drift_coef_, drift_thresholds_ : with ``average``, the running sums behind the mean
    margin_ : float
        With "romma": a margin of 1 in the units of ``coef_``. On noisy rows models grow without
        bound, so they are rescaled, with the margin, from time to time.
    n_corrections_ : int
        With "mira" and "alma": how often the model changed.

    References
    ----------
    Crammer, Singer: Pranking with ranking. NIPS 2001.
    Li, Long: The relaxed online maximum margin algorithm. Machine Learning 46, 2002.
    Crammer, Singer: Ultraconservative online algorithms for multiclass problems. JMLR 3, 2003.
    Gentile: A new approximate maximal margin classification algorithm. JMLR 2, 2001.

    Examples
    --------
    >>> X = [[0.0, 1.0], [1.0, 1.0], [2.0, 1.0], [3.0, 1.0]]
    >>> model = PRank(max_iter=20).fit(X, [1, 2, 3, 3])
    >>> model.predict(X)
    array([1., 2., 3., 3.])
    >>> model.coef_, model.thresholds_
    (array([ 1., -1.]), array([0., 1.]))

    One row at a time, with all grades declared in advance:

    >>> stream = PRank().partial_fit([[0.0, 1.0]], [1], classes=[1, 2, 3])
    >>> stream.partial_fit([[3.0, 1.0]], [3]).n_seen_
    2
    """

    _constraints: ClassVar = {
        "average": schema.boolean(),
        "update": schema.one_of("perceptron", *LARGE_MARGIN),
        "C": schema.positive(),
        "alpha": schema.positive(1),
        **PASS_CONSTRAINTS,
    }
    _learned: ClassVar = {
        **STREAM,
        "coef_": floats("n_features"),
        "thresholds_": floats("n_thresholds"),
        "last_coef_": floats("n_features", optional=True),
        "last_thresholds_": floats("n_thresholds", optional=True),
        "drift_coef_": floats("n_features", optional=True),
        "drift_thresholds_": floats("n_thresholds", optional=True),
        "margin_": real(low=0.0, optional=True),
        "n_corrections_": integer(low=0, optional=True),
    }

    def __init__(
        self,
        *,
        average: bool = False,
        update: str = "perceptron",
        C: float = 1.0,
        alpha: float = 0.9,
        max_iter: int = 1,
        shuffle: bool = False,
        random_state: RandomState = None,
        early_stopping: EarlyStopping | bool | int | None = None,
    ) -> None:
        self.average = average
        self.update = update
        self.C = C
        self.alpha = alpha
        self.max_iter = max_iter
        self.shuffle = shuffle
        self.random_state = random_state
        self.early_stopping = early_stopping

    def bounds(
        self, X: MatrixLike, y: ArrayLike, *, qid: ArrayLike | None = None, delta: float = 0.05
    ) -> Bounds:
        """Compare the mistakes on a stream with what the update's theorem allows.

        The theorems hold for any stream that some rule separates by a margin. Here that is the
        fitted rule itself: a rule that does not rank all rows rightly proves nothing (the bounds
        are infinite). The truth is counted by learning from the rows again, ``max_iter`` times.

        Parameters
        ----------
        X, y : the rows that the model learned from, in that order
        qid, delta : not used; as for other rankers

        Returns
        -------
        Bounds by name ("rank loss", "mistakes", "corrections"), and ``quantities``: ``radius``, the
        length of the longest row, ``margin``, the least distance of a row from the wrong side of a
        threshold, for the rule scaled to length 1, and with "alma" ``normalized_margin``, where
        each row is scaled to length 1 too.

        Examples
        --------
        >>> X, y = [[0.0], [1.0], [4.0], [5.0]], [1, 1, 2, 2]
        >>> PRank(max_iter=20).fit(X, y).bounds(X, y)
        bound              at most  truth  of
        rank loss              338      5  Crammer and Singer 2001, Theorem 1
        mistakes               338      5  Crammer and Singer 2001, Theorem 1
        radius = 5
        margin = 0.2774
        """
        rows, code = self._stream_of(X, y)
        scores, norms = np.asarray(rows @ self.coef_), squared_lengths(rows)
        length = float(np.sqrt(self.coef_ @ self.coef_ + self.thresholds_ @ self.thresholds_))
        radius = float(np.sqrt(norms.max()))
        margin = least_gap(scores, self.thresholds_, code) / (length or 1.0)
        quantities = {"radius": radius, "margin": margin}
        if self.update == "perceptron":
            return Bounds(tuple(prank_bounds(self, rows, code, radius, margin)), quantities)
        _, fresh = replay(self, rows, code)
        if self.update == "alma":
            reach = np.sqrt(norms + 1.0)
            gaps = [
                least_gap(scores[i : i + 1], self.thresholds_, code[i : i + 1])
                for i in range(len(code))
            ]
            gamma = float((np.array(gaps) / reach).min()) / (length or 1.0)
            most = 2.0 / gamma**2 * (2.0 / self.alpha - 1.0) ** 2 if gamma > 0 else np.inf
            bound, truth = most + 8.0 / self.alpha - 4.0, float(fresh.n_corrections_)
            entry = Bound("corrections", float(bound), truth, "Gentile 2001, Theorem 3")
            return Bounds((entry,), {**quantities, "normalized_margin": gamma})
        bound = mistake_bound(radius, margin)
        if self.update == "mira":
            bound *= max(1.0, 1.0 / (self.C * (radius**2 + 1.0)))
        source = "class docstring" if self.update == "romma" else "dual growth of each mistake"
        return Bounds((Bound("mistakes", bound, float(fresh.n_mistakes_), source),), quantities)

    def _begin(self, n_features: int) -> None:
        n_thresholds = len(self.classes_) - 1
        self.coef_, self.thresholds_ = np.zeros(n_features), np.zeros(n_thresholds)
        if self.average:
            self.last_coef_, self.last_thresholds_ = np.zeros(n_features), np.zeros(n_thresholds)
            self.drift_coef_, self.drift_thresholds_ = np.zeros(n_features), np.zeros(n_thresholds)
        if self.update == "romma":
            self.margin_ = 1.0
        if self.update in ("mira", "alma"):
            self.n_corrections_ = 0

    def _pass(self, examples: Examples, predict: bool) -> tuple[Any, int, int]:
        if self.average:
            last = self._writable("last_coef_", "last_thresholds_")
            drift = self._writable("drift_coef_", "drift_thresholds_")
        else:
            last, drift = self._writable("coef_", "thresholds_"), NO_AVERAGE
        n_examples = len(examples.order)
        predicted = np.empty(n_examples, np.int64)
        if self.update in LARGE_MARGIN:
            counts = self._large_margin_pass(examples, [*last, *drift], predict, predicted)
        else:
            counts = kernels("prank").prank_pass(
                tuple(examples), *last, *drift, self.n_seen_, predict, predicted
            )
        if self.average:
            self._take_mean(last, drift, self.n_seen_ + n_examples)
        return predicted, *counts

    def _large_margin_pass(
        self, examples: Examples, arrays: list[Any], predict: bool, predicted: IntArray
    ) -> Any:
        if self.update == "romma":
            parameter, n_corrections = self.margin_, 0
        else:
            parameter = self.C if self.update == "mira" else self.alpha
            n_corrections = self.n_corrections_
        state = np.array([LARGE_MARGIN.index(self.update), parameter, n_corrections], np.float64)
        counts = kernels("prank").large_margin_pass(
            tuple(examples), *arrays, state, predict, predicted
        )
        if self.update == "romma":
            self.margin_ = float(state[1])
        else:
            self.n_corrections_ = int(state[2])
        return counts

    def _take_mean(self, last: list[Any], drift: list[Any], n_seen: int) -> None:
        if self.update in LARGE_MARGIN:
            coef, thresholds = (total / n_seen for total in drift)
        else:
            coef, thresholds = (now - sums / n_seen for now, sums in zip(last, drift, strict=True))
        # Rounding must not undo the order of equal thresholds.
        self.coef_, self.thresholds_ = coef, np.maximum.accumulate(thresholds)

    def _linear_model(self) -> tuple[FloatArray, FloatArray]:
        if self.update != "romma":
            return self.coef_, self.thresholds_
        # The length of such a model grows with the noise of its rows: it must not weight the mean.
        length = np.sqrt(self.coef_ @ self.coef_ + self.thresholds_ @ self.thresholds_) or 1.0
        return self.coef_ / length, self.thresholds_ / length

    def _is_plain_prank(self) -> bool:
        return self.update == "perceptron" and not self.average
