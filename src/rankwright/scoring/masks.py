"""Trees as masks of leaves: a layout that is scored for many rows at once."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rankwright._typing import FloatArray, IntArray

MOST_LEAVES = 64  # of a tree whose leaves are bits
MOST_CODES, MOST_COLUMNS = 255, 2**15  # numbers of 8 and, for two of each, of 16 bits
TREES = 4  # whose leaves are found at once
ONE = np.uint64(1)


class Masks(NamedTuple):
    """Trees of up to 64 leaves as masks: what a value above a threshold excludes.

    A column holds codes of 8 bits, the number of its thresholds that are below a feature's value.
    A feature with more than 255 thresholds has several. Column c + n_columns is column c for nodes
    that send NaN up: its code of NaN is 255, not 0.

    Attributes
    ----------
    feature : (n_columns,) of each column
    ptr, threshold : the thresholds of column c ascend from ``threshold[ptr[c]]`` on, filled up with
        inf to a multiple of eight, and eight more
    block : (n_blocks + 1,) steps ``block[b]`` to ``block[b + 1]`` are those of four trees
    step : (n_steps, 7) uint16, one node or two of a tree: the place of eight leaves of the tree (4
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
    step[:, 5] = MOST_CODES  # of a second node that there is not
    step[at, 0] = row
    for place, values in enumerate(parts, 1):
        step[at, place + 3 * second] = values[order]
    return np.searchsorted(block[second == 0], np.arange(n_blocks + 1)), step


def _numbers(owner: IntArray) -> IntArray:
    """The number of each entry among those with the same owner, which ascend.

    >>> _numbers(np.array([0, 0, 2, 2, 2]))
    array([0, 1, 0, 1, 2])
    """
    return np.arange(owner.size) - np.searchsorted(owner, owner)


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
