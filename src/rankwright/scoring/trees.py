"""Sums of decision trees, in two layouts: nodes for any rows, masks of leaves for many rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from rankwright._typing import BoolArray, FloatArray, IntArray
from rankwright.scoring.base import Matrix, Scorer, by_dense_blocks, running_sum, score_rows

LEVELS = 4  # after so many levels, look for rows that have reached a leaf
ROWS_FOR_MASKS = 16  # fewer pass through the trees one level at a time
MOST_LEAVES = 64  # of a tree whose leaves are bits
MOST_CODES, MOST_COLUMNS = 255, 2**15  # numbers of 8 and, for two of each, of 16 bits
TREES = 4  # whose leaves are found at once
ONE = np.uint64(1)
_NODE = ("feature", "threshold", "default", "low", "high", "value", "gain", "cover")  # (n_nodes,)


class Nodes(NamedTuple):
    """Trees as flat arrays: a leaf is its own child, so that a row can stay where it is.

    Attributes
    ----------
    root, depth, weight : (n_trees,) first node, levels below it, factor of the leaf values
    feature, threshold, default, value : (n_nodes,) feature 0 and threshold inf for leaves
    child : (2 n_nodes,) nodes 2 n (not above the threshold) and 2 n + 1 (above) of node n
    """

    root: IntArray
    depth: IntArray
    weight: FloatArray
    feature: IntArray
    threshold: FloatArray
    default: IntArray
    value: FloatArray
    child: IntArray


class Categories(NamedTuple):
    """Values that go right at node n: ``value[ptr[n] : ptr[n + 1]]``; none if n has a threshold.

    ``known`` are the different values of all nodes, ``key`` the pairs (node, index in ``known``)
    as ascending numbers node * len(known) + index.
    """

    ptr: IntArray
    value: FloatArray
    known: FloatArray
    key: IntArray


class Masks(NamedTuple):
    """Trees of up to 64 leaves as masks: what a value above a threshold excludes.

    A column holds codes of 8 bits, the number of its thresholds that are below a feature's value.
    A feature with more than 255 thresholds has several. Column c + n_columns is column c for nodes
    that send NaN right: its code of NaN is 255, not 0.

    Attributes
    ----------
    feature : (n_columns,) of each column
    ptr, threshold : the thresholds of column c ascend from ``threshold[ptr[c]]`` on, filled up with
        inf to a multiple of eight, and eight more
    block : (n_blocks + 1,) steps ``block[b]`` to ``block[b + 1]`` are those of four trees
    step : (n_steps, 7) uint16, one node or two of a tree: the row of eight leaves of the tree (4
        * byte + tree), and for both nodes column, rank and a mask. Where a row's code is above the
        rank, the leaves whose bits are set in the mask are not the row's
    leaf : (4 n_blocks, 8 n_bytes) weight * value of each leaf; n_bytes is 4 or 8
    """

    feature: IntArray
    ptr: IntArray
    threshold: FloatArray
    block: IntArray
    step: Any
    leaf: FloatArray


@dataclass(eq=False, slots=True)
class Node:
    """A node of a tree that is being grown: an inner node, or a leaf (feature -1).

    ``low`` and ``high`` are numbers of nodes of the same tree. ``gain`` is what the split added,
    ``cover`` how many training rows came through, ``goes_right`` which bins go to ``high``.
    """

    feature: int = -1
    threshold: float = 0.0
    default: int = 0
    low: int = 0
    high: int = 0
    value: float = 0.0
    gain: float = 0.0
    cover: int = 0
    categories: Sequence[float] | FloatArray = ()
    goes_right: Any = None


@dataclass(frozen=True, eq=False)
class Trees(Scorer):
    """Tree ensemble: the score is the weighted sum of the leaf values.

    Node n is a leaf if ``feature[n]`` is -1; else a row goes to ``high[n]`` if its feature is
    above ``threshold[n]``, to ``low[n]`` if not, and where it lacks the feature to ``high[n]`` if
    ``default[n]`` is 1. Children come after their parent; tree t starts at ``root[t]``.

    A node with ``cat_ptr[n + 1] > cat_ptr[n]`` splits by category: a row goes to ``high[n]`` if its
    feature is one of ``categories[cat_ptr[n] : cat_ptr[n + 1]]``, which ascend, and to ``low[n]``
    with any other value; the threshold is 0. Without categories both arrays may be None.

    ``gain`` and ``cover``, what the split of a node added and how many training rows came through,
    do not change scores; importances and Shapley values need them.

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
    cat_ptr: IntArray | None = None
    categories: FloatArray | None = None
    gain: FloatArray | None = None
    cover: IntArray | None = None
    _width: ClassVar[str] = "n_inputs"

    def __post_init__(self) -> None:
        nodes = ("feature", "default", "low", "high", "value")
        n, n_trees, n_nan = self.feature.size, self.root.size, int(np.isnan(self.threshold).sum())
        self._check_arrays(root=(n_trees,), weight=(n_trees,), **dict.fromkeys(nodes, (n,)))
        self._check(self.threshold.shape == (n,), f"threshold has shape {self.threshold.shape}")
        self._check(not n_nan, f"threshold: {n_nan} of {n} values are NaN")
        self._check_range("n_inputs", 1, np.inf)
        self._check_range("feature", -1, self.n_inputs - 1)
        self._check_range("root", 0, n - 1)
        self._check_range("default", 0, 1)
        inner = np.flatnonzero(self.feature >= 0)
        for name in ("low", "high"):
            child = getattr(self, name)[inner]
            wrong = int(((child <= inner) | (child >= n)).sum())
            self._check(not wrong, f"{name}: {wrong} children do not come after their parent")
        # A node with two parents would double the work at every level: a file could hang a server.
        entries = np.concatenate([self.root, self.low[inner], self.high[inner]])
        parents = np.bincount(entries, minlength=1)
        self._check(parents.max() <= 1, f"node {parents.argmax()} has {parents.max()} parents")
        for name in ("gain", "cover"):
            if getattr(self, name) is not None:
                self._check_arrays(**{name: (n,)})
                self._check_range(name, 0, np.inf)
        self._check_categories()

    def _check_categories(self) -> None:
        if self.cat_ptr is None or self.categories is None:
            neither = self.cat_ptr is None and self.categories is None
            self._check(neither, "cat_ptr and categories go together; one of them is missing")
            return
        n, n_values = self.feature.size, self.categories.size
        self._check_arrays(cat_ptr=(n + 1,), categories=(n_values,))
        self._check_ascending("cat_ptr")
        first, last = int(self.cat_ptr[0]), int(self.cat_ptr[-1])
        fault = f"cat_ptr runs from {first} to {last}, not 0 to {n_values}"
        self._check((first, last) == (0, n_values), fault)
        listed = np.diff(self.cat_ptr) > 0
        wrong = int((listed & ((self.feature < 0) | (self.threshold != 0.0))).sum())
        self._check(not wrong, f"{wrong} nodes with categories are leaves or have a threshold")
        repeats = np.flatnonzero(np.diff(self.categories) <= 0) + 1
        within = repeats[~np.isin(repeats, self.cat_ptr)]  # not where the next node begins
        self._check(
            not len(within), f"categories: {len(within)} values are not above the one before"
        )

    @classmethod
    def from_nodes(
        cls,
        n_inputs: int,
        trees: Sequence[Sequence[Node]],
        weight: Any,
        absent_abstains: bool = False,
    ) -> Self:
        """The flat arrays of trees whose children come after their parent, the root first."""
        nodes = [node for tree in trees for node in tree]
        start = np.cumsum([0, *map(len, trees)])
        first = np.repeat(start[:-1], np.diff(start))  # of the tree of each node
        sizes = [len(node.categories) for node in nodes]
        return cls(
            n_inputs=n_inputs,
            root=start[:-1],
            weight=np.array(weight, np.float64),
            feature=np.array([node.feature for node in nodes], np.int64),
            threshold=np.array([node.threshold for node in nodes], np.float64),
            default=np.array([node.default for node in nodes], np.int64),
            low=np.array([node.low for node in nodes], np.int64) + first,
            high=np.array([node.high for node in nodes], np.int64) + first,
            value=np.array([node.value for node in nodes], np.float64),
            cat_ptr=np.cumsum([0, *sizes]) if any(sizes) else None,
            categories=np.concatenate([n.categories for n in nodes]) if any(sizes) else None,
            gain=np.array([node.gain for node in nodes], np.float64),
            cover=np.array([node.cover for node in nodes], np.int64),
            absent_abstains=absent_abstains,
        )

    def part(self, first: int, stop: int) -> Trees:
        """The sum of trees first .. stop, of the same nodes."""
        if (first, stop) == (0, self.root.size):
            return self
        return replace(self, root=self.root[first:stop], weight=self.weight[first:stop])

    def first(self, n_trees: int) -> Trees:
        """The first trees and their nodes only, of trees that follow one another."""
        end = int(self.root[n_trees]) if n_trees < self.root.size else self.feature.size
        arrays: dict[str, Any] = {
            name: getattr(self, name)[:n_trees] for name in ("root", "weight")
        }
        for name in _NODE:
            array = getattr(self, name)
            arrays[name] = None if array is None else array[:end]
        if self.cat_ptr is not None and self.categories is not None:
            ends = self.cat_ptr[: end + 1]
            arrays |= {"cat_ptr": ends, "categories": self.categories[: ends[-1]]}
            if ends[-1] == 0:  # as from_nodes has it without categories
                arrays |= {"cat_ptr": None, "categories": None}
        return replace(self, **arrays)

    def joined(self, *others: Trees) -> Trees:
        """These trees, and then the others; what is not known of some is known of none."""
        every = (self, *others)
        starts = np.cumsum([0, *(trees.feature.size for trees in every)])[:-1].tolist()
        arrays: dict[str, Any] = {}
        for name in ("root", "weight", *_NODE):
            parts = [getattr(trees, name) for trees in every]
            if name in ("root", "low", "high"):
                parts = [part + start for part, start in zip(parts, starts, strict=True)]
            unknown = any(part is None for part in parts)
            arrays[name] = None if unknown else np.concatenate(parts)
        if any(trees.cat_ptr is not None for trees in every):
            none = [np.zeros(trees.feature.size, np.int64) for trees in every]
            ends = [trees.cat_ptr for trees in every]
            sizes = [n if e is None else np.diff(e) for e, n in zip(ends, none, strict=True)]
            arrays["cat_ptr"] = np.cumsum(np.concatenate([[0], *sizes]))
            known = [trees.categories for trees in every if trees.categories is not None]
            arrays["categories"] = np.concatenate(known)
        return replace(self, **arrays)

    def split_values(self, feature: int) -> FloatArray:
        at = self.feature == feature
        listed = np.zeros(0)
        if self.cat_ptr is not None and self.categories is not None:
            owner = np.repeat(np.arange(at.size), np.diff(self.cat_ptr))
            listed = self.categories[at[owner]]
            at = at & (np.diff(self.cat_ptr) == 0)
        below = np.nextafter(listed, -np.inf)  # a category is an interval of one value
        values = np.concatenate([self.threshold[at], listed, below])
        return np.unique(values[np.isfinite(values)])

    @cached_property
    def _nodes(self) -> Nodes:
        return flat_nodes(self)

    @cached_property
    def _categories(self) -> Categories | None:
        if self.cat_ptr is None or self.categories is None or not self.categories.size:
            return None
        return flat_categories(self.cat_ptr, self.categories)

    @cached_property
    def _masks(self) -> Masks | None:
        return leaf_masks(self) if self._categories is None else None

    def decision_function(self, X: Matrix) -> FloatArray:
        nodes, categories, masks = self._nodes, self._categories, self._masks
        if isinstance(X, np.ndarray):
            return score_trees(np.ascontiguousarray(X, np.float64), nodes, categories, masks)
        used, column = np.unique(nodes.feature, return_inverse=True)
        dense = nodes._replace(feature=column)
        if masks is not None:
            masks = masks._replace(feature=np.searchsorted(used, masks.feature))
        score = lambda rows: score_trees(rows, dense, categories, masks)  # noqa: E731
        return by_dense_blocks(X, used, self.absent_abstains, score)


