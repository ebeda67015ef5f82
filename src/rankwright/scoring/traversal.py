"""Rows through trees and step functions: vectorized NumPy, or compiled where that pays.

The two give the same bits: the value of every tree (or feature) is the same number, and the sum
of a row runs over them in their order.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from rankwright._typing import BoolArray, FloatArray, IntArray
from rankwright.parallel import map_blocks, n_threads, ranges
from rankwright.scoring.base import row_blocks

# Units of work are (row, tree) or (row, feature) pairs; NumPy does about 20 million in a second.
PAIRS_PER_BLOCK = 1 << 16  # temporary arrays of NumPy that stay in the cache
PAIRS_PER_THREAD = 1 << 20  # less is not worth a second thread
PAIRS_TO_LOAD, PAIRS_TO_IMPORT = 2_000_000, 10_000_000
LEVELS = 4  # after so many levels, look for rows that have reached a leaf
MOST_LEAVES = 32  # of a tree whose leaves are the bits of a number
ROWS_FOR_MASKS = 32  # fewer pass through the trees one level at a time
DE_BRUIJN = np.uint64(0x077CB531)  # times 2 ** i it has another number i in bits 27 to 31 each
FEW_STEPS = 32  # thresholds per feature, up to which comparing with each is quickest


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


class Masks(NamedTuple):
    """Trees of up to 32 leaves as masks: what a value above a threshold excludes.

    Attributes
    ----------
    feature : (n_columns,) features that some node splits by
    ptr, threshold : the different thresholds of column c ascend in ``threshold[ptr[c] : ptr[c +
        1]]``
    tree : (n_trees + 1,) nodes ``tree[t]`` to ``tree[t + 1]`` are those of tree t, filled up with
        nodes that exclude nothing to a multiple of four
    column, rank, mask : (n_nodes,) where more than ``rank`` thresholds of the column are below a
        row's value, the row's leaf is none of those whose bits are 0 in ``mask``
    leaf : (n_trees, 32) weight * value of leaf i at ``(DE_BRUIJN << i) % 2 ** 32 >> 27``
    """

    feature: IntArray
    ptr: IntArray
    threshold: FloatArray
    tree: IntArray
    column: IntArray
    rank: IntArray
    mask: Any
    leaf: FloatArray


class Categories(NamedTuple):
    """Values that go up at node n: ``value[ptr[n] : ptr[n + 1]]``; none if n splits by threshold.

    ``known`` are the different values of all nodes, ``key`` the pairs (node, place in ``known``)
    as ascending numbers node * len(known) + place.
    """

    ptr: IntArray
    value: FloatArray
    known: FloatArray
    key: IntArray


class Steps(NamedTuple):
    """The arrays of an ``Additive``."""

    feature: IntArray
    ptr: IntArray
    threshold: FloatArray
    value: FloatArray
    missing: FloatArray


class _Work:
    done = 0  # pairs scored in this process


@cache
def can_compile() -> bool:
    """Whether there is a numba whose compiler is not switched off."""
    switched_off = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")
    return not switched_off and find_spec("numba") is not None


def kernels(n_pairs: int) -> Any:
    """The module of compiled kernels, or None as long as NumPy costs less than starting them.

    They are used once this process has scored so much that NumPy has taken about as long as
    importing numba (if it is not imported yet) and loading the kernels will take. So a short
    prediction never waits for them.
    """
    _Work.done += n_pairs
    if "rankwright.scoring._kernels" not in sys.modules:
        limit = PAIRS_TO_LOAD if "numba" in sys.modules else PAIRS_TO_IMPORT
        if _Work.done < limit or not can_compile():
            return None
    return compile_kernels()


def compile_kernels() -> Any:
    """Import the compiled kernels now; a server that has numba does so before it takes requests."""
    from rankwright.scoring import _kernels

    return _kernels


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
    owner, depth = _owners(trees), np.zeros(trees.root.size, np.int64)
    for level, inner in enumerate(_levels(trees), 1):
        depth[owner[inner]] = level
    return depth


def _levels(trees: Any) -> list[IntArray]:
    """The nodes of each level that have children, from the roots down."""
    levels, nodes = [], trees.root
    while (nodes := nodes[trees.feature[nodes] >= 0]).size:
        levels.append(nodes)
        nodes = np.concatenate([trees.low[nodes], trees.high[nodes]])
    return levels


def _owners(trees: Any) -> IntArray:
    """The tree of each node; -1 for nodes that are in none."""
    owner = np.full(trees.feature.size, -1)
    owner[trees.root] = np.arange(trees.root.size)
    for inner in _levels(trees):
        owner[trees.low[inner]] = owner[trees.high[inner]] = owner[inner]
    return owner


def leaf_masks(trees: Any) -> Masks | None:
    """The masks of a ``Trees`` without categories; None if a tree has more than 32 leaves."""
    low, high, levels, owner = trees.low, trees.high, _levels(trees), _owners(trees)
    n_leaves, first = np.ones(owner.size, np.int64), np.zeros(owner.size, np.int64)
    for inner in reversed(levels):
        n_leaves[inner] = n_leaves[low[inner]] + n_leaves[high[inner]]
    if n_leaves[trees.root].max(initial=0) > MOST_LEAVES:
        return None
    for inner in levels:  # the leaves of a tree are numbered from low to high
        first[low[inner]], first[high[inner]] = first[inner], first[inner] + n_leaves[low[inner]]
    nodes = np.concatenate([np.zeros(0, np.int64), *levels])
    nodes = nodes[np.argsort(owner[nodes], kind="stable")]
    size = -(-np.bincount(owner[nodes], minlength=trees.root.size) // 4) * 4
    tree = np.concatenate([[0], np.cumsum(size)])
    place = tree[owner[nodes]] + _numbers(owner[nodes])
    feature, ptr, threshold, column, rank = _ranks(trees.feature[nodes], trees.threshold[nodes])
    excluded = (1 << n_leaves[low[nodes]]) - 1 << first[nodes]
    leaves = np.flatnonzero((trees.feature < 0) & (owner >= 0))
    leaf = np.zeros((trees.root.size, MOST_LEAVES))
    bit = (DE_BRUIJN << first[leaves].astype(np.uint64)) % np.uint64(2**32) >> np.uint64(27)
    leaf[owner[leaves], bit] = trees.weight[owner[leaves]] * trees.value[leaves]
    return Masks(
        feature,
        ptr,
        threshold,
        tree,
        _placed(column, place, tree[-1], 0, np.int64),
        _placed(rank, place, tree[-1], 0, np.int32),
        _placed(2**32 - 1 - excluded, place, tree[-1], 2**32 - 1, np.uint32),
        leaf,
    )


def _numbers(owner: IntArray) -> IntArray:
    """The number of each entry among those with the same owner, which are together.

    >>> _numbers(np.array([0, 0, 2, 2, 2]))
    array([0, 1, 0, 1, 2])
    """
    return np.arange(owner.size) - np.searchsorted(owner, owner)


def _placed(values: IntArray, place: IntArray, size: int, empty: int, kind: Any) -> Any:
    array = np.full(size, empty, kind)
    array[place] = values
    return array


def _ranks(feature: IntArray, threshold: FloatArray) -> tuple[Any, Any, Any, Any, Any]:
    """The different features and their thresholds; the place of each node's among them."""
    used, column = np.unique(feature, return_inverse=True)
    order = np.lexsort((threshold, column))
    columns, ascending = column[order], threshold[order]
    new = np.ones(order.size, bool)
    new[1:] = (columns[1:] != columns[:-1]) | (ascending[1:] != ascending[:-1])
    ptr = np.searchsorted(columns[new], np.arange(used.size + 1))
    rank = np.empty(order.size, np.int64)
    rank[order] = np.cumsum(new) - 1 - ptr[columns]
    return used, ptr, ascending[new], column, rank


