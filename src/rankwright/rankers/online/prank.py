"""PRank: a perceptron with ordered thresholds, and its large-margin form (ROMMA's update)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from rankwright._typing import FloatArray, IntArray
from rankwright.rankers import schema
from rankwright.rankers.online.base import STREAM, Rows, RuleRanker, kernels
from rankwright.rankers.schema import floats, real

PASS_CONSTRAINTS = {
    "max_iter": schema.at_least(1),
    "shuffle": schema.boolean(),
    "random_state": schema.random_state(),
}
NO_DRIFT = [np.zeros(0), np.zeros(0)]


class PRank(RuleRanker):
    r"""Perceptron ranking: weights w and thresholds c that move one unit at a time.

    The grade of a row x is the first whose threshold lies above :math:`w \cdot x`. When that is
    wrong, every threshold on the wrong side of the score moves one step toward the other side, and
    x is added to the weights once for each of them:

    .. math:: a_r = l_r \text{ where } (w \cdot x - c_r) l_r \le 0, \text{ else } 0; \qquad
              w \leftarrow w + \Big(\sum_r a_r\Big) x, \quad c \leftarrow c - a,

    with :math:`l_r = +1` if the true grade lies above threshold r and -1 otherwise. Thresholds stay
    ordered. If some unit-length rule separates the rows with margin :math:`\gamma`, the total rank
    loss over any stream is at most :math:`(k - 1)(R^2 + 1) / \gamma^2`, R the longest row.

    ``update="romma"`` seeks a large margin (Li and Long's relaxed online maximum margin, here
    derived for thresholds). With v = (w, -c), a mistake whose wrong thresholds are the set E gives
    the mean constraint :math:`v \cdot z \ge 1` with
    :math:`z = l\,(x, \tfrac{1}{|E|} \sum_{r \in E} e_r)`; the next rule is the shortest that
    meets it and keeps :math:`v' \cdot v \ge \|v\|^2`:

    .. math:: v' = \frac{\|z\|^2 \|v\|^2 - v \cdot z}{D}\, v
                 + \frac{\|v\|^2 (1 - v \cdot z)}{D}\, z, \qquad
              D = \|z\|^2 \|v\|^2 - (v \cdot z)^2 .

    This can break the order of the thresholds; they are then sorted, which leaves :math:`\|v\|` as
    it is. Every rule u that separates all rows by a margin of 1 satisfies
    :math:`u \cdot v \ge \|v\|^2` after every round (sorting can only increase the left side), and
    each mistake adds at least :math:`1 / (R^2 + 1)` to :math:`\|v\|^2`: so there are at most
    :math:`(R^2 + 1) / \gamma^2` mistakes. A row that contradicts the rule outright is passed over.

    Parameters
    ----------
    average : bool, default False
        Predict with the mean of the rule over all rounds: far steadier than the last rule. (With
        ``update="romma"`` each rule counts with length 1.)
    update : "perceptron" or "romma", default "perceptron"
    max_iter : int, default 1
        How often ``fit`` shows all rows.
    shuffle : bool, default False
        Whether ``fit`` shows them in random order; otherwise in the order given.
    random_state : int, RandomState or None
        Seeds the shuffling.

    Attributes
    ----------
    coef_ : (n_features,) array
    thresholds_ : (n_grades - 1,) array, ascending
    classes_ : (n_grades,) array
        The grades, ascending.
    n_mistakes_, n_seen_ : int
        Rounds with a wrong grade, and all rounds.
    last_coef_, last_thresholds_ : with ``average``, the rule of the last round
    drift_coef_, drift_thresholds_ : with ``average``, the running sums behind it
    margin_ : float
        With "romma": what a margin of 1 is in the units of ``coef_``. Rules grow without end on
        noisy rows and are scaled down, with the margin, from time to time.

    References
    ----------
    Crammer, Singer: Pranking with ranking. NIPS 2001.
    Li, Long: The relaxed online maximum margin algorithm. Machine Learning 46, 2002.

    Examples
    --------
    >>> X = [[0.0, 1.0], [1.0, 1.0], [2.0, 1.0], [3.0, 1.0]]
    >>> model = PRank(max_iter=20).fit(X, [1, 2, 3, 3])
    >>> model.predict(X)
    array([1., 2., 3., 3.])
    >>> model.coef_, model.thresholds_
    (array([ 1., -1.]), array([0., 1.]))

    One row at a time, with all grades declared beforehand:

    >>> stream = PRank().partial_fit([[0.0, 1.0]], [1], classes=[1, 2, 3])
    >>> stream.partial_fit([[3.0, 1.0]], [3]).n_seen_
    2
    """

    _constraints: ClassVar = {
        "average": schema.boolean(),
        "update": schema.one_of("perceptron", "romma"),
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
    }

    def __init__(
        self,
        *,
        average: bool = False,
        update: str = "perceptron",
        max_iter: int = 1,
        shuffle: bool = False,
        random_state: Any = None,
    ) -> None:
        self.average = average
        self.update = update
        self.max_iter = max_iter
        self.shuffle = shuffle
        self.random_state = random_state

    def _begin(self, n_features: int) -> None:
        for name in set(self._learned) - set(STREAM):  # what another setting left behind
            self.__dict__.pop(name, None)
        prefixes = ["", "last_", "drift_"] if self.average else [""]
        for prefix in prefixes:
            self.__dict__[f"{prefix}coef_"] = np.zeros(n_features)
            self.__dict__[f"{prefix}thresholds_"] = np.zeros(len(self.classes_) - 1)
        if self.update == "romma":
            self.margin_ = 1.0

    def _show(
        self, rows: Rows, grade: IntArray, order: IntArray, asked: bool
    ) -> tuple[Any, int, int]:
        last = "last_" if self.average else ""
        rule = self._writable(f"{last}coef_", f"{last}thresholds_")
        drift = self._writable("drift_coef_", "drift_thresholds_") if self.average else NO_DRIFT
        predicted = np.empty(len(order), np.int64)
        arguments = (*rows, grade, order, *rule, *drift, self.n_seen_, asked, predicted)
        if self.update == "romma":
            margin = np.array([self.margin_])
            found = kernels().romma_pass(*arguments, margin)
            self.margin_ = float(margin[0])
        else:
            found = kernels().prank_pass(*arguments)
        if self.average:
            self._take_mean(rule, drift, self.n_seen_ + len(order))
        return predicted, *found

    def _take_mean(self, rule: list[Any], drift: list[Any], rounds: int) -> None:
        if self.update == "romma":
            coef, thresholds = (sums / rounds for sums in drift)
        else:
            coef, thresholds = (now - sums / rounds for now, sums in zip(rule, drift, strict=True))
        # Rounding must not undo the order of equal thresholds.
        self.coef_, self.thresholds_ = coef, np.maximum.accumulate(thresholds)

    def _rule(self) -> tuple[FloatArray, FloatArray]:
        if self.update != "romma":
            return self.coef_, self.thresholds_
        # The length of such a rule tells how noisy its rows were, not how much it should count.
        length = np.sqrt(self.coef_ @ self.coef_ + self.thresholds_ @ self.thresholds_) or 1.0
        return self.coef_ / length, self.thresholds_ / length

    def _is_plain_prank(self) -> bool:
        return self.update == "perceptron" and not self.average