def flat_nodes(trees: Any) -> Nodes:
    """The layout of a ``Trees``."""
    leaf, itself = trees.feature < 0, np.arange(trees.feature.size)
    children = [np.where(leaf, itself, child) for child in (trees.low, trees.high)]
    return Nodes(
        root=trees.root.astype(np.int64),
        depth=_depths(trees),
        weight=trees.weight.astype(np.float64),
        feature=np.where(leaf, 0, trees.feature),
        threshold=np.where(leaf, np.inf, trees.threshold),
        default=np.where(leaf, 0, trees.default),
        value=trees.value.astype(np.float64),
        child=np.stack(children, axis=1).ravel(),
    )


def _depths(trees: Any) -> IntArray:
    """The depth of each tree."""
    owner, depth = owners(trees), np.zeros(trees.root.size, np.int64)
    for level, inner in enumerate(inner_levels(trees), 1):
        depth[owner[inner]] = level
    return depth


def inner_levels(trees: Any) -> list[IntArray]:
    """The nodes of each level that have children, from the roots down."""
    levels, nodes = [], trees.root
    while (nodes := nodes[trees.feature[nodes] >= 0]).size:
        levels.append(nodes)
        nodes = np.concatenate([trees.low[nodes], trees.high[nodes]])
    return levels