def flat_categories(ptr: IntArray, value: FloatArray) -> Categories:
    known, index = np.unique(value, return_inverse=True)
    node = np.repeat(np.arange(ptr.size - 1), np.diff(ptr))
    key = node * max(known.size, 1) + index
    return Categories(ptr.astype(np.int64), value.astype(np.float64), known, key)


def score_trees(
    X: FloatArray, nodes: Nodes, categories: Categories | None, masks: Masks | None = None
) -> FloatArray:
    """The sum over trees of weight * (value of the leaf of each row).

    ``masks``, of the same trees, are quicker for rows without NaN.
    """
    n_pairs = X.shape[0] * max(nodes.root.size, 1)
    compiled = kernels(n_pairs)

    def add(rows: slice, scores: FloatArray) -> None:
        if compiled is not None:
            has_nan = bool(np.isnan(X[rows]).any())
            if masks is not None and not has_nan and rows.stop - rows.start >= ROWS_FOR_MASKS:
                compiled.add_masked_trees(_read_only(X[rows]), masks, scores[rows])
                return
            default = nodes.default if has_nan else None
            compiled.add_trees(_read_only(X[rows]), nodes, default, categories, scores[rows])
            return
        for block in row_blocks(rows.stop - rows.start, nodes.root.size, PAIRS_PER_BLOCK):
            scores[rows][block] = _sum_trees(X[rows][block], nodes, categories)

    return _on_threads(add, X.shape[0], n_pairs)


