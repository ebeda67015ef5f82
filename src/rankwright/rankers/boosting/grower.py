"""Trees as weak rankings: one tree a round, grown leaf by leaf, best split first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from rankwright._typing import FloatArray, IntArray
from rankwright.feedback.pair_weights import PairDistribution
from rankwright.parallel import Team
from rankwright.rankers import schema
from rankwright.rankers.boosting.binning import Columns
from rankwright.rankers.boosting.splitting import BinnedScan
from rankwright.rankers.boosting.weak_learners import DEFAULTS, WeakLearner, newton_alpha


class TreeRanking(BaseEstimator):  # type: ignore[misc]
    r"""Trees as weak rankings, so that boosting learns interactions of features.

    A tree is grown leaf by leaf on the potentials :math:`\pi` (how much its pairs pull a row up)
    and the masses :math:`\mu` (the weight of its pairs). Each split is the one that adds most to
    :math:`\sum \pi^2 / (\mu + \lambda)` over the leaves, and a leaf has the value
    :math:`\pi / (\mu + \lambda)`. The weight of the tree is the one that minimizes Z (method 1),
    times the learning rate; Z is convex, so any fraction of that weight still lowers it.

    Parameters
    ----------
    max_leaf_nodes : int >= 2, default 8
    min_samples_leaf : int >= 1, default 20
        The least number of rows in a leaf.
    l2_regularization : float >= 0, default 1.0
        :math:`\lambda`, counted in rows of average mass.
    learning_rate : float, 0 < rate <= 1, default 0.1

    Examples
    --------
    >>> import numpy as np
    >>> from rankwright import RankBoost
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 2))
    >>> y = (X[:, 0] * X[:, 1] > 0).astype(int)         # no single feature says anything
    >>> model = RankBoost(estimator=TreeRanking(max_leaf_nodes=4), n_estimators=30).fit(X, y)
    >>> model.score(X, y) > 0.95
    True
    """

    _constraints: ClassVar = {
        "max_leaf_nodes": schema.at_least(2),
        "min_samples_leaf": schema.at_least(1),
        "l2_regularization": schema.number(0.0),
        "learning_rate": schema.between(1e-6, 1.0),
    }

    def __init__(
        self,
        *,
        max_leaf_nodes: int = 8,
        min_samples_leaf: int = 20,
        l2_regularization: float = 1.0,
        learning_rate: float = 0.1,
    ) -> None:
        self.max_leaf_nodes = max_leaf_nodes
        self.min_samples_leaf = min_samples_leaf
        self.l2_regularization = l2_regularization
        self.learning_rate = learning_rate

    def check(self) -> None:
        """Raise a ParameterError unless every parameter is in its range."""
        for name, rule in self._constraints.items():
            rule.check("TreeRanking", name, getattr(self, name))


@dataclass
class Node:
    """An inner node of a tree, or a leaf (feature -1); ``gain`` is what its split added."""

    feature: int = -1
    threshold: float = 0.0
    default: int = 0
    low: int = 0
    high: int = 0
    value: float = 0.0
    gain: float = 0.0


@dataclass
class Tree:
    """The nodes of one tree, children after their parent."""

    alpha: float
    nodes: list[Node]


class Splits(NamedTuple):
    """The best split of a leaf by each feature, (n_features,) each."""

    gain: FloatArray
    cut: IntArray
    default: IntArray

    @classmethod
    def empty(cls, n: int) -> Self:
        return cls(np.zeros(n), np.zeros(n, np.int64), np.zeros(n, np.int64))


@dataclass
class _Leaf:
    """A leaf that may be split: its rows start .. stop, their sums by bin, and its best split."""

    node: Node
    start: int
    stop: int
    sums: FloatArray
    gain: float = 0.0
    feature: int = -1
    cut: int = 0
    default: int = 0


class TreeLearner(WeakLearner):
    """A tree on the potentials, weighted by method 1 (or by the learning rate alone)."""

    def __init__(
        self,
        columns: Columns,
        pool: Team,
        ranking: TreeRanking,
        *,
        default: Any,
        smoothing: float,
        line_search: bool,
    ) -> None:
        self._scan = BinnedScan(columns, pool)
        self._bins, self._pool, self._ranking = self._scan.bins, pool, ranking
        self._defaults = np.array(DEFAULTS[default])
        self._smoothing, self._line_search = smoothing, line_search
        self._rows = np.zeros(columns.n_rows, np.int32)
        self._buffer = np.zeros(columns.n_rows, np.int32)
        self._splits = Splits.empty(columns.n_features)
        self._shape = (columns.n_features, 256, 3)
        self._free: list[FloatArray] = []  # sums of leaves that are done

    def learn(self, pairs: PairDistribution) -> Tree | None:
        tree, leaves = self._grow(pairs)
        value = np.array([leaf.node.value for leaf in leaves])
        width = float(np.ptp(value))
        if len(leaves) == 1 or width <= 0:
            return None
        leaf_of = np.empty(len(self._rows), np.int32)
        for number, leaf in enumerate(leaves):
            leaf_of[self._rows[leaf.start : leaf.stop]] = number
        alpha = 1.0
        if self._line_search:
            alpha = newton_alpha(pairs.leaf_curve(leaf_of, value), width, self._smoothing)
        tree.alpha = self._ranking.learning_rate * alpha
        if tree.alpha == 0.0:
            return None
        pairs.move(value[leaf_of], tree.alpha)
        return tree

    def _grow(self, pairs: PairDistribution) -> tuple[Tree, list[_Leaf]]:
        self._rows[:] = np.arange(len(self._rows))
        ridge = self._ranking.l2_regularization * float(pairs.mass.sum() / pairs.count.sum())
        ridge = max(ridge, 1e-12 * pairs.total)
        tree = Tree(0.0, [Node()])
        root = _Leaf(tree.nodes[0], 0, len(self._rows), self._new_sums())
        self._sum(root, pairs)
        self._find_split(root, ridge)
        leaves = [root]
        while len(leaves) < self._ranking.max_leaf_nodes:
            best = leaves[_first_best([leaf.gain for leaf in leaves])]
            if best.gain <= 1e-12 * pairs.total:
                break
            leaves.remove(best)
            leaves += self._split(tree, best, pairs, ridge)
        for leaf in leaves:
            rows = np.sort(self._rows[leaf.start : leaf.stop])
            value = pairs.potential[rows].sum() / (pairs.mass[rows].sum() + ridge)
            leaf.node.value = float(value)
            self._free.append(leaf.sums)
        return tree, leaves

    def _split(self, tree: Tree, leaf: _Leaf, pairs: PairDistribution, ridge: float) -> list[_Leaf]:
        from rankwright.rankers.boosting._kernels.tree import partition_rows

        rows: NDArray[np.int32] = self._rows[leaf.start : leaf.stop]
        codes = self._bins.codes[leaf.feature]
        n_down = partition_rows(codes, rows, leaf.cut, leaf.default, self._buffer)
        middle = leaf.start + n_down
        node, n = leaf.node, len(tree.nodes)
        node.feature, node.threshold = leaf.feature, self._scan.threshold(leaf.feature, leaf.cut)
        node.default, node.low, node.high, node.gain = leaf.default, n, n + 1, leaf.gain
        down = _Leaf(Node(), leaf.start, middle, leaf.sums)
        up = _Leaf(Node(), middle, leaf.stop, leaf.sums)
        tree.nodes += [down.node, up.node]
        few, many = (down, up) if n_down <= leaf.stop - middle else (up, down)
        few.sums = self._new_sums()
        self._sum(few, pairs)
        many.sums -= few.sums  # histogram subtraction: the parent's sums are no longer needed
        for child in (down, up):
            self._find_split(child, ridge)
        return [down, up]

    def _sum(self, leaf: _Leaf, pairs: PairDistribution) -> None:
        from rankwright.rankers.boosting._kernels.tree import sum_leaf

        rows = self._rows[leaf.start : leaf.stop]
        potential, mass, count = pairs.potential[rows], pairs.mass[rows], pairs.count[rows]
        self._pool.map(
            lambda features: sum_leaf(
                self._bins.codes, rows, potential, mass, count, *features, leaf.sums
            ),
            self._scan.blocks,
        )

    def _find_split(self, leaf: _Leaf, ridge: float) -> None:
        from rankwright.rankers.boosting._kernels.tree import best_splits

        splits, min_samples_leaf = self._splits, self._ranking.min_samples_leaf
        best_splits(leaf.sums, self._bins.n_cuts, self._defaults, ridge, min_samples_leaf, splits)
        best = leaf.feature = _first_best(splits.gain)
        leaf.gain, leaf.cut = float(splits.gain[best]), int(splits.cut[best])
        leaf.default = int(splits.default[best])

    def _new_sums(self) -> FloatArray:
        return self._free.pop() if self._free else np.zeros(self._shape)


def _first_best(gains: Any) -> int:
    """The first of the gains that are the largest but for rounding."""
    largest = max(gains)
    return int(np.argmax(np.asarray(gains) >= largest - 1e-9 * abs(largest)))
