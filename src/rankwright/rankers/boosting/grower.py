"""Growing one tree a round, best leaf first."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from rankwright._typing import FloatArray
from rankwright.parallel import Team
from rankwright.rankers import schema
from rankwright.rankers.boosting import weak_learners as methods
from rankwright.rankers.boosting.binning import Columns
from rankwright.rankers.boosting.pair_weights import PairDistribution
from rankwright.rankers.boosting.splitting import DEFAULTS, BinnedScan
from rankwright.rankers.boosting.weak_learners import Curve, WeakLearner


class TreeRanking(BaseEstimator):  # type: ignore[misc]
    r"""Trees as weak rankings, so that boosting reaches interactions of features.

    A tree is grown leaf by leaf on the potentials :math:`\pi` (how much the pairs want a row up)
    and the masses :math:`\mu` (how much weight its pairs have): the split is taken that adds most
    to :math:`\sum \pi^2 / (\mu + \lambda)` over the leaves, and a leaf has the value
    :math:`\pi / (\mu + \lambda)`. The weight of the tree is the one that minimizes Z (method 1),
    times the learning rate; Z is convex, so any part of that weight still lowers it.

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


def leaf_curve(pairs: PairDistribution, leaf: NDArray[np.int32], value: FloatArray) -> Curve:
    """As ``pairs.curve``, where each row moves by the value of its leaf.

    Costs O(rows + pairs) once, then O(levels * leaves) for each distance.
    """
    from rankwright.rankers.boosting._kernels import tree as _kernels

    levels, listed, n = pairs.levels, pairs.pairs, len(value)
    value = value - (value.max() + value.min()) / 2  # only differences count: keep powers small
    sums = np.empty((len(levels.grade), n, 2))
    _kernels.sum_levels(leaf, levels.member, levels.level_ptr, levels.rising, levels.falling, sums)
    ratio = float(np.exp(levels.chain_shift - pairs.shift))
    place = leaf[listed.lower] * n + leaf[listed.upper]
    share = np.bincount(place, listed.share, n * n).reshape(n, n) / pairs.total
    gap = np.subtract.outer(value, value)

    def curve(distance: float) -> tuple[float, float, float]:
        weight, first, second = _kernels.leaf_curve(
            sums, value, distance, levels.query_ptr, levels.grade, levels.query_weight,
            levels.magnitude, ratio, levels.chain,
        )  # fmt: skip
        moved = share * np.exp(distance * gap)
        return (
            weight + float(moved.sum()),
            first + float((moved * gap).sum()),
            second + float((moved * gap * gap).sum()),
        )

    return curve


@dataclass
class Tree:
    """The nodes of one tree, children after their parent; feature -1 is a leaf.

    ``gain`` says what each split added, for the importance of features.
    """

    alpha: float = 0.0
    feature: list[int] = field(default_factory=list)
    threshold: list[float] = field(default_factory=list)
    default: list[int] = field(default_factory=list)
    low: list[int] = field(default_factory=list)
    high: list[int] = field(default_factory=list)
    value: list[float] = field(default_factory=list)
    gain: list[float] = field(default_factory=list)

    def add_leaf(self, value: float) -> int:
        for column, entry in zip(self._columns(), (-1, 0.0, 0, 0, 0, value, 0.0), strict=True):
            column.append(entry)
        return len(self.feature) - 1

    def split(self, node: int, entries: tuple[Any, ...]) -> None:
        for column, entry in zip(self._columns(), entries, strict=True):
            column[node] = entry

    def _columns(self) -> tuple[list[Any], ...]:
        return (
            self.feature, self.threshold, self.default, self.low, self.high, self.value, self.gain
        )  # fmt: skip


@dataclass
class _Leaf:
    """A leaf that may be split: its rows, its sums, and its best split."""

    node: int
    start: int
    stop: int
    sums: FloatArray
    gain: float = 0.0
    feature: int = -1
    cut: int = 0
    side: int = 0