def score_steps(X: FloatArray, steps: Steps) -> FloatArray:
    """The sum over features of the value of each row's step."""
    n_pairs = X.shape[0] * max(steps.feature.size, 1)
    compiled = kernels(n_pairs)

    def add(rows: slice, scores: FloatArray) -> None:
        if compiled is not None:
            compiled.add_steps(_read_only(X[rows]), steps, scores[rows])
            return
        few = steps.threshold.size <= FEW_STEPS * steps.feature.size
        sums, width = (_sum_few, steps.threshold.size) if few else (_sum_steps, steps.feature.size)
        for block in row_blocks(rows.stop - rows.start, width, PAIRS_PER_BLOCK):
            scores[rows][block] = sums(X[rows][block], steps)

    return _on_threads(add, X.shape[0], n_pairs)


def _on_threads(add: Callable[[slice, FloatArray], None], n_rows: int, n_pairs: int) -> FloatArray:
    scores = np.zeros(n_rows)
    threads = min(n_threads(), n_pairs // PAIRS_PER_THREAD + 1)
    parts = [slice(*part) for part in ranges(n_rows, threads)] if n_rows else []
    map_blocks(lambda rows: add(rows, scores), parts, threads)
    return scores


def _read_only(X: FloatArray) -> FloatArray:
    view = np.ascontiguousarray(X).view()
    view.flags.writeable = False
    return view


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
        at = nodes.child.take(2 * at + go_up(x, at, nodes, categories, has_nan))
        if level % LEVELS == 0:
            moving = np.flatnonzero(nodes.child.take(2 * at) != at)
            if 2 * moving.size < at.size:
                leaves[pair] = at
                pair = moving if isinstance(pair, slice) else pair[moving]
                at, start = at[moving], start[moving]
    leaves[pair] = at
    added = nodes.weight[:, None] * nodes.value.take(leaves).reshape(n_trees, n_rows)
    return _running_sum(added)


def go_up(
    x: FloatArray, at: IntArray, nodes: Nodes, categories: Categories | None, has_nan: bool = True
) -> BoolArray:
    """Whether rows with the values x go up at the nodes ``at``."""
    up = x > nodes.threshold.take(at)
    if has_nan:
        up |= np.isnan(x) & (nodes.default.take(at) == 1)
    if categories is not None:
        _decide_categories(up, x, at, categories)
    return up


def _decide_categories(up: BoolArray, x: FloatArray, at: IntArray, categories: Categories) -> None:
    """Correct ``up`` at the nodes that split by category."""
    listed = categories.ptr.take(at + 1) > categories.ptr.take(at)
    pairs = np.flatnonzero(listed & ~np.isnan(x))
    if not pairs.size:
        return
    x, at = x[pairs], at[pairs]
    index = np.minimum(np.searchsorted(categories.known, x), categories.known.size - 1)
    key = at * categories.known.size + index
    entry = np.minimum(np.searchsorted(categories.key, key), categories.key.size - 1)
    up[pairs] = (categories.known[index] == x) & (categories.key[entry] == key)


def _sum_few(X: FloatArray, steps: Steps) -> FloatArray:
    """Compare with every threshold; quick for a few rows and few steps per feature."""
    n_steps = np.diff(steps.ptr)
    columns = np.ascontiguousarray(X.T)
    above = columns[np.repeat(steps.feature, n_steps)] > steps.threshold[:, None]
    below = np.zeros((steps.feature.size, X.shape[0]), np.int64)  # thresholds below the value
    stepped = np.flatnonzero(n_steps)
    if stepped.size:
        below[stepped] = np.add.reduceat(above, steps.ptr[stepped], axis=0, dtype=np.int64)
    first = steps.ptr[:-1] + np.arange(steps.feature.size)
    value = steps.value.take(below + first[:, None])
    missing = np.isnan(columns[steps.feature])
    return _running_sum(np.where(missing, steps.missing[:, None], value))


def _sum_steps(X: FloatArray, steps: Steps) -> FloatArray:
    """Search the thresholds of one feature after the other."""
    scores = np.zeros(X.shape[0])
    for i, feature in enumerate(steps.feature):
        start, stop = int(steps.ptr[i]), int(steps.ptr[i + 1])
        column = X[:, feature]
        below = np.searchsorted(steps.threshold[start:stop], column, side="left")
        value = steps.value[start + i + below]
        scores += np.where(np.isnan(column), steps.missing[i], value)
    return scores


def _running_sum(parts: FloatArray) -> FloatArray:
    """The sum over the first axis from first to last (``sum`` adds up in pairs)."""
    if not len(parts):
        return np.zeros(parts.shape[1])
    return np.asarray(np.add.accumulate(parts, axis=0)[-1] + 0.0)  # 0.0 where all are -0.0
