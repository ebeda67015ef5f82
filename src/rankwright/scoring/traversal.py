"""Rows through trees and step functions: vectorized NumPy, or compiled where that pays.

The two give the same bits: the value of every tree (or feature) is the same number, and the sum
of a row runs over them in their order.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from threading import get_ident
from typing import Any, ClassVar, NamedTuple

import numpy as np

from rankwright._typing import BoolArray, FloatArray, IntArray
from rankwright.parallel import map_blocks, n_threads, ranges
from rankwright.scoring.base import row_blocks
from rankwright.scoring.masks import Masks, inner_levels, owners

# Units of work are (row, tree) or (row, feature) pairs; NumPy does about 20 million in a second.
PAIRS_PER_BLOCK = 1 << 16  # temporary arrays of NumPy that stay in the cache
PAIRS_PER_THREAD = 1 << 20  # less is not worth a second thread
PAIRS_TO_LOAD, PAIRS_TO_IMPORT = 2_000_000, 10_000_000
LEVELS = 4  # after so many levels, look for rows that have reached a leaf
ROWS_FOR_MASKS = 16  # fewer pass through the trees one level at a time
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
    warming: ClassVar[set[int]] = set()  # threads that compile


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
    if _Work.warming:
        return compile_kernels() if get_ident() in _Work.warming else None
    if "rankwright.scoring._kernels" not in sys.modules:
        limit = PAIRS_TO_LOAD if "numba" in sys.modules else PAIRS_TO_IMPORT
        if _Work.done < limit or not can_compile():
            return None
    return compile_kernels()


def compile_kernels() -> Any:
    """Import the compiled kernels now; see also :func:`warming_up`."""
    from rankwright.scoring import _kernels

    return _kernels


@contextmanager
def warming_up() -> Iterator[None]:
    """Compile in this thread what a ``with`` block scores; others score with NumPy meanwhile."""
    _Work.warming.add(get_ident())
    try:
        yield
    finally:
        _Work.warming.discard(get_ident())


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
    n_pairs = X.shape[0] * max(nodes.root.size, 1)
    compiled = kernels(n_pairs)

    def add(rows: slice, scores: FloatArray) -> None:
        if compiled is not None:
            if masks is not None and rows.stop - rows.start >= ROWS_FOR_MASKS:
                compiled.add_masked_trees(_read_only(X[rows]), masks, scores[rows])
                return
            default = nodes.default if np.isnan(X[rows]).any() else None
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
    threads = n_pairs // PAIRS_PER_THREAD + 1
    if threads == 1 and n_rows:
        add(slice(0, n_rows), scores)
        return scores
    threads = min(n_threads(), threads)
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
