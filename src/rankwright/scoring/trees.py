"""A weighted sum of decision trees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rankwright.scoring.additive import columns_of
from rankwright.scoring.base import FloatArray, IntArray, Matrix, Scorer, must

__all__ = ["Trees"]

BLOCK = 16384


@dataclass(frozen=True, eq=False)
class Trees(Scorer):
    """score = the sum over trees of weight * (value of the leaf that the row falls into).

    Node n is a leaf if ``feature[n]`` is -1; else a row goes to ``high[n]`` if its feature is
    above ``threshold[n]``, to ``low[n]`` if not, and where it lacks the feature to ``high[n]`` if
    ``default[n]`` is 1. Children come after their parent; tree t starts at ``root[t]``.

    Examples
    --------
    >>> stump = Trees(
    ...     n_inputs=1, root=np.array([0]), weight=np.array([2.0]), feature=np.array([0, -1, -1]),
    ...     threshold=np.array([1.0, 0.0, 0.0]), default=np.array([0, 0, 0]),
    ...     low=np.array([1, 0, 0]), high=np.array([2, 0, 0]), value=np.array([0.0, -1.0, 3.0]))
    >>> stump.decision_function(np.array([[1.0], [1.5], [np.nan]]))
    array([-2.,  6., -2.])
    """

    kind: ClassVar[str] = "trees"
    n_inputs: int
    root: IntArray
    weight: FloatArray
    feature: IntArray
    threshold: FloatArray
    default: IntArray
    low: IntArray
    high: IntArray
    value: FloatArray
    absent_abstains: bool = False

    def __post_init__(self) -> None:
        must(self.n_inputs >= 1, "n_inputs must be >= 1")
        nodes = (self.feature, self.threshold, self.default, self.low, self.high, self.value)
        n = len(self.feature)
        must(all(node.shape == (n,) for node in nodes), "one entry per node needed")
        must(self.root.ndim == 1 and self.root.shape == self.weight.shape, "one weight per tree")
        must(((self.root >= 0) & (self.root < n)).all(), "a tree starts outside the nodes")
        must(((self.feature >= -1) & (self.feature < self.n_inputs)).all(), "feature out of range")
        inner = np.flatnonzero(self.feature >= 0)
        for child in (self.low[inner], self.high[inner]):
            must(((child > inner) & (child < n)).all(), "children must come after their parent")
        # A node with two parents would double the work at every level: a file could hang a server.
        entries = np.concatenate([self.root, self.low[inner], self.high[inner]])
        must(np.bincount(entries, minlength=1).max() <= 1, "a node must have one parent only")
        must(not np.isnan(self.threshold).any(), "thresholds must be numbers")
        must(np.isin(self.default, (0, 1)).all(), "default must be 0 or 1")
        must(np.isfinite(self.value).all() and np.isfinite(self.weight).all(), "values not finite")

    @property
    def n_features(self) -> int:
        return self.n_inputs

    def decision_function(self, X: Matrix) -> FloatArray:
        scores = np.zeros(X.shape[0])
        for start in range(0, X.shape[0], BLOCK):
            columns = self._columns(X[start : start + BLOCK])
            for tree in range(len(self.root)):
                scores[start : start + BLOCK] += self.weight[tree] * self._leaves(tree, columns)
        return scores

    def tree(self, number: int, X: Matrix) -> FloatArray:
        """The values of the leaves of one tree that the rows fall into, without its weight."""
        return self._leaves(number, self._columns(X))

    def _columns(self, X: Matrix) -> dict[int, FloatArray]:
        used = np.unique(self.feature[self.feature >= 0])
        columns = {int(feature): np.empty(X.shape[0]) for feature in used}
        for rows, place, column in columns_of(X, used, self.absent_abstains):
            columns[int(used[place])][rows] = column
        if not columns:
            columns[-1] = np.empty(X.shape[0])
        return columns

    def _leaves(self, tree: int, columns: dict[int, FloatArray]) -> FloatArray:
        n_rows = len(next(iter(columns.values())))
        out = np.empty(n_rows)
        waiting = [(int(self.root[tree]), np.arange(n_rows))]
        while waiting:
            node, rows = waiting.pop()
            if self.feature[node] < 0:
                out[rows] = self.value[node]
                continue
            x = columns[int(self.feature[node])][rows]
            up = x > self.threshold[node]
            if self.default[node]:
                up |= np.isnan(x)
            waiting.append((int(self.low[node]), rows[~up]))
            waiting.append((int(self.high[node]), rows[up]))
        return out
