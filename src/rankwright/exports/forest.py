"""Sums of decision trees as nested nodes, and what float32 engines need of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from rankwright.exceptions import ParameterError

MAX_NODES = 200_000  # of all trees together, once categories are written as chains of tests
MAX_CATEGORY = 1 << 20  # below it float32 has all halves
FLOAT32_MAX = float(np.finfo(np.float32).max)


@dataclass(frozen=True, slots=True)
class Leaf:
    """The end of a branch."""

    value: float


@dataclass(frozen=True, slots=True)
class Branch:
    """x > threshold goes to ``high``, as does x in ``categories`` if there are any; else ``low``.

    NaN goes to ``high`` if ``default``. A threshold of +inf separates NaN from all numbers.
    """

    feature: int
    threshold: float
    low: Node
    high: Node
    default: bool
    categories: tuple[float, ...] = ()

    def is_high(self, x: float) -> bool:
        """Where a number goes."""
        return x in self.categories if self.categories else x > self.threshold


Node = Leaf | Branch


@dataclass(frozen=True, eq=False)
class Forest:
    """score = the sum of the leaves that a row falls into, one per tree."""

    trees: tuple[Node, ...]

    def splits(self) -> Iterator[Branch]:
        """Every split of every tree."""
        stack = list(self.trees)
        while stack:
            node = stack.pop()
            if isinstance(node, Branch):
                yield node
                stack += [node.low, node.high]

    def change(self, function: Callable[[Branch], Node]) -> Forest:
        """Every split replaced, children first."""

        def changed(node: Node) -> Node:
            if isinstance(node, Leaf):
                return node
            return function(replace(node, low=changed(node.low), high=changed(node.high)))

        return Forest(tuple(map(changed, self.trees)))

    def with_missing(self, missing: str) -> Forest:
        """The same forest where NaN is a 0 (``zero``), or does not occur (``never``)."""

        def without_missing(split: Branch) -> Node:
            if missing == "model" or (split.threshold != np.inf or split.categories):
                zero = missing == "zero"
                return replace(split, default=split.is_high(0.0)) if zero else split
            return split.low

        return self.change(without_missing)

    @property
    def missing_is_zero(self) -> bool:
        """Whether NaN goes where 0 goes, everywhere."""
        return all(split.default == split.is_high(0.0) for split in self.splits())

    @property
    def has_categories(self) -> bool:
        return any(split.categories for split in self.splits())

    def curves(self) -> list[tuple[int, list[float], list[float]]] | None:
        """Feature, thresholds and values of each tree that tests one feature only; else None."""
        curves = [_curve(tree) for tree in self.trees]
        return None if None in curves else [curve for curve in curves if curve is not None]

    def extremes(self) -> tuple[float, float]:
        """Bounds of the score: the sums of the lowest and of the highest leaves."""
        leaves = [_leaves(tree) for tree in self.trees]
        return sum(map(min, leaves)), sum(map(max, leaves))

    @property
    def magnitude(self) -> float:
        """The sum over trees of the largest absolute leaf."""
        return sum(max(map(abs, _leaves(tree))) for tree in self.trees)


def _curve(tree: Node) -> tuple[int, list[float], list[float]] | None:
    features, thresholds, values = set(), [], []

    def visit(node: Node, low: float, high: float) -> None:
        if isinstance(node, Leaf):
            values.append(node.value)
            return
        features.add(-1 if node.categories else node.feature)
        if node.threshold >= high or node.threshold <= low:  # one side is never reached
            visit(node.low if node.threshold >= high else node.high, low, high)
            return
        visit(node.low, low, node.threshold)
        thresholds.append(node.threshold)
        visit(node.high, node.threshold, high)

    visit(tree, -np.inf, np.inf)
    if len(features) > 1 or -1 in features:
        return None
    return next(iter(features), 0), thresholds, values


def _leaves(tree: Node) -> list[float]:
    values, stack = [], [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, Leaf):
            values.append(node.value)
        else:
            stack += [node.low, node.high]
    return values


def without_categories(forest: Forest) -> Forest:
    """Tests of categories as chains of thresholds halfway between whole numbers."""
    if not forest.has_categories:
        return forest
    for split in forest.splits():
        if any(value != int(value) or abs(value) > MAX_CATEGORY for value in split.categories):
            raise ParameterError(
                f"export: categories are whole numbers up to {MAX_CATEGORY:,} in this target, and "
                f"this model has {min(split.categories):g} to {max(split.categories):g}."
            )
    unfolding = _Unfolding()
    return Forest(tuple(unfolding.node(tree, {}) for tree in forest.trees))


class _Range(NamedTuple):
    """What is known of a feature in a branch: low < x <= high, or NaN if ``nan``."""

    low: float = -np.inf
    high: float = np.inf
    nan: bool = True


class _Unfolding:
    """Copies trees with chains of thresholds; what a branch knows of a feature prunes the copy."""

    def __init__(self) -> None:
        self.n_nodes = 0

    def node(self, node: Node, known: dict[int, _Range]) -> Node:
        self.n_nodes += 1
        if self.n_nodes > MAX_NODES:
            raise ParameterError(
                f"export: the categories of this model need more than {MAX_NODES:,} threshold "
                "nodes. Use a target that supports categories: lightgbm, onnx, sql or vespa."
            )
        if isinstance(node, Leaf):
            return node
        now = known.get(node.feature, _Range())
        if now.low > now.high:  # only NaN comes here
            return self.node(node.high if node.default else node.low, known)
        if node.categories:
            return self.chain(node, known, now)
        if node.threshold >= now.high and not (now.nan and node.default):
            return self.node(node.low, known)
        if node.threshold <= now.low and (node.default or not now.nan):
            return self.node(node.high, known)
        below = _Range(now.low, min(now.high, node.threshold), now.nan and not node.default)
        above = _Range(max(now.low, node.threshold), now.high, now.nan and node.default)
        low = self.node(node.low, known | {node.feature: below})
        high = self.node(node.high, known | {node.feature: above})
        return replace(node, low=low, high=high)

    def chain(self, node: Branch, known: dict[int, _Range], now: _Range) -> Node:
        """Ranges of x that are in the set and ranges that are not, in turn."""
        inside, limits = False, [now.low]
        for limit in _limits(node.categories):
            if limit <= now.low:
                inside = not inside
            elif limit < now.high:
                limits.append(limit)
        first, limits = inside, [*limits, now.high]

        def balanced(start: int, stop: int) -> Node:
            if stop - start == 1:
                part = _Range(limits[start], limits[stop], False)
                child = node.high if first == (start % 2 == 0) else node.low
                return self.node(child, known | {node.feature: part})
            middle = (start + stop) // 2
            parts = balanced(start, middle), balanced(middle, stop)
            return Branch(node.feature, limits[middle], *parts, default=False)

        chain = balanced(0, len(limits) - 1)
        if not now.nan:
            return chain
        only_nan = known | {node.feature: _Range(np.inf, -np.inf)}
        missing = self.node(node.high if node.default else node.low, only_nan)
        return Branch(node.feature, np.inf, chain, missing, default=True)


def _limits(categories: tuple[float, ...]) -> list[float]:
    """Halves around runs of whole numbers: 1, 2, 5 gives 0.5, 2.5, 4.5, 5.5."""
    limits: list[float] = []
    for value in categories:
        if limits and limits[-1] == value - 0.5:
            limits[-1] = value + 0.5
        else:
            limits += [value - 0.5, value + 0.5]
    return limits


def floor32(value: float) -> float:
    """The largest float32 that is not above a number.

    >>> floor32(0.1) < 0.1, floor32(0.5)
    (True, 0.5)
    """
    with np.errstate(over="ignore"):
        near = np.float32(value)
    return float(near if float(near) <= value else np.nextafter(near, np.float32(-np.inf)))


def ceiling32(threshold: float) -> float:
    """The c for which x < c is the same as not x > threshold, for every float32 x."""
    with np.errstate(over="ignore"):
        return float(np.nextafter(np.float32(floor32(threshold)), np.float32(np.inf)))


def number32(value: float) -> float:
    """The nearest float32, as the shortest decimal that reads back as it."""
    with np.errstate(over="ignore"):
        return float(str(np.float32(value)))


def float32_test(split: Branch) -> tuple[float, Node, Node, bool]:
    """A split as ``x < limit -> yes, else no``: (limit, yes, no, whether NaN goes to yes).

    A threshold above all float32 numbers only separates NaN: ``x < -FLT_MAX`` does so as well.
    """
    if split.threshold >= FLOAT32_MAX:
        return -FLOAT32_MAX, split.high if split.default else split.low, split.low, True
    return ceiling32(split.threshold), split.low, split.high, not split.default
