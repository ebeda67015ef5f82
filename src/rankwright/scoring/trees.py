"""Sums of decision trees, in two layouts: nodes for any rows, masks of leaves for many rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import ModuleType
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwright._typing import BoolArray, FloatArray, IntArray
from rankwright.runtime import require_memory
from rankwright.scoring.base import (
    Matrix,
    Scorer,
    by_dense_blocks,
    read_only,
    running_sum,
    score_rows,
)

LEVELS = 4  # after so many levels, look for rows that have reached a leaf
ROWS_FOR_MASKS = 16  # fewer pass through trees without sets of categories one level at a time
MOST_LEAVES = 64  # of a tree whose leaves are bits
MOST_CODES, MOST_COLUMNS = 255, 2**16  # numbers of 8 and of 16 bits
TREES = 4  # whose leaves are found at once
ONE = np.uint64(1)
_SETS = ("set", "set_ptr", "set_bits", "level_ptr", "level")
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


class LevelSets(NamedTuple):
    """Sets of categories as a table of bits: a row per level of a feature, a bit per set.

    A feature with m sets has rows of ceil(m / 8) bytes: one for each of its levels, one for other
    values, and one for NaN, in which the bits are the defaults. The place of a row in ``bits`` is
    looked up once for each row of X; a node then reads one bit.

    Attributes
    ----------
    feature : (n_slots,) features with sets
    ptr, level : the levels of slot s ascend from ``level[ptr[s]]`` on
    start, width : (n_slots,) where the table of a slot starts, and the bytes of its rows
    bits : (n_bytes,) uint8
    byte, bit : (n_nodes,) the byte of a row that holds the set of a node, -1 for thresholds; and
        the bit in it, as 1, 2, 4 ... 128
    """

    feature: IntArray
    ptr: IntArray
    level: FloatArray
    start: IntArray
    width: IntArray
    bits: NDArray[np.uint8]
    byte: IntArray
    bit: NDArray[np.uint8]


_NONE = np.zeros(0, np.int64)
NO_SETS = LevelSets(
    _NONE, _NONE, np.zeros(0), _NONE, _NONE, np.zeros(0, np.uint8), _NONE, np.zeros(0, np.uint8)
)


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
    set_block, set_step : the same for nodes with sets of categories, in whose columns a byte of
        ``LevelSets.bits`` is the code: a row of which the bit is set (instead of a rank that is
        exceeded) does not have the leaves of the mask. The columns come after those of thresholds,
        slot by slot
    leaf : (4 n_blocks, 8 n_bytes) weight * value of each leaf; n_bytes is 4 or 8
    """

    feature: IntArray
    ptr: IntArray
    threshold: FloatArray
    block: IntArray
    step: Any
    set_block: IntArray
    set_step: Any
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

    A node with ``set[n] >= 0`` splits by category: a row goes to ``high[n]`` if its feature is in
    that set, and to ``low[n]`` with any other value; the threshold is 0. The known values of
    feature f are ``level[level_ptr[f] : level_ptr[f + 1]]``, which ascend. The bytes
    ``set_bits[set_ptr[s] : set_ptr[s + 1]]`` of set s have a bit for each of them, the lowest bit
    of a byte first. Nodes share equal sets. Without sets, all five arrays are None.

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
    set: IntArray | None = None
    set_ptr: IntArray | None = None
    set_bits: NDArray[np.uint8] | None = None
    level_ptr: IntArray | None = None
    level: FloatArray | None = None
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
        self._check_sets()

    def _check_sets(self) -> None:
        missing = [name for name in _SETS if getattr(self, name) is None]
        if missing:
            fault = f"{', '.join(_SETS)} go together; {missing[0]} is missing"
            self._check(len(missing) == len(_SETS), fault)
            return
        n, (number, set_ptr, bits, level_ptr, level) = self.feature.size, self._sets
        self._check_arrays(
            set=(n,), set_ptr=(set_ptr.size,), set_bits=(bits.size,),
            level_ptr=(self.n_inputs + 1,), level=(level.size,),
        )  # fmt: skip
        self._check_range("set", -1, set_ptr.size - 2)
        for name, size in (("set_ptr", bits.size), ("level_ptr", level.size)):
            ends = getattr(self, name)
            self._check_ascending(name)
            runs = ends.size > 0 and (ends[0], ends[-1]) == (0, size)
            self._check(runs, f"{name} does not run from 0 to {size}")
        at = np.flatnonzero(number >= 0)
        wrong = int(((self.feature[at] < 0) | (self.threshold[at] != 0.0)).sum())
        self._check(not wrong, f"{wrong} nodes with sets are leaves or have a threshold")
        needed = (np.diff(level_ptr)[self.feature[at]] + 7) // 8
        wrong = int((np.diff(set_ptr)[number[at]] != needed).sum())
        self._check(not wrong, f"{wrong} nodes have sets of another number of levels")
        repeats = np.flatnonzero(np.diff(level) <= 0) + 1
        within = repeats[~np.isin(repeats, level_ptr)]  # not where the next feature begins
        self._check(not len(within), f"level: {len(within)} values are not above the one before")

    @property
    def _sets(self) -> Any:
        """The arrays of ``_SETS``, which are not None."""
        return tuple(getattr(self, name) for name in _SETS)

    def categories(self, node: int) -> FloatArray:
        """The values that go right at a node; none if it has no set of categories."""
        if self.set is None or self.set[node] < 0:
            return np.zeros(0)
        number, set_ptr, bits, level_ptr, level = self._sets
        own = bits[slice(*set_ptr[number[node] : number[node] + 2])]
        known = level[slice(*level_ptr[self.feature[node] : self.feature[node] + 2])]
        chosen: FloatArray = known[np.unpackbits(own, count=known.size, bitorder="little") == 1]
        return chosen

    def with_categories(self, chosen: Mapping[int, Sequence[float] | FloatArray]) -> Self:
        """The same trees, in which some nodes split by category: {node: values that go right}."""
        return replace(self, **category_sets(self.n_inputs, self.feature, chosen))

    def _listed(self) -> dict[int, FloatArray]:
        """The categories of all nodes that have some."""
        if self.set is None:
            return {}
        return {node: self.categories(node) for node in np.flatnonzero(self.set >= 0).tolist()}

    @classmethod
    def from_nodes(
        cls,
        n_inputs: int,
        trees: Sequence[Sequence[Node]],
        weight: ArrayLike | None,
        absent_abstains: bool = False,
    ) -> Self:
        """The flat arrays of trees whose children come after their parent, the root first."""
        nodes = [node for tree in trees for node in tree]
        start = np.cumsum([0, *map(len, trees)])
        first = np.repeat(start[:-1], np.diff(start))  # of the tree of each node
        feature = np.array([node.feature for node in nodes], np.int64)
        chosen = {n: node.categories for n, node in enumerate(nodes) if len(node.categories)}
        return cls(
            n_inputs=n_inputs,
            root=start[:-1],
            weight=np.array(weight, np.float64),
            feature=feature,
            threshold=np.array([node.threshold for node in nodes], np.float64),
            default=np.array([node.default for node in nodes], np.int64),
            low=np.array([node.low for node in nodes], np.int64) + first,
            high=np.array([node.high for node in nodes], np.int64) + first,
            value=np.array([node.value for node in nodes], np.float64),
            gain=np.array([node.gain for node in nodes], np.float64),
            cover=np.array([node.cover for node in nodes], np.int64),
            absent_abstains=absent_abstains,
            **category_sets(n_inputs, feature, chosen),
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
        chosen = {node: values for node, values in self._listed().items() if node < end}
        arrays |= category_sets(self.n_inputs, arrays["feature"], chosen)
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
        chosen = {
            start + node: values
            for trees, start in zip(every, starts, strict=True)
            for node, values in trees._listed().items()
        }
        arrays |= category_sets(self.n_inputs, arrays["feature"], chosen)
        return replace(self, **arrays)

    def split_values(self, feature: int) -> FloatArray:
        at, listed = self.feature == feature, np.zeros(0)
        if self.set is not None:
            at &= self.set < 0
            _, _, _, level_ptr, level = self._sets
            listed = level[slice(*level_ptr[feature : feature + 2])]
        below = np.nextafter(listed, -np.inf)  # a category is an interval of one value
        values = np.concatenate([self.threshold[at], listed, below])
        return np.unique(values[np.isfinite(values)])

    @cached_property
    def _nodes(self) -> Nodes:
        return flat_nodes(self)

    @cached_property
    def _level_sets(self) -> LevelSets | None:
        return None if self.set is None or (self.set < 0).all() else level_sets(self)

    @cached_property
    def _masks(self) -> Masks | None:
        return leaf_masks(self, self._level_sets)

    def decision_function(self, X: Matrix) -> FloatArray:
        nodes, sets, masks = self._nodes, self._level_sets, self._masks
        if isinstance(X, np.ndarray):
            return score_trees(np.ascontiguousarray(X, np.float64), nodes, sets, masks)
        used = np.unique(np.where(self.feature < 0, 0, self.feature))
        in_slot = nodes.feature >= self.n_inputs
        column = np.where(in_slot, nodes.feature - self.n_inputs + used.size, 0)
        column[~in_slot] = np.searchsorted(used, nodes.feature[~in_slot])
        dense = nodes._replace(feature=column)
        if masks is not None:
            masks = masks._replace(feature=np.searchsorted(used, masks.feature))
        if sets is not None:
            sets = sets._replace(feature=np.searchsorted(used, sets.feature))
        score = lambda rows: score_trees(rows, dense, sets, masks)  # noqa: E731
        return by_dense_blocks(X, used, self.absent_abstains, score)


def category_sets(n_inputs: int, feature: IntArray, chosen: Mapping[int, Any]) -> dict[str, Any]:
    """The fields of sets of a ``Trees``, from the values that go right at some nodes.

    Sets are numbered as nodes first use them, so the first trees of a sum have the first sets.
    """
    if not chosen:
        return dict.fromkeys(_SETS)
    nodes = np.array(sorted(chosen), np.int64)
    lists = [np.asarray(chosen[node], np.float64) + 0.0 for node in nodes.tolist()]
    sizes, values = np.array([*map(len, lists)]), np.concatenate(lists)
    owner = np.repeat(np.arange(nodes.size), sizes)
    number, packed = np.full(feature.size, -1), list[Any]()
    level_ptr, levels = np.zeros(n_inputs + 1, np.int64), list[FloatArray]()
    found: dict[tuple[int, bytes], int] = {}
    key: list[tuple[int, bytes]] = [(0, b"")] * nodes.size
    for used in np.unique(feature[nodes]).tolist():
        own = feature[nodes] == used
        entries = own[owner]
        level, index = np.unique(values[entries], return_inverse=True)
        at = np.cumsum(own)[owner[entries]] - 1
        width = (level.size + 7) // 8
        require_memory(
            float(own.sum()) * width,
            f"{own.sum():,} sets of {level.size:,} categories of feature {used}",
            "Use fewer categories.",
        )
        bits = np.zeros((int(own.sum()), width), np.uint8)
        np.bitwise_or.at(bits, (at, index >> 3), np.left_shift(1, index & 7).astype(np.uint8))
        for place, row in zip(np.flatnonzero(own).tolist(), bits, strict=True):
            key[place] = used, row.tobytes()
        level_ptr[used + 1] = level.size
        levels.append(level)
    for node, one in zip(nodes.tolist(), key, strict=True):
        if one not in found:
            found[one] = len(found)
            packed.append(np.frombuffer(one[1], np.uint8))
        number[node] = found[one]
    set_ptr = np.cumsum([0, *map(len, packed)])
    arrays = number, set_ptr, np.concatenate(packed), np.cumsum(level_ptr), np.concatenate(levels)
    return dict(zip(_SETS, arrays, strict=True))


def level_sets(trees: Trees) -> LevelSets:
    """The layout of the sets of a ``Trees``."""
    number, set_ptr, set_bits, level_ptr, level = trees._sets
    at = np.flatnonzero(number >= 0)
    feature = np.unique(trees.feature[at])
    byte, bit = np.full(number.size, -1), np.zeros(number.size, np.uint8)
    sizes, tables = [], list[Any]()
    for slot, used in enumerate(feature.tolist()):
        nodes = at[trees.feature[at] == used]
        n_levels = int(level_ptr[used + 1] - level_ptr[used])
        # Nodes with equal sets differ where they send missing values to different sides.
        pairs = 2 * number[nodes] + (trees.default[nodes] == 1)
        distinct, index = np.unique(pairs, return_inverse=True)
        table = np.zeros((n_levels + 2, -(-distinct.size // 8)), np.uint8)
        for first in range(0, distinct.size, 8):
            part = distinct[first : first + 8]
            start = set_ptr[part // 2][:, None] + np.arange((n_levels + 7) // 8)
            goes = np.unpackbits(set_bits[start], axis=1, count=n_levels, bitorder="little")
            column = np.packbits(goes, axis=0, bitorder="little")
            table[:n_levels, first // 8] = column[0]
            table[n_levels + 1, first // 8] = np.packbits(part % 2 == 1, bitorder="little")[0]
        byte[nodes], bit[nodes] = index // 8, np.left_shift(1, index % 8)
        sizes.append((slot, n_levels, table.shape[1]))
        tables.append(table.ravel())
    _, n_levels_of, width = np.array(sizes).T
    start = np.cumsum([0, *map(len, tables)])[:-1]
    known = [level[slice(*level_ptr[used : used + 2])] for used in feature.tolist()]
    return LevelSets(
        feature.astype(np.int64), np.cumsum([0, *n_levels_of]), np.concatenate(known), start,
        width.astype(np.int64), np.concatenate(tables), byte, bit,
    )  # fmt: skip


def flat_nodes(trees: Trees) -> Nodes:
    """The layout of a ``Trees``."""
    leaf, itself = trees.feature < 0, np.arange(trees.feature.size)
    feature = np.where(leaf, 0, trees.feature)
    by_set = np.zeros(leaf.size, bool) if trees.set is None else trees.set >= 0
    if by_set.any():  # their features are those that ``append_levels`` adds to X
        slots = np.unique(feature[by_set])
        feature[by_set] = trees.n_inputs + np.searchsorted(slots, feature[by_set])
    children = [np.where(leaf, itself, child) for child in (trees.low, trees.high)]
    return Nodes(
        root=trees.root.astype(np.int64),
        depth=_depths(trees),
        weight=trees.weight.astype(np.float64),
        feature=feature,
        threshold=np.where(leaf | by_set, np.inf, trees.threshold),
        default=np.where(leaf, 0, trees.default),
        value=trees.value.astype(np.float64),
        child=np.stack(children, axis=1).ravel(),
    )


def _depths(trees: Trees) -> IntArray:
    """The depth of each tree."""
    owner, depth = owners(trees), np.zeros(trees.root.size, np.int64)
    for level, inner in enumerate(inner_levels(trees), 1):
        depth[owner[inner]] = level
    return depth


def inner_levels(trees: Trees) -> list[IntArray]:
    """The nodes of each level that have children, from the roots down."""
    levels, nodes = [], trees.root
    while (nodes := nodes[trees.feature[nodes] >= 0]).size:
        levels.append(nodes)
        nodes = np.concatenate([trees.low[nodes], trees.high[nodes]])
    return levels


def owners(trees: Trees) -> IntArray:
    """The tree of each node; -1 for nodes that are in none."""
    owner = np.full(trees.feature.size, -1)
    owner[trees.root] = np.arange(trees.root.size)
    for inner in inner_levels(trees):
        owner[trees.low[inner]] = owner[trees.high[inner]] = owner[inner]
    return owner


def score_trees(
    X: FloatArray, nodes: Nodes, sets: LevelSets | None, masks: Masks | None = None
) -> FloatArray:
    """The sum over trees of weight * (value of the leaf of each row).

    ``masks``, of the same trees, are quicker for more than a few rows.
    """

    def add_compiled(module: ModuleType, rows: FloatArray, scores: FloatArray) -> None:
        if masks is not None and len(rows) >= (ROWS_FOR_MASKS if sets is None else 1):
            module.add_masked_trees(rows, masks, NO_SETS if sets is None else sets, scores)
            return
        default = nodes.default if np.isnan(rows).any() else None
        if sets is not None:
            wide = np.empty((len(rows), rows.shape[1] + sets.feature.size))
            module.append_levels(rows, sets, wide)
            rows = read_only(wide)
        module.add_trees(rows, nodes, default, sets, scores)

    def add_plain(rows: FloatArray) -> FloatArray:
        return _sum_trees(rows if sets is None else append_levels(rows, sets), nodes, sets)

    return score_rows(X, nodes.root.size, nodes.root.size, add_compiled, add_plain)


def append_levels(X: FloatArray, sets: LevelSets) -> FloatArray:
    """X with a column more for each feature with sets: the places of its rows of bits."""
    wide = np.empty((X.shape[0], X.shape[1] + sets.feature.size))
    wide[:, : X.shape[1]] = X
    for slot, feature in enumerate(sets.feature.tolist()):
        wide[:, X.shape[1] + slot] = level_places(X[:, feature], sets, slot)
    return wide


def level_places(x: FloatArray, sets: LevelSets, slot: int) -> IntArray:
    """Where the rows of bits of the values of one feature start."""
    level = sets.level[slice(*sets.ptr[slot : slot + 2])]
    row = np.searchsorted(level, x)
    if level.size:
        row[level.take(np.minimum(row, level.size - 1)) != x] = level.size
    row[np.isnan(x)] = level.size + 1
    places: IntArray = sets.start[slot] + row * sets.width[slot]
    return places


def _sum_trees(X: FloatArray, nodes: Nodes, sets: LevelSets | None) -> FloatArray:
    """All rows in all trees descend one level at a time."""
    (n_rows, width), n_trees = X.shape, nodes.root.size
    flat, has_nan = X.ravel(), bool(np.isnan(X).any())
    leaves = np.empty(n_trees * n_rows, np.int64)
    pair: Any = slice(None)  # all (tree, row) pairs
    at = np.repeat(nodes.root, n_rows)
    start = np.tile(np.arange(n_rows) * width, n_trees)  # of the row in ``flat``
    for level in range(1, int(nodes.depth.max(initial=0)) + 1):
        x = flat.take(start + nodes.feature.take(at))
        at = nodes.child.take(2 * at + goes_right_at(x, at, nodes, sets, has_nan))
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
    x: FloatArray, at: IntArray, nodes: Nodes, sets: LevelSets | None, has_nan: bool = True
) -> BoolArray:
    """Whether rows with the values x go right at the nodes ``at``; places of bits at sets."""
    goes_right = x > nodes.threshold.take(at)
    if has_nan:
        goes_right |= np.isnan(x) & (nodes.default.take(at) == 1)
    if sets is not None:
        byte = sets.byte.take(at)
        pairs = np.flatnonzero(byte >= 0)
        bits = sets.bits.take(x.take(pairs).astype(np.int64) + byte.take(pairs))
        goes_right[pairs] = (bits & sets.bit.take(at.take(pairs))) != 0
    return goes_right


def leaf_masks(trees: Trees, sets: LevelSets | None) -> Masks | None:
    """The masks of a ``Trees`` and its sets; None if a tree has more than 64 leaves."""
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
    by_set = np.zeros(nodes.size, bool) if sets is None else sets.byte[nodes] >= 0
    column, rank = np.zeros((2, nodes.size), np.int64)
    feature, ptr, threshold, *codes = _code_columns(trees, nodes[~by_set])
    column[~by_set], rank[~by_set] = codes
    n_columns = 2 * feature.size
    if sets is not None:
        first_column = n_columns + np.cumsum([0, *sets.width])
        slot, own = np.searchsorted(sets.feature, trees.feature[nodes[by_set]]), nodes[by_set]
        column[by_set] = first_column[slot] + sets.byte[own]
        rank[by_set] = sets.bit[own]
        n_columns = int(first_column[-1])
    if n_columns > MOST_COLUMNS:
        return None
    n_bytes, n_blocks = -(-most // 32) * 4, -(-trees.root.size // TREES)
    n_low, lowest = n_leaves[low[nodes]].astype(np.uint64), first[nodes].astype(np.uint64)
    excluded = (ONE << n_low) - ONE << lowest
    mask = excluded[:, None] >> np.arange(0, 8 * n_bytes, 8, dtype=np.uint64) & np.uint64(255)
    at, byte = np.nonzero(mask)
    steps: list[Any] = []
    for chosen in (~by_set[at], by_set[at]):
        node, own = at[chosen], byte[chosen]
        parts = (column[node], rank[node], mask[node, own])
        steps += _steps(owner[nodes[node]], own, parts, n_blocks)
    leaves = np.flatnonzero((trees.feature < 0) & (owner >= 0))
    leaf = np.zeros((TREES * n_blocks, 8 * n_bytes))
    leaf[owner[leaves], first[leaves]] = trees.weight[owner[leaves]] * trees.value[leaves]
    block, step, set_block, set_step = steps
    return Masks(feature, ptr, threshold, block, step, set_block, set_step, leaf)


def _code_columns(trees: Trees, nodes: IntArray) -> Any:
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