class TreeLearner(WeakLearner):
    """A tree on the potentials, weighted by method 1 (or by the learning rate alone)."""

    def __init__(
        self,
        columns: Columns,
        team: Team,
        ranking: TreeRanking,
        *,
        default: Any,
        smoothing: float,
        line_search: bool,
    ) -> None:
        self._bins = BinnedScan(columns, team)
        self._team, self._ranking = team, ranking
        self._defaults = np.array(DEFAULTS[default])
        self._smoothing, self._line_search = smoothing, line_search
        n, d = columns.n_rows, columns.n_features
        self._rows = np.zeros(n, np.int32)
        self._room = np.zeros(n, np.int32)
        self._best = np.zeros(d), np.zeros(d, np.int64), np.zeros(d, np.int64)
        self._spare: list[FloatArray] = []
        self._shape = (d, 256, 3)

    def learn(self, pairs: PairDistribution) -> Tree | None:
        tree, leaves = self._grow(pairs)
        if len(leaves) == 1:
            return None
        value = np.array([tree.value[leaf.node] for leaf in leaves])
        width = float(np.ptp(value))
        if width <= 0:
            return None
        leaf_of = np.empty(len(self._rows), np.int32)
        for number, leaf in enumerate(leaves):
            leaf_of[self._rows[leaf.start : leaf.stop]] = number
        alpha = 1.0
        if self._line_search:
            curve = leaf_curve(pairs, leaf_of, value)
            alpha = methods.from_curve(curve, width, self._smoothing)
        tree.alpha = self._ranking.learning_rate * alpha
        if tree.alpha == 0.0:
            return None
        pairs.move_by(tree.alpha * value[leaf_of])
        return tree

    def _grow(self, pairs: PairDistribution) -> tuple[Tree, list[_Leaf]]:
        self._rows[:] = np.arange(len(self._rows))
        ridge = self._ranking.l2_regularization * float(pairs.mass.sum() / pairs.count.sum())
        ridge = max(ridge, 1e-12 * pairs.total)
        tree = Tree()
        root = _Leaf(tree.add_leaf(0.0), 0, len(self._rows), self._take_room())
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
            tree.value[leaf.node] = self._leaf_value(leaf, pairs, ridge)
            self._spare.append(leaf.sums)
        return tree, leaves

    def _leaf_value(self, leaf: _Leaf, pairs: PairDistribution, ridge: float) -> float:
        rows = np.sort(self._rows[leaf.start : leaf.stop])
        return float(pairs.potential[rows].sum() / (pairs.mass[rows].sum() + ridge))

    def _split(self, tree: Tree, leaf: _Leaf, pairs: PairDistribution, ridge: float) -> list[_Leaf]:
        from rankwright.rankers.boosting._kernels import tree as _kernels

        rows: NDArray[np.int32] = self._rows[leaf.start : leaf.stop]
        n_down = _kernels.part_rows(
            self._bins.codes[leaf.feature], rows, leaf.cut, leaf.side, self._room
        )
        middle = leaf.start + n_down
        low, high = tree.add_leaf(0.0), tree.add_leaf(0.0)
        threshold = self._bins.threshold(leaf.feature, leaf.cut)
        entries = (leaf.feature, threshold, leaf.side, low, high, 0.0, leaf.gain)
        tree.split(leaf.node, entries)
        down = _Leaf(low, leaf.start, middle, leaf.sums)
        up = _Leaf(high, middle, leaf.stop, leaf.sums)
        few, many = (down, up) if n_down <= leaf.stop - middle else (up, down)
        few.sums = self._take_room()
        self._sum(few, pairs)
        many.sums -= few.sums  # the sums of the parent are not needed any more
        for child in (down, up):
            self._find_split(child, ridge)
        return [down, up]

    def _sum(self, leaf: _Leaf, pairs: PairDistribution) -> None:
        from rankwright.rankers.boosting._kernels import tree as _kernels

        rows = self._rows[leaf.start : leaf.stop]
        potential, mass, count = pairs.potential[rows], pairs.mass[rows], pairs.count[rows]
        self._team.map(
            lambda features: _kernels.sum_leaf(
                self._bins.codes, rows, potential, mass, count, *features, leaf.sums
            ),
            self._bins.blocks,
        )

    def _find_split(self, leaf: _Leaf, ridge: float) -> None:
        from rankwright.rankers.boosting._kernels import tree as _kernels

        _kernels.best_splits(
            leaf.sums, self._bins.n_cuts, self._defaults, ridge, self._ranking.min_samples_leaf, 0,
            len(self._best[0]), *self._best,
        )  # fmt: skip
        gains, cuts, sides = self._best
        leaf.feature = _first_best(gains)
        leaf.gain = float(gains[leaf.feature])
        leaf.cut, leaf.side = int(cuts[leaf.feature]), int(sides[leaf.feature])

    def _take_room(self) -> FloatArray:
        return self._spare.pop() if self._spare else np.zeros(self._shape)


def _first_best(gains: Any) -> int:
    """The first of the gains that are the largest but for rounding."""
    largest = max(gains)
    return int(np.argmax(np.asarray(gains) >= largest - 1e-9 * abs(largest)))
