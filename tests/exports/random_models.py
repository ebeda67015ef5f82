"""Random models of every kind, built without training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from rankwright.persist.scorer import SavedScorer
from rankwright.scoring.kernel import Kernel, KernelExpansion
from rankwright.scoring.linear import Additive, Deviations, FilledAverage, Linear, Slopes
from rankwright.scoring.network import Network, n_weights
from rankwright.scoring.ordinal import Ordinal, Prototypes, Votes
from rankwright.scoring.sums import Sum
from rankwright.scoring.transforms import (
    Affine,
    LevelNumbers,
    Mapped,
    Monomials,
    Polynomial,
    QueryScale,
)
from rankwright.scoring.trees import Trees

Random = np.random.Generator
# Thresholds where engines differ: zero, around one, halfway between float32 numbers, large, small.
SPECIAL = np.array([0.0, -0.0, 1.0, 1.0 + 2.0**-24, 0.1, -2.5e6, 3.0e-3, 16777217.0])


def thresholds(rng: Random, n: int) -> Any:
    drawn = rng.normal(scale=10.0 ** rng.integers(-1, 3), size=n)
    special = rng.random(n) < 0.3
    drawn[special] = rng.choice(SPECIAL, int(special.sum()))
    return drawn


def additive(rng: Random) -> Additive:
    n_inputs = int(rng.integers(1, 5))
    used = np.sort(rng.permutation(n_inputs)[: rng.integers(1, n_inputs + 1)]).astype(np.int64)
    sizes = rng.integers(0, 9, len(used))
    steps = [np.unique(thresholds(rng, size)) for size in sizes]
    ptr = np.concatenate([[0], np.cumsum([len(part) for part in steps])]).astype(np.int64)
    value = rng.normal(size=int(ptr[-1]) + len(used))
    first, last = value[ptr[:-1] + np.arange(len(used))], value[ptr[1:] + np.arange(len(used))]
    missing = np.choose(rng.integers(0, 3, len(used)), [first, last, rng.normal(size=len(used))])
    return Additive(n_inputs, used, ptr, np.concatenate(steps), value, missing)


def trees(rng: Random, infinite: bool = False) -> Trees:
    n_inputs = int(rng.integers(1, 5))
    parts: dict[str, list[Any]] = {
        name: [] for name in ("root", "feature", "threshold", "default", "low", "high", "value")
    }

    def grow(depth: int) -> int:
        place = len(parts["feature"])
        is_leaf = depth == 0 or rng.random() < 0.2
        drawn = float(thresholds(rng, 1)[0])
        if infinite and rng.random() < 0.2:
            drawn = float(rng.choice([-np.inf, np.inf]))
        for name, entry in (
            ("feature", -1 if is_leaf else int(rng.integers(n_inputs))), ("threshold", drawn),
            ("default", int(rng.integers(2))), ("low", 0), ("high", 0), ("value", rng.normal()),
        ):  # fmt: skip
            parts[name].append(entry)
        if not is_leaf:
            parts["low"][place] = grow(depth - 1)
            parts["high"][place] = grow(depth - 1)
        return place

    n_trees = int(rng.integers(1, 6))
    roots = [grow(int(rng.integers(0, 5))) for _ in range(n_trees)]
    whole = {
        name: np.array(parts[name], np.int64) for name in ("feature", "default", "low", "high")
    }
    real = {name: np.array(parts[name], np.float64) for name in ("threshold", "value")}
    weight = rng.normal(size=n_trees)
    return Trees(n_inputs, np.array(roots, np.int64), weight, **whole, **real)


def categorical(rng: Random) -> Trees:
    """Trees whose splits are on sets of whole numbers, or on thresholds."""
    plain = trees(rng)
    inner = plain.feature >= 0
    by_set = inner & (rng.random(len(inner)) < 0.6)
    sets = {
        node: np.sort(rng.permutation(40)[: rng.integers(1, 6)]) if chosen else np.zeros(0)
        for node, chosen in enumerate(by_set)
    }
    threshold = np.where(by_set, 0.0, np.round(plain.threshold) + 0.5)
    chosen = {node: values for node, values in sets.items() if len(values)}
    return replace(plain, threshold=threshold).with_categories(chosen)


def linear(rng: Random) -> Linear:
    return Linear(rng.normal(size=rng.integers(1, 6)))


def linear_with_intercept(rng: Random) -> Linear:
    return Linear(rng.normal(size=rng.integers(1, 6)), float(rng.normal()))


def scaled_linear(rng: Random) -> SavedScorer:
    n = int(rng.integers(1, 6))
    scaler = Affine(shift=rng.normal(size=n), divisor=rng.uniform(0.1, 9.0, n))
    return SavedScorer("Pipeline", Linear(rng.normal(size=n)), (scaler,))


def clipped_linear(rng: Random) -> SavedScorer:
    n = int(rng.integers(1, 6))
    scaler = Affine(factor=rng.uniform(0.1, 2, n), offset=rng.normal(size=n), low=0.0, high=1.0)
    return SavedScorer("Pipeline", Linear(rng.normal(size=n)), (scaler,))


def scaled_trees(rng: Random) -> SavedScorer:
    scorer = trees(rng)
    n = scorer.n_inputs
    scaler = Affine(
        shift=rng.normal(size=n),
        divisor=rng.uniform(0.1, 9.0, n),
        factor=rng.choice([-1.3, 0.7], n),
    )
    return SavedScorer("Pipeline", scorer, (scaler,), None, True)


def slopes(rng: Random) -> Slopes:
    n = int(rng.integers(1, 5))
    used = rng.integers(0, n, int(rng.integers(1, 6)))
    return Slopes(n, used, *(rng.normal(size=len(used)) for _ in range(3)))


def deviations(rng: Random) -> Deviations:
    n = int(rng.integers(1, 5))
    rated = bool(rng.integers(2))
    return Deviations(rng.normal(size=n), rng.normal(size=n), float(rng.normal()), rated)


def average(rng: Random) -> FilledAverage:
    n = int(rng.integers(1, 5))
    return FilledAverage(n, rng.integers(0, n, 3), rng.normal(size=3))


def network(rng: Random) -> Network:
    layers = [int(rng.integers(1, 5)), *rng.integers(1, 6, rng.integers(0, 3)).tolist(), 1]
    return Network(np.array(layers), rng.normal(size=n_weights(layers)))


def kernel(rng: Random) -> KernelExpansion:
    n, rows = int(rng.integers(1, 4)), int(rng.integers(1, 9))
    name = str(rng.choice(["rbf", "poly", "linear"]))
    function = Kernel(name, gamma=float(rng.uniform(0.1, 1)), degree=int(rng.integers(1, 4)))
    support, coef = rng.normal(size=(rows, n)), rng.normal(size=rows)
    return KernelExpansion(function, support, coef, float(rng.normal()))


def ordinal(rng: Random) -> Ordinal:
    limits = np.sort(rng.normal(size=3))
    return Ordinal(linear(rng), limits, np.array([0.0, 1.0, 2.0, 4.0]))


def polynomial(rng: Random) -> Mapped:
    n = int(rng.integers(1, 4))
    degree = int(rng.integers(1, 4))
    mapping = Polynomial(n, degree, gamma=0.5) if rng.integers(2) else Monomials(n, degree)
    return Mapped(mapping, Linear(rng.normal(size=mapping.n_outputs)))


def votes(rng: Random) -> Votes:
    n, rules = int(rng.integers(1, 4)), int(rng.integers(1, 5))
    limits = np.sort(rng.normal(size=(rules, 2)), axis=1)
    coef, count = rng.normal(size=(rules, n)), rng.integers(1, 9, rules).astype(np.float64)
    return Votes(coef, limits, count, np.array([0.0, 1.0, 3.0]))


def prototypes(rng: Random) -> Prototypes:
    return Prototypes(rng.normal(size=(3, int(rng.integers(1, 4)))), np.array([0.0, 1.0, 3.0]))


def by_query(rng: Random) -> SavedScorer:
    scorer = linear(rng)
    method = str(rng.choice(["minmax", "standard", "max"]))
    return SavedScorer("Pipeline", scorer, (QueryScale(scorer.n_features, method),))


def levels(rng: Random) -> Mapped:
    """Categorical trees of numbers of levels, which are columns of 0 and 1 in the rows."""
    scorer = categorical(rng)
    sizes = rng.integers(2, 7, int(rng.integers(1, scorer.n_inputs + 1)))
    n_others = scorer.n_inputs - len(sizes)
    stop = n_others + np.cumsum(sizes)
    return Mapped(LevelNumbers(int(stop[-1]), stop - sizes, stop), scorer)


def of_width(build: Callable[[Random], Any], n: int, rng: Random) -> Any:
    """A random scorer of n features."""
    while (scorer := build(rng)).n_features != n:
        pass
    return scorer


def _sum(*builders: Callable[[Random], Any]) -> Callable[[Random], SavedScorer]:
    """Sums of such scorers, as an ensemble has them; NaN is allowed if all of them allow it."""

    def build(rng: Random) -> SavedScorer:
        terms = tuple(of_width(builder, 3, rng) for builder in builders)
        nan = all(builder in (additive, trees) for builder in builders)
        scorer = Sum(terms, rng.uniform(0.1, 3.0, len(terms)))
        return SavedScorer("RankEnsemble", scorer, (), None, nan)

    return build


def scaled_network(rng: Random) -> Mapped:
    scaler = Affine(shift=rng.normal(size=3), divisor=rng.uniform(0.1, 9.0, 3))
    return Mapped(scaler, of_width(network, 3, rng))


def clipped(rng: Random) -> Mapped:
    scaler = Affine(factor=rng.uniform(0.1, 2, 3), offset=rng.normal(size=3), low=0.0, high=1.0)
    return Mapped(scaler, of_width(linear, 3, rng))


sum_of_trees = _sum(trees, additive, trees)
sum_of_lines = _sum(linear, linear_with_intercept)
sum_of_lines_and_trees = _sum(trees, additive, linear_with_intercept)
sum_of_everything = _sum(trees, linear, scaled_network, kernel, clipped, votes)
sum_with_prototypes = _sum(prototypes, linear)


KINDS: dict[str, Callable[[Random], Any]] = {
    "linear": linear,
    "linear with intercept": linear_with_intercept,
    "linear after a scaler": scaled_linear,
    "linear after a clipping scaler": clipped_linear,
    "linear with missing values": slopes,
    "deviations": deviations,
    "average": average,
    "steps": additive,
    "trees": trees,
    "trees after a scaler": scaled_trees,
    "categorical trees": categorical,
    "categorical trees of levels in columns": levels,
    "ordinal": ordinal,
    "network": network,
    "kernel expansion": kernel,
    "polynomial": polynomial,
    "votes": votes,
    "prototypes": prototypes,
    "scaled by query": by_query,
    "sum of trees": sum_of_trees,
    "sum of linear models": sum_of_lines,
    "sum of linear models and trees": sum_of_lines_and_trees,
    "sum of everything": sum_of_everything,
    "sum with prototypes": sum_with_prototypes,
}
