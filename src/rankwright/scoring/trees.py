"""Sums of step functions and of decision trees."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from rankwright._typing import FloatArray, IntArray
from rankwright.scoring.base import Matrix, Scorer, row_blocks
from rankwright.scoring.masks import Masks, leaf_masks
from rankwright.scoring.traversal import (
    Categories,
    Nodes,
    Steps,
    flat_categories,
    flat_nodes,
    score_steps,
    score_trees,
)

ROWS_PER_BLOCK, VALUES_PER_BLOCK = 65536, 1 << 20


@dataclass(frozen=True, eq=False)
class Additive(Scorer):
    """Additive model: the score is a sum of one step function per feature.

    The steps of feature ``feature[i]`` are at ``threshold[ptr[i] : ptr[i + 1]]``; a value x gets
    ``value[ptr[i] + i + k]``, where k thresholds are below x. NaN gets ``missing[i]``; so does an
    entry that a CSR matrix does not store if ``absent_abstains``, else such an entry is a zero.

    >>> curve = Additive(
    ...     n_inputs=2, feature=np.array([1]), ptr=np.array([0, 2]), threshold=np.array([1.0, 5.0]),
    ...     value=np.array([0.0, 0.5, 2.0]), missing=np.array([-1.0]))
    >>> curve.decision_function(np.array([[9.0, 1.0], [9.0, 2.0], [9.0, 6.0], [9.0, np.nan]]))
    array([ 0. ,  0.5,  2. , -1. ])
    """

    kind: ClassVar[str] = "additive"
    n_inputs: int
    feature: IntArray
    ptr: IntArray
    threshold: FloatArray
    value: FloatArray
    missing: FloatArray
    absent_abstains: bool = False
    _width: ClassVar[str] = "n_inputs"

    def __post_init__(self) -> None:
        n, n_steps = self.feature.size, self.threshold.size
        self._check_arrays(feature=(n,), missing=(n,), ptr=(n + 1,))
        self._check_arrays(threshold=(n_steps,), value=(n_steps + n,))
        self._check_range("n_inputs", 1, np.inf)
        self._check_range("feature", 0, self.n_inputs - 1)
        self._check_ascending("ptr")
        first, last = int(self.ptr[0]), int(self.ptr[-1])
        fault = f"ptr runs from {first} to {last}, not 0 to {n_steps}"
        self._check((first, last) == (0, n_steps), fault)
        descents = np.flatnonzero(np.diff(self.threshold) < 0) + 1
        within = descents[~np.isin(descents, self.ptr)]  # not where the next feature begins
        self._check(not len(within), f"threshold: {len(within)} values are below the one before")

    @classmethod
    def from_rounds(
        cls,
        n_inputs: int,
        feature: IntArray,
        threshold: FloatArray,
        default: Any,
        alpha: FloatArray,
        absent_abstains: bool = False,
    ) -> Additive:
        """The sum of alpha[t] * h_t, h_t(x) = [x[feature[t]] > threshold[t]], or default[t].

        A threshold of -inf says "has a value at all".
        """
        used, index = np.unique(feature, return_inverse=True)
        finite = np.isfinite(threshold)
        order = np.flatnonzero(finite)[np.lexsort((threshold[finite], index[finite]))]
        owner, steps = index[order], threshold[order]
        new = np.ones(len(order), bool)
        new[1:] = (owner[1:] != owner[:-1]) | (steps[1:] != steps[:-1])
        rise = np.bincount(np.cumsum(new) - 1, alpha[order], int(new.sum()))
        n_steps = np.bincount(owner[new], minlength=len(used))
        ptr = np.concatenate([[0], np.cumsum(n_steps)])
        start = np.bincount(index[~finite], alpha[~finite], len(used)).astype(np.float64)
        value = np.repeat(start, n_steps + 1)
        for i in range(len(used)):
            value[ptr[i] + i + 1 : ptr[i + 1] + i + 1] += np.cumsum(rise[ptr[i] : ptr[i + 1]])
        used, ptr = used.astype(np.int64), ptr.astype(np.int64)
        missing = np.bincount(index, default * alpha, len(used)).astype(np.float64)
        return cls(n_inputs, used, ptr, steps[new], value, missing, absent_abstains)

    def curve(self, feature: int) -> tuple[FloatArray, FloatArray, float]:
        """Thresholds, the values between them (one more), and the value without the feature."""
        columns = np.flatnonzero(self.feature == feature)
        return self._curve(int(columns[0])) if len(columns) else (np.zeros(0), np.zeros(1), 0.0)

    def _curve(self, i: int) -> tuple[FloatArray, FloatArray, float]:
        start, stop = int(self.ptr[i]), int(self.ptr[i + 1])
        values = self.value[start + i : stop + i + 1]
        return self.threshold[start:stop], values, float(self.missing[i])

    def split_values(self, feature: int) -> FloatArray:
        return self.curve(feature)[0]

    def part(self, i: int, column: FloatArray) -> FloatArray:
        """What the feature in place ``i`` adds, for a column of its values."""
        thresholds, values, missing = self._curve(i)
        value = values[np.searchsorted(thresholds, column, side="left")]
        return np.where(np.isnan(column), missing, value)

    @cached_property
    def _steps(self) -> Steps:
        arrays: Any = (self.feature, self.ptr, self.threshold, self.value, self.missing)
        return Steps(*(array.copy() for array in arrays))

    def decision_function(self, X: Matrix) -> FloatArray:
        steps = self._steps
        if isinstance(X, np.ndarray):
            return score_steps(np.asarray(X, np.float64), steps)
        dense = steps._replace(feature=np.arange(steps.feature.size))
        score = lambda rows: score_steps(rows, dense)  # noqa: E731
        return _by_dense_blocks(X, self.feature, self.absent_abstains, score)


def _by_dense_blocks(
    X: Any, features: Any, absent_abstains: bool, score: Callable[[FloatArray], FloatArray]
) -> FloatArray:
    """Scores of a CSR matrix: ``score`` gets some columns of some rows at a time."""
    scores = np.zeros(X.shape[0])
    for block in row_blocks(X.shape[0], len(features), VALUES_PER_BLOCK):
        rows = np.empty((block.stop - block.start, len(features)))
        for part, i, column in columns_of(X[block], features, absent_abstains):
            rows[part, i] = column
        scores[block] = score(rows)
    return scores


def columns_of(
    X: Any, features: Any, absent_abstains: bool
) -> Iterator[tuple[slice, int, FloatArray]]:
    """Some columns of a matrix, in blocks of rows: (rows, place in ``features``, column).

    A CSR matrix is never made dense as a whole; what it does not store is 0, or NaN.
    """
    for rows in row_blocks(X.shape[0], 1, ROWS_PER_BLOCK):
        block = X[rows]
        if hasattr(block, "tocsc"):
            block = block.tocsc()
            block.sum_duplicates()
        for index, feature in enumerate(features):
            if isinstance(block, np.ndarray):
                yield rows, index, block[:, feature]
                continue
            column = np.full(rows.stop - rows.start, np.nan if absent_abstains else 0.0)
            entries = slice(*block.indptr[feature : feature + 2])
            column[block.indices[entries]] = block.data[entries]
            yield rows, index, column


@dataclass(frozen=True, eq=False)
class Trees(Scorer):
    """Tree ensemble: the score is the weighted sum of the leaf values.

    Node n is a leaf if ``feature[n]`` is -1; else a row goes to ``high[n]`` if its feature is
    above ``threshold[n]``, to ``low[n]`` if not, and where it lacks the feature to ``high[n]`` if
    ``default[n]`` is 1. Children come after their parent; tree t starts at ``root[t]``.

    A node with ``cat_ptr[n + 1] > cat_ptr[n]`` splits by category: a row goes to ``high[n]`` if its
    feature is one of ``categories[cat_ptr[n] : cat_ptr[n + 1]]``, which ascend, and to ``low[n]``
    with any other value; the threshold is 0. Without categories both arrays may be None.

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
        used, place = np.unique(nodes.feature, return_inverse=True)
        dense = nodes._replace(feature=place)
        if masks is not None:
            masks = masks._replace(feature=np.searchsorted(used, masks.feature))
        score = lambda rows: score_trees(rows, dense, categories, masks)  # noqa: E731
        return _by_dense_blocks(X, used, self.absent_abstains, score)