def owners(trees: Any) -> IntArray:
    """The tree of each node; -1 for nodes that are in none."""
    owner = np.full(trees.feature.size, -1)
    owner[trees.root] = np.arange(trees.root.size)
    for inner in inner_levels(trees):
        owner[trees.low[inner]] = owner[trees.high[inner]] = owner[inner]
    return owner


def flat_categories(ptr: IntArray, value: FloatArray) -> Categories:
    known, index = np.unique(value, return_inverse=True)
    node = np.repeat(np.arange(ptr.size - 1), np.diff(ptr))
    key = node * max(known.size, 1) + index
    return Categories(ptr.astype(np.int64), value.astype(np.float64), known, key)


def score_trees(
    X: FloatArray, nodes: Nodes, categories: Categories | None, masks: Masks | None = None
) -> FloatArray:
    """The sum over trees of weight * (value of the leaf of each row).

    ``masks``, of the same trees, are quicker for more than a few rows.
    """

    def add_compiled(module: Any, rows: FloatArray, scores: FloatArray) -> None:
        if masks is not None and len(rows) >= ROWS_FOR_MASKS:
            module.add_masked_trees(rows, masks, scores)
            return
        default = nodes.default if np.isnan(rows).any() else None
        module.add_trees(rows, nodes, default, categories, scores)

    def add_plain(rows: FloatArray) -> FloatArray:
        return _sum_trees(rows, nodes, categories)

    return score_rows(X, nodes.root.size, nodes.root.size, add_compiled, add_plain)


