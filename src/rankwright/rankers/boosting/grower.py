"""Grows trees on gradients and Hessians: leaf by leaf, or level by level (symmetric trees)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import BoolArray, FloatArray, IntArray
from rankwright.feedback.pair_weights import pointers
from rankwright.rankers.boosting.binning import MISSING, ONE_LEVEL, ORDERED, BinnedRows
from rankwright.rankers.boosting.categories import FOLDS, Folds, LevelCodes, code_levels
from rankwright.runtime import Team, ranges, require_memory
from rankwright.scoring.trees import Node

# The words of a job. START .. STOP are the rows of the leaf that a FEATURE divides, whose child
# FIRST_CHILD (0: left) is the first leaf to be split next; or else the rows of that first leaf.
# FIRST and SECOND are the slots of sums. N_LEFT is an answer: how many rows went left.
STEPS, START, STOP, FEATURE, FIRST_CHILD, FIRST, SECOND, N_LEAVES, N_LEFT, JOB_WORDS = range(10)
DIVIDE, SUM, SPLIT = 1, 2, 4  # STEPS: divide rows, sum those of the first leaf, find best splits
SERIAL = 50_000  # codes up to which one thread grows a tree: sharing it would not pay
MANY_FEATURES, FEW_BINS = 4096, 64  # histograms with few bins are narrow if features are many
NO_GRADIENT = 1e-280  # below it, gradients have no integer units: nothing is left to learn
SPARSE = 16  # the codes of a leaf are copied side by side if it has up to n_rows / SPARSE rows


@dataclass
class Tree:
    """The nodes of one tree, children after their parent.

    ``level_codes`` are the codes by which the levels of a feature were split.
    """

    alpha: float
    nodes: list[Node]
    level_codes: dict[int, NDArray[np.uint8]] = field(default_factory=dict)

    def table(self) -> BinnedTree:
        """The nodes for ``walk_tree``, on rows in the bins that the tree was grown on."""
        goes_right = np.zeros((len(self.nodes), 256), np.uint8)
        for number, node in enumerate(self.nodes):
            if node.feature >= 0:
                goes_right[number] = node.goes_right
        return BinnedTree(
            np.array([node.feature for node in self.nodes], np.int64),
            np.array([(node.low, node.high) for node in self.nodes], np.int64),
            np.array([node.value for node in self.nodes], np.float64),
            goes_right,
        )


class BinnedTree(NamedTuple):
    """A tree for compiled code."""

    feature: IntArray  # (n_nodes,) -1 for a leaf
    children: IntArray  # (n_nodes, 2) low, high
    value: FloatArray  # (n_nodes,)
    goes_right: NDArray[np.uint8]  # (n_nodes, 256) which codes go to high


class Growth(NamedTuple):
    """What all splits of a tree obey, in the integer units of its gradients and Hessians."""

    ridge: float  # added to the Hessian of a leaf
    category_ridge: float  # added to that of both sides of a split of levels in order
    average: float  # of the Hessians of rows
    min_samples: int
    bits: int  # how many bits of a sum hold the number of rows
    defaults: BoolArray  # (2,) which ways a missing value may go
    bounded: bool  # whether any feature is monotone
    symmetric: bool  # whether all leaves of a level have one split


class Leaves(NamedTuple):
    """One or two leaves whose best splits are looked for."""

    total: IntArray  # (2, 2) the sums of their rows
    bounds: FloatArray  # (2, 2) the least and the largest value of the leaf
    allowed: BoolArray  # (3, n_features) that may split them; whose histograms are needed later


class Best(NamedTuple):
    """The best split of each of two leaves, for each block of four features."""

    gain: FloatArray  # (n_blocks, 2) 0 for none
    # (n_blocks, 2, 5) feature, bin threshold, whether the feature is missing in some rows of the
    # leaf, the sums of the rows that go right
    split: IntArray
    goes_right: NDArray[np.uint8]  # (n_blocks, 2, 256)
    leader: FloatArray  # (2,) a gain that some block has reached


class LevelGains(NamedTuple):
    """What the splits of all leaves of a level gain together, of a symmetric tree."""

    is_first: BoolArray  # (1,) whether the level is the root
    gain: FloatArray  # (2, starts[-1]) by default direction, and by feature and candidate
    has_missing: BoolArray  # (n_features,) whether some row of the tree has no value

    @classmethod
    def empty(cls, n_features: int, size: int) -> Self:
        return cls(np.zeros(1, bool), np.zeros((2, size)), np.zeros(n_features, bool))


class Shared(NamedTuple):
    """What the threads that grow a tree share."""

    team: IntArray  # (WORDS,) see _kernels.barrier
    job: IntArray  # (JOB_WORDS,) see _kernels.grower
    leaves: Leaves
    best: Best
    goes_right: NDArray[np.uint8]  # (256,) which codes of the feature that divides a leaf
    counts: IntArray  # (64,) how many rows of each part of the leaf go left
    rows: NDArray[np.int32]  # (n_rows,) the rows in use, those of a leaf side by side
    buffer: NDArray[np.int32]  # (n_rows,)
    pairs: IntArray  # (n_rows, 2) gradient; Hessian and count
    gathered: IntArray  # (n_rows, 2) the pairs of the first leaf side by side
    by_row: NDArray[np.uint32]  # (n_rows, n_blocks) the codes of all rows
    copied: NDArray[np.uint32]  # (n_blocks, >= n_rows / SPARSE) those of a small first leaf
    starts: IntArray  # (4 * n_blocks + 1,) where the histogram of each feature starts
    sums: IntArray  # (n_slots, starts[-1], 2) histograms of leaves
    level: LevelGains  # of a symmetric tree; empty otherwise

    @classmethod
    def of(
        cls,
        bins: BinnedRows,
        n_slots: int,
        empty: Callable[..., NDArray[Any]] = np.empty,
        symmetric: bool = False,
    ) -> Self:
        from rankwright.rankers.boosting._kernels.barrier import WORDS
        from rankwright.rankers.boosting._kernels.histogram import turn_codes

        codes, n_features, starts = bins.codes, len(bins.n_bins), _histogram_starts(bins)
        n_blocks, n_rows = codes.shape
        require_memory(
            16.0 * starts[-1] * n_slots + 8.0 * n_blocks * n_rows,
            f"histograms of {n_features:,} columns for {n_slots} leaves",
            "Drop columns with few values, or set a smaller max_leaf_nodes.",
        )
        by_row = empty((n_rows, n_blocks), np.uint32)
        turn_codes(codes, by_row)
        # An odd number of cache lines, so that those of all blocks fit in a cache at once.
        n_copied = 16 * ((n_rows // SPARSE // 16) | 1)
        shape = n_blocks, 2
        leaves = Leaves(
            np.zeros((2, 2), np.int64), np.zeros((2, 2)), np.zeros((3, n_features), bool)
        )
        best = Best(
            np.zeros(shape),
            np.zeros((*shape, 5), np.int64),
            np.zeros((*shape, 256), np.uint8),
            np.zeros(2),
        )
        return cls(
            np.zeros(WORDS, np.int64),
            np.zeros(JOB_WORDS, np.int64),
            leaves,
            best,
            np.zeros(256, np.uint8),
            np.zeros(64, np.int64),
            np.zeros(n_rows, np.int32),
            np.zeros(n_rows, np.int32),
            np.zeros((n_rows, 2), np.int64),
            np.zeros((n_rows, 2), np.int64),
            by_row,
            np.zeros((n_blocks, n_copied), np.uint32),
            starts,
            np.zeros((n_slots, int(starts[-1]), 2), np.int64),
            LevelGains.empty(n_features, int(starts[-1]) if symmetric else 0),
        )


def _histogram_starts(bins: BinnedRows) -> IntArray:
    """256 bins for each feature; only those in use where many features have few."""
    n_blocks = len(bins.codes)
    width = np.full((n_blocks, 4), 256)
    if len(bins.n_bins) > MANY_FEATURES:
        n_bins = np.ones(4 * n_blocks, np.int64)
        n_bins[: len(bins.n_bins)] = bins.n_bins
        narrow = n_bins.reshape(-1, 4) + 1
        width = np.where(narrow.max(axis=1, keepdims=True) <= FEW_BINS, narrow, width)
    return pointers(width.ravel())


class BestSplit(NamedTuple):
    gain: float
    feature: int
    bin_threshold: int
    goes_right: NDArray[np.uint8]
    has_missing: bool
    total: tuple[int, int]  # of the rows that go right


@dataclass(eq=False)
class _Leaf:
    """A leaf that may be split: its rows start .. stop, their sums, and its best split."""

    node: Node
    start: int
    stop: int
    total: tuple[int, int]
    bounds: tuple[float, float]
    path: frozenset[int] = frozenset()
    depth: int = 0
    sums: int = -1
    split: BestSplit | None = None


@dataclass(frozen=True)
class TreeOptions:
    """How trees are grown; ``interactions`` are the sets of features that may share a branch."""

    max_leaf_nodes: int
    min_samples_leaf: int
    l2_regularization: float
    defaults: tuple[bool, bool] = (True, True)  # whether missing values may go left, and right
    missing_unseen: str = (
        "majority"  # where missing values go that no row of the node had, or "low"
    )
    interactions: tuple[frozenset[int], ...] = ()
    max_depth: int | None = None  # levels of splits from the root to a leaf; None for any number
    min_split_gain: float = 0.0  # as ``Node.gain`` counts it; of a level, the sum
    symmetric: bool = False  # one split for all leaves of a level; max_depth is a number then
    colsample_bynode: float = 1.0  # the share of the features that a split may use
    cat_smooth: float = 10.0  # added to the Hessian of a level in its statistic, in rows
    cat_l2: float = 10.0  # added to those of the sides of a split of levels, in rows
    max_bins: int = 255  # of levels


class Peers(Protocol):
    """Other processes that grow the same tree, each on rows of its own.

    Every process has all bins and makes the same decisions. Sums are those of integers, so how many
    processes there are, and which rows each has, changes no bit.
    """

    def maximum(self, values: FloatArray) -> FloatArray:
        """The largest of the values of all processes, one by one."""

    def total(self, values: IntArray) -> IntArray:
        """The sums of the values of all processes."""

    def sum_histograms(self, sums: IntArray, starts: IntArray) -> slice:
        """Add up a leaf's histograms of a share of the features, and return that share.

        ``sums`` (starts[-1], 2) hold those of this process; for the share, those of all afterwards.
        """

    def best_splits(self, best: Best) -> None:
        """Exchange what each process found for its share of the features."""


class Grower:
    """Grows trees on gradients and Hessians, leaf by leaf, best split first.

    Parameters
    ----------
    bins : BinnedRows
    count : (n_rows,) int64, how many rows each row counts as
    name_split : function of a feature, a bin threshold and ``goes_right`` that returns threshold
        and categories
    peers : Peers, or None if all rows are here
    empty : function of a shape and a type that makes large arrays
    levels, folds : of the rows, if features have many levels
    """

    def __init__(
        self,
        bins: BinnedRows,
        count: IntArray,
        name_split: Callable[..., tuple[float, FloatArray]],
        options: TreeOptions,
        pool: Team,
        peers: Peers | None = None,
        empty: Callable[..., NDArray[Any]] = np.empty,
        levels: LevelCodes | None = None,
        folds: Folds | None = None,
    ) -> None:
        self._levels, self._folds = levels, folds
        self.bins, self.options, self._pool, self._peers = bins, options, pool, peers
        self._count, self._name_split = count, name_split
        self.n_rows, self.n_features = bins.codes.shape[1], len(bins.n_bins)
        self._n_counted = self._total([int(count.sum())])[0]
        # A slot for each leaf that may be split. Memory is taken when a slot is first used.
        n_splittable = self._n_counted // (2 * options.min_samples_leaf) + 2
        n_slots = min(options.max_leaf_nodes, n_splittable) + 1
        self._shared = Shared.of(bins, n_slots, empty, options.symmetric)
        self._rows, self._pairs = self._shared.rows, self._shared.pairs
        self._free = list(range(n_slots))[::-1]
        self._share = slice(0, self.n_features)  # whose histograms of all processes are here
        self._all = np.arange(self.n_rows, dtype=np.int32)
        shared = 4 * bins.codes.size > SERIAL
        self._parts = ranges(self.n_rows, 2 * pool.threads if shared and self.n_rows else 1)

    def grow(
        self,
        gradient: FloatArray,
        hessian: FloatArray,
        rows: NDArray[np.int32] | None = None,
        features: BoolArray | None = None,
        seed: int = 0,
        number: int = 0,
    ) -> Tree:
        """One tree: leaf values are sums of gradients over sums of Hessians plus the ridge.

        ``rows`` and ``features`` are those in use, all by default. ``gradient`` points the way in
        which scores should move. Where no gradient is left, the tree is a single leaf of value 0.
        ``seed`` is that of the features that each split may use, ``number`` that of the folds.
        """
        self._features = np.ones(self.n_features, bool) if features is None else features
        self._seed, self._n_draws = seed, 0
        used = self._all if rows is None else rows
        n = self.n_in_use = len(used)
        self._rows[:n] = used
        root = _Leaf(Node(cover=n), 0, n, (0, 0), (-np.inf, np.inf))
        tree, self._leaves = Tree(1.0, [root.node]), [root]
        largest = self._largest(gradient, hessian)
        if self._peers is not None:
            largest = self._peers.maximum(largest)
        if min(largest) < NO_GRADIENT:
            return tree
        root.total = self._quantize(gradient, hessian, used, largest)
        if self._levels is not None and self._levels.levels:
            tree.level_codes = self._order_levels(used, number)
        self._level_codes = tree.level_codes
        self._unseen: list[Node] = []
        with self._team():
            grow = self._grow_levels if self.options.symmetric else self._grow
            leaves = grow(tree, root)
        for leaf in leaves:
            leaf.node.value = self._value(leaf.total, leaf.bounds) * self._unit
            self._release(leaf)
        # A leaf may have no rows here: it comes before the one that starts where it does.
        self._leaves = sorted(leaves, key=lambda leaf: (leaf.start, leaf.stop))
        self._finish(tree)
        return tree

    def _order_levels(self, rows: NDArray[np.int32], number: int) -> dict[int, NDArray[np.uint8]]:
        """Write the codes of rows whose features have many levels; returns those of the levels."""
        from rankwright.rankers.boosting._kernels.categories import sum_levels

        assert self._levels is not None
        assert self._folds is not None
        options, growth, codes = self.options, self._growth, {}
        fold = self._folds.draw(number)
        for feature, level in self._levels.levels.items():
            sums = np.zeros((self._levels.n_levels[feature] + 2, FOLDS, 2), np.int64)
            sum_levels(level, fold, self._pairs, rows, sums)
            if self._peers is not None:
                sums = self._peers.total(sums.ravel()).reshape(sums.shape)
            smoothing = max(options.cat_smooth * growth.average, 1e-3)
            coded = code_levels(sums, growth.bits, smoothing, options.max_bins)
            by_fold, codes[feature], self.bins.n_bins[feature] = coded
            self._levels.write(feature, by_fold, fold)
            block = feature >> 2
            self._shared.by_row[:, block] = self.bins.codes[block]
        return codes

    def _finish(self, tree: Tree) -> None:
        """Count the rows of all nodes, and send values that no row of a node lacked with most."""
        covers = self._total([node.cover for node in tree.nodes])
        for node, cover in zip(tree.nodes, covers, strict=True):
            node.cover = cover
        for node in self._unseen if self.options.missing_unseen == "majority" else ():
            node.default = int(covers[node.high] > covers[node.low])
            node.goes_right[255] = node.default

    def _total(self, counts: list[int]) -> list[int]:
        """Whole numbers, added up over all processes."""
        if self._peers is None:
            return counts
        total: list[int] = self._peers.total(np.array(counts, np.int64)).tolist()
        return total

    def _grow(self, tree: Tree, root: _Leaf) -> list[_Leaf]:
        leaves = [root]
        self._find_first(root)
        while len(leaves) < self.options.max_leaf_nodes:
            best = leaves[first_best([leaf.split.gain if leaf.split else 0.0 for leaf in leaves])]
            if best.split is None:
                break
            leaves.remove(best)
            room = len(leaves) + 2 < self.options.max_leaf_nodes
            leaves += self._divide(tree, best, best.split, room)
        return leaves

    def _grow_levels(self, tree: Tree, root: _Leaf) -> list[_Leaf]:
        """One split for all leaves of a level: that with the largest sum of gains.

        A leaf that the split would give a child with too few rows, or the wrong order of values of
        a monotone feature, is not divided; a later split may.
        """
        level, leaves = self._shared.level, [root]
        level.is_first[0] = True
        level.gain[:] = 0.0
        self._find_first(root)
        level.is_first[0] = False
        for _ in range(self.options.max_depth or 0):
            open_leaves = any(leaf.sums >= 0 for leaf in leaves)
            split = self._best_of_level(self._allowed(leaves[0])) if open_leaves else None
            if split is None:
                break
            level.gain[:] = 0.0
            leaves = self._split_level(tree, leaves, split)
        return leaves

    def _best_of_level(self, allowed: BoolArray) -> BestSplit | None:
        """The split with the largest sum of gains; its total is not known yet."""
        level, starts = self._shared.level, self._shared.starts
        gains = np.maximum.reduceat(level.gain.max(axis=0), starts[:-1])[: self.n_features]
        gains = np.where(self._drawn(allowed), gains, 0.0)
        if self._peers is not None:
            gains = self._peers.maximum(gains)
        feature = int(np.argmax(gains >= gains.max() * (1.0 - 1e-9)))
        if gains[feature] <= self._least:
            return None
        if gains[feature] * self._gain_unit < self.options.min_split_gain:
            return None
        found = np.zeros(258, np.int64)  # what goes right, the bin threshold, has missing values
        if self._share.start <= feature < self._share.stop:
            one_level = self.bins.kind[feature] == ONE_LEVEL
            n = int(self.bins.n_bins[feature]) - one_level
            both = level.gain[:, starts[feature] : starts[feature] + n].ravel()
            default, last = divmod(int(np.argmax(both >= both.max() * (1.0 - 1e-9))), n)
            found[last if one_level else slice(n - 1 - last, MISSING)] = 1
            found[MISSING:] = default, n - 2 - last, level.has_missing[feature]
        *codes, bin_threshold, has_missing = self._total(found.tolist())
        goes_right = np.array(codes, np.uint8)
        return BestSplit(
            float(gains[feature]), feature, bin_threshold, goes_right, bool(has_missing), (0, 0)
        )

    def _split_level(self, tree: Tree, leaves: list[_Leaf], split: BestSplit) -> list[_Leaf]:
        """Divide leaves by one split, and add the gains of splits of the new ones to the level."""
        feature, shared = split.feature, self._shared
        first, last = shared.starts[feature : feature + 2]
        slots = [leaf.sums for leaf in leaves if leaf.sums >= 0]
        sums = np.zeros((len(slots), 2), np.int64)
        if self._share.start <= feature < self._share.stop:
            codes = np.append(split.goes_right[: last - first - 1], split.goes_right[255])
            sums = shared.sums[slots, first:last][:, codes == 1].sum(axis=1)
        totals = np.reshape(self._total(sums.ravel().tolist()), (-1, 2)).tolist()
        right = {slot: (first, second) for slot, (first, second) in zip(slots, totals, strict=True)}
        found: list[_Leaf] = []
        for leaf in leaves:
            leaf.path |= {feature}
            if leaf.sums < 0:
                found.append(leaf)
                continue
            total = right[leaf.sums]
            rest = leaf.total[0] - total[0], leaf.total[1] - total[1]
            if not self._is_usable(feature, leaf, rest, total):
                found.append(leaf)
                self._work([leaf], [True], SPLIT)
                continue
            gain = max(0.0, sum(map(self._worth, (rest, total))) - self._worth(leaf.total))
            own = split._replace(gain=gain, goes_right=split.goes_right.copy(), total=total)
            found += self._divide(tree, leaf, own)
        return found

    def _is_usable(self, feature: int, leaf: _Leaf, left: Any, right: Any) -> bool:
        """Whether the children have enough rows, and values in the order of a monotone feature."""
        mask, sign = (1 << self._growth.bits) - 1, int(self.bins.monotone[feature])
        if self.bins.kind[feature] == ORDERED:
            sign = 1
        if min(left[1] & mask, right[1] & mask) < self._growth.min_samples:
            return False
        ahead = self._value(right, leaf.bounds) - self._value(left, leaf.bounds) if sign else 0.0
        return sign * ahead >= 0

    def _worth(self, total: tuple[int, int]) -> float:
        return total[0] * total[0] / ((total[1] >> self._growth.bits) + self._growth.ridge)

    @contextmanager
    def _team(self) -> Iterator[None]:
        """Let the other threads work on the jobs of one tree."""
        from rankwright.rankers.boosting._kernels import barrier
        from rankwright.rankers.boosting._kernels import grower as _kernels

        def work() -> None:
            _kernels.work(self.bins, self._shared, self._growth, False)

        team, several = self._shared.team, len(self._parts) > 1 and barrier.SHARES
        team[:] = 0  # no other thread is in a kernel now
        team[barrier.N_THREADS] = self._pool.threads if several else 1
        others = self._pool.start(work) if several else []
        try:
            yield
        finally:
            team[barrier.TURN] = barrier.CLOSED
            self._pool.finish(others)

    @property
    def values(self) -> FloatArray:
        """The values of the leaves of the last tree, in the order of ``starts``."""
        return np.array([leaf.node.value for leaf in self._leaves])

    def add_values(self, factor: float, out: FloatArray) -> None:
        """Add the last tree to the scores of the rows that it was grown on."""
        from rankwright.rankers.boosting._kernels.predictor import add_values

        starts = np.array([leaf.start for leaf in self._leaves] + [self.n_in_use], np.int64)
        values = factor * self.values
        cuts = np.searchsorted(starts, [last for _, last in self._parts[:-1]])
        spans = pairwise([0, *cuts.tolist(), len(values)])
        self._pool.map(
            lambda s: add_values(self._rows, starts[s[0] : s[1] + 1], values[s[0] : s[1]], out),
            spans,
        )

    def leaf_of(self) -> NDArray[np.int32]:
        """The leaf of each row, in the order of ``values``."""
        sizes = [leaf.stop - leaf.start for leaf in self._leaves]
        numbers = np.empty(self.n_rows, np.int32)
        numbers[self._rows] = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
        return numbers

    def _largest(self, gradient: FloatArray, hessian: FloatArray) -> FloatArray:
        """The largest absolute values."""

        def part(bounds: tuple[int, int]) -> list[float]:
            own = slice(*bounds)
            slope, curve = gradient[own], hessian[own]
            return [max(slope.max(initial=0), -slope.min(initial=0)), curve.max(initial=0)]

        largest: FloatArray = np.array(self._pool.map(part, self._parts)).max(axis=0)
        return largest

    def _quantize(
        self,
        gradient: FloatArray,
        hessian: FloatArray,
        rows: NDArray[np.int32],
        largest: FloatArray,
    ) -> tuple[int, int]:
        """Round gradients and Hessians to integers whose sums cannot overflow."""
        from rankwright.rankers.boosting._kernels.histogram import quantize

        scales, bits = integer_units(largest, self._total([len(rows)])[0], self._n_counted)

        def part(bounds: tuple[int, int]) -> tuple[int, int]:
            own = slice(*bounds)
            rest = self._count[own], scales, bits, self._pairs[own]
            return quantize(gradient[own], hessian[own], *rest)  # type: ignore[no-any-return]

        totals = np.array(self._pool.map(part, self._parts))
        if len(rows) < self.n_rows:
            totals = self._pairs[rows]
        first, second = self._total(totals.sum(axis=0).tolist())
        self._set_growth((first, second), scales, bits)
        return first, second

    def _set_growth(self, total: tuple[int, int], scales: FloatArray, bits: int) -> None:
        """What all splits of a tree obey, given the sums of all its rows."""
        n_counted, mass = total[1] & ((1 << bits) - 1), total[1] >> bits
        average = mass / max(n_counted, 1)
        defaults = np.array(self.options.defaults)
        self._growth = Growth(
            max(self.options.l2_regularization * average, 1e-12 * mass, 1e-3),
            self.options.cat_l2 * average,
            average,
            self.options.min_samples_leaf,
            bits,
            defaults,
            bool(self.bins.monotone.any()),
            self.options.symmetric,
        )
        self._least = 1e-12 * mass * (scales[0] / scales[1]) ** 2
        self._gain_unit = scales[1] / scales[0] / scales[0]
        self._unit = scales[1] / scales[0]

    def _value(self, total: tuple[int, int], bounds: tuple[float, float]) -> float:
        mass = total[1] >> self._growth.bits
        return min(max(total[0] / (mass + self._growth.ridge), bounds[0]), bounds[1])

    def _make_inner(self, tree: Tree, node: Node, split: Any, children: tuple[Node, Node]) -> None:
        """Make a leaf an inner node, with its children at the end of the tree."""
        n = len(tree.nodes)
        tree.nodes += children
        if not split.has_missing:
            self._unseen.append(node)
        goes_right, mask = split.goes_right, split.goes_right
        node.low, node.high = n, n + 1
        codes = self._level_codes.get(split.feature)
        if codes is not None:
            if goes_right[codes[-2]]:  # other levels have to go to the lower side
                goes_right, node.low, node.high = 1 - goes_right, n + 1, n
            mask = goes_right[codes]
        node.feature, node.goes_right = split.feature, goes_right
        node.default, node.gain = int(goes_right[MISSING]), split.gain * self._gain_unit
        named = self._name_split(split.feature, split.bin_threshold, mask)
        node.threshold, node.categories = named

    def _divide(
        self, tree: Tree, leaf: _Leaf, split: BestSplit, room: bool = True
    ) -> tuple[_Leaf, _Leaf]:
        """Divide the rows of a leaf; if there is room for more leaves, look for their splits."""
        rest = leaf.total[0] - split.total[0], leaf.total[1] - split.total[1]
        left_bounds, right_bounds = self._child_bounds(leaf, split.feature, rest, split.total)
        path, depth, shared = leaf.path | {split.feature}, leaf.depth + 1, self._shared
        left = _Leaf(Node(), leaf.start, leaf.stop, rest, left_bounds, path, depth)
        right = _Leaf(Node(), leaf.start, leaf.stop, split.total, right_bounds, path, depth)
        # The larger child takes over the histograms of the leaf.
        first_child = int(self._counted(left) > self._counted(right))
        few, many = (right, left) if first_child else (left, right)
        many.sums, leaf.sums = leaf.sums, -1
        can_split = [room and self._may_split(child) for child in (few, many)]
        if any(can_split):
            few.sums = self._free.pop()
        shared.goes_right[:] = split.goes_right
        steps = DIVIDE | (SUM | SPLIT if any(can_split) else 0)
        self._work(
            [few, many], can_split, steps, (leaf.start, leaf.stop, split.feature, first_child)
        )
        left.stop = right.start = leaf.start + int(shared.job[N_LEFT])
        for child in (left, right):
            child.node.cover = child.stop - child.start
        self._make_inner(tree, leaf.node, split, (left.node, right.node))
        return left, right

    def _child_bounds(self, leaf: _Leaf, feature: int, left: Any, right: Any) -> tuple[Any, Any]:
        """The bounds of the children: where a feature is monotone they meet halfway."""
        sign = int(self.bins.monotone[feature])
        if sign == 0:
            return leaf.bounds, leaf.bounds
        middle = (self._value(left, leaf.bounds) + self._value(right, leaf.bounds)) / 2
        below, above = (leaf.bounds[0], middle), (middle, leaf.bounds[1])
        return (below, above) if sign > 0 else (above, below)

    def _find_first(self, root: _Leaf) -> None:
        if self._may_split(root) and self.options.max_leaf_nodes > 1:
            root.sums = self._free.pop()
            self._work([root], [True], SUM | SPLIT, (root.start, root.stop, 0, 0))

    def _work(
        self,
        leaves: list[_Leaf],
        can_split: list[bool],
        steps: int,
        where: tuple[int, int, int, int] = (0, 0, 0, 0),
    ) -> None:
        """Do a job, with all threads: find the best splits of one or two leaves.

        The sums of the first one's rows go to its slot. They are subtracted from the slot of the
        second. ``where`` are the words of the job from START on: rows, and how they are divided.
        """
        from rankwright.rankers.boosting._kernels.grower import work

        shared, slots = self._shared, (leaves[0].sums, leaves[-1].sums)
        if steps & SPLIT:
            shared.best.leader[:] = 0.0
            for i, leaf in enumerate(leaves):
                shared.leaves.total[i], shared.leaves.bounds[i] = leaf.total, leaf.bounds
                # One draw for each new leaf, so that their numbers do not depend on its size.
                shared.leaves.allowed[i] = self._allowed(leaf) & can_split[i]
            if self.options.colsample_bynode < 1.0:
                shared.leaves.allowed[2] = self._features
        shared.job[:N_LEFT] = steps, *where, *slots, len(leaves)
        if self._peers is not None and steps & SUM:
            shared.job[STEPS] = steps & ~SPLIT
            work(self.bins, shared, self._growth, True)
            self._share = self._peers.sum_histograms(shared.sums[slots[0]], shared.starts)
            shared.job[STEPS] = SPLIT
        if self._peers is not None and steps & SPLIT:
            shared.leaves.allowed[:, : self._share.start] = False
            shared.leaves.allowed[:, self._share.stop :] = False
        work(self.bins, shared, self._growth, True)
        if self._peers is not None and steps & SPLIT and not self.options.symmetric:
            self._peers.best_splits(shared.best)
        for i, leaf in enumerate(leaves):
            if not can_split[i]:
                self._release(leaf)
            elif not self.options.symmetric:
                leaf.split = self._chosen(i)

    def _chosen(self, i: int) -> BestSplit | None:
        """The best of the splits that each block of features found."""
        best = self._shared.best
        at = first_best(best.gain[:, i].tolist()), i
        gain = float(best.gain[at])
        if gain <= self._least or gain * self._gain_unit < self.options.min_split_gain:
            return None
        feature, bin_threshold, has_missing, *total = best.split[at].tolist()
        goes_right = best.goes_right[at].copy()
        return BestSplit(gain, feature, bin_threshold, goes_right, bool(has_missing), tuple(total))

    def _counted(self, leaf: _Leaf) -> int:
        """How many rows a leaf counts as, in all processes."""
        return leaf.total[1] & ((1 << self._growth.bits) - 1)

    def _may_split(self, leaf: _Leaf) -> bool:
        deepest = self.options.max_depth
        if deepest is not None and leaf.depth >= deepest:
            return False
        return self._counted(leaf) >= 2 * self._growth.min_samples

    def _allowed(self, leaf: _Leaf) -> BoolArray:
        """The features that may split a leaf."""
        allowed = self._features
        if self.options.interactions:
            allowed = np.zeros(self.n_features, bool)
            for group in self.options.interactions:
                if leaf.path <= group:
                    allowed[list(group)] = True
            allowed &= self._features
        return allowed if self.options.symmetric else self._drawn(allowed)

    def _drawn(self, allowed: BoolArray) -> BoolArray:
        """The features that one split may use.

        Splits are looked for in the same order everywhere, so their number is a key of the draw.
        """
        if self.options.colsample_bynode == 1.0:
            return allowed
        choices, drawn = np.flatnonzero(allowed), np.zeros(self.n_features, bool)
        self._n_draws += 1
        rng = np.random.default_rng([self._seed, self._n_draws])
        size = max(1, round(self.options.colsample_bynode * len(choices)))
        drawn[rng.permutation(choices)[:size]] = True
        return drawn

    def _release(self, leaf: _Leaf) -> None:
        if leaf.sums >= 0:
            self._free.append(leaf.sums)
            leaf.sums = -1


def integer_units(largest: FloatArray, n_rows: int, count: int) -> tuple[FloatArray, int]:
    """What gradients and Hessians are multiplied by, and how many bits hold the number of rows.

    Powers of two, from the largest value and not from a sum, which depends on the order.
    """
    bits, size = count.bit_length(), n_rows.bit_length()
    peaks = [int(np.frexp(value)[1]) for value in largest]
    scales = np.ldexp([1.0, 1.0], [61 - peaks[0] - size, 61 - bits - peaks[1] - size])
    return scales, bits


def first_best(gains: Sequence[float]) -> int:
    """The first of the gains that are the largest up to rounding."""
    largest = max(gains)
    limit = largest - 1e-9 * abs(largest)
    return next(i for i, gain in enumerate(gains) if gain >= limit)