def _sum_trees(X: FloatArray, nodes: Nodes, categories: Categories | None) -> FloatArray:
    """All rows in all trees descend one level at a time."""
    (n_rows, width), n_trees = X.shape, nodes.root.size
    flat, has_nan = X.ravel(), bool(np.isnan(X).any())
    leaves = np.empty(n_trees * n_rows, np.int64)
    pair: Any = slice(None)  # all (tree, row) pairs
    at = np.repeat(nodes.root, n_rows)
    start = np.tile(np.arange(n_rows) * width, n_trees)  # of the row in ``flat``
    for level in range(1, int(nodes.depth.max(initial=0)) + 1):
        x = flat.take(start + nodes.feature.take(at))
        at = nodes.child.take(2 * at + goes_right_at(x, at, nodes, categories, has_nan))
        if level % LEVELS == 0:
            moving = np.flatnonzero(nodes.child.take(2 * at) != at)
            if 2 * moving.size < at.size:
                leaves[pair] = at
                pair = moving if isinstance(pair, slice) else pair[moving]
                at, start = at[moving], start[moving]
    leaves[pair] = at
    added = nodes.weight[:, None] * nodes.value.take(leaves).reshape(n_trees, n_rows)
    return running_sum(added)


def goes_right_at(
    x: FloatArray, at: IntArray, nodes: Nodes, categories: Categories | None, has_nan: bool = True
) -> BoolArray:
    """Whether rows with the values x go right at the nodes ``at``."""
    goes_right = x > nodes.threshold.take(at)
    if has_nan:
        goes_right |= np.isnan(x) & (nodes.default.take(at) == 1)
    if categories is not None:
        _decide_categories(goes_right, x, at, categories)
    return goes_right


def _decide_categories(
    goes_right: BoolArray, x: FloatArray, at: IntArray, categories: Categories
) -> None:
    """Correct ``goes_right`` at the nodes that split by category."""
    listed = categories.ptr.take(at + 1) > categories.ptr.take(at)
    pairs = np.flatnonzero(listed & ~np.isnan(x))
    if not pairs.size:
        return
    x, at = x[pairs], at[pairs]
    index = np.minimum(np.searchsorted(categories.known, x), categories.known.size - 1)
    key = at * categories.known.size + index
    entry = np.minimum(np.searchsorted(categories.key, key), categories.key.size - 1)
    goes_right[pairs] = (categories.known[index] == x) & (categories.key[entry] == key)


def leaf_masks(trees: Any) -> Masks | None:
    """The masks of a ``Trees`` without categories; None if a tree has more than 64 leaves."""
    low, high, levels, owner = trees.low, trees.high, inner_levels(trees), owners(trees)
    n_leaves, first = np.ones(owner.size, np.int64), np.zeros(owner.size, np.int64)
    for inner in reversed(levels):
        n_leaves[inner] = n_leaves[low[inner]] + n_leaves[high[inner]]
    most = int(n_leaves[trees.root].max(initial=1))
    if most > MOST_LEAVES:
        return None
    for inner in levels:  # the leaves of a tree are numbered from low to high
        first[low[inner]], first[high[inner]] = first[inner], first[inner] + n_leaves[low[inner]]
    nodes = np.concatenate([np.zeros(0, np.int64), *levels])
    feature, ptr, threshold, column, rank = _code_columns(trees, nodes)
    if feature.size > MOST_COLUMNS:
        return None
    n_bytes, n_blocks = -(-most // 32) * 4, -(-trees.root.size // TREES)
    n_low, lowest = n_leaves[low[nodes]].astype(np.uint64), first[nodes].astype(np.uint64)
    excluded = (ONE << n_low) - ONE << lowest
    mask = excluded[:, None] >> np.arange(0, 8 * n_bytes, 8, dtype=np.uint64) & np.uint64(255)
    at, byte = np.nonzero(mask)
    parts = (column[at], rank[at], mask[at, byte])
    block, step = _steps(owner[nodes[at]], byte, parts, n_blocks)
    leaves = np.flatnonzero((trees.feature < 0) & (owner >= 0))
    leaf = np.zeros((TREES * n_blocks, 8 * n_bytes))
    leaf[owner[leaves], first[leaves]] = trees.weight[owner[leaves]] * trees.value[leaves]
    return Masks(feature, ptr, threshold, block, step, leaf)


def _code_columns(trees: Any, nodes: IntArray) -> Any:
    """Columns of codes for these nodes (the first fields of ``Masks``); column and rank of each."""
    order = np.lexsort((trees.threshold[nodes], trees.feature[nodes]))
    feature, ascending = trees.feature[nodes][order], trees.threshold[nodes][order]
    new = np.ones(order.size, bool)
    new[1:] = (feature[1:] != feature[:-1]) | (ascending[1:] != ascending[:-1])
    rank = _numbers(feature[new])  # among the different thresholds of the same feature
    starts = rank % MOST_CODES == 0
    column, rank = np.cumsum(starts) - 1, rank % MOST_CODES
    feature, number = feature[new][starts], np.empty(order.size, np.int64)
    number[order] = np.cumsum(new) - 1  # of the threshold of each node
    size = -(-np.bincount(column, minlength=feature.size) // 8) * 8 + 8
    ptr = np.concatenate([[0], np.cumsum(size)])
    padded = np.full(ptr[-1], np.inf)
    padded[ptr[column] + rank] = ascending[new]
    column = column[number] + feature.size * (trees.default[nodes] == 1)
    return feature, ptr, padded, column, rank[number]


def _steps(tree: IntArray, byte: IntArray, parts: Any, n_blocks: int) -> tuple[IntArray, Any]:
    """``block`` and ``step`` of ``Masks``, of (tree, byte) and the column, rank and mask of each.

    Neighbors change different bytes where they can, so that none waits for the one before.
    """
    block, row = tree // TREES, TREES * byte + tree % TREES
    order = np.lexsort((row, block))
    number = np.empty(order.size, np.int64)
    number[order] = _numbers((block * MOST_LEAVES + row)[order])
    pair, second = number // 2, number % 2
    order = np.lexsort((second, row, pair, block))
    block, row, second = block[order], row[order], second[order]
    at = np.cumsum(second == 0) - 1
    step = np.zeros((int((second == 0).sum()), 7), np.uint16)
    step[:, 5] = MOST_CODES  # where there is no second node
    step[at, 0] = row
    for column, values in enumerate(parts, 1):
        step[at, column + 3 * second] = values[order]
    return np.searchsorted(block[second == 0], np.arange(n_blocks + 1)), step


def _numbers(owner: IntArray) -> IntArray:
    """The number of each entry among those with the same owner, which ascend.

    >>> _numbers(np.array([0, 0, 2, 2, 2]))
    array([0, 1, 0, 1, 2])
    """
    return np.arange(owner.size) - np.searchsorted(owner, owner)
