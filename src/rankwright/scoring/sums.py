"""Weighted sums of scorers, and how equal kinds become one: one list of trees, one linear function.

A file holds the terms as they are. What is merged is derived from them when rows are scored, so
that a loaded model has the bits of the one that was saved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from rankwright._typing import FloatArray
from rankwright.scoring.base import Matrix, RowMap, Scorer
from rankwright.scoring.kernel import KernelExpansion
from rankwright.scoring.linear import Additive, Linear, Slopes
from rankwright.scoring.network import Network, unpack_layers
from rankwright.scoring.ordinal import Ordinal
from rankwright.scoring.transforms import Mapped, folded
from rankwright.scoring.trees import Trees

# The largest offset of a scaler, in standard deviations, that is folded into weights. Beyond it
# w x - w mean would lose digits that w (x - mean) keeps.
MOST_OFFSET = 1e6

Weighted = tuple[float, Scorer]


@dataclass(frozen=True, eq=False)
class Sum(Scorer):
    """Weighted sum: score = the sum over terms of factor * score of the term.

    >>> line = Linear(np.array([1.0, 2.0]))
    >>> Sum((line, line), np.array([1.0, 0.5])).decision_function(np.array([[1.0, 1.0]]))
    array([4.5])
    """

    kind: ClassVar[str] = "sum"
    terms: tuple[Scorer, ...]
    factors: FloatArray

    def __post_init__(self) -> None:
        self._check(self.terms, "terms is empty; it needs at least one")
        self._check_arrays(factors=(len(self.terms),))
        widths = {term.n_features for term in self.terms}
        self._check(len(widths) == 1, f"the terms need {sorted(widths)} columns")

    @property
    def n_features(self) -> int:
        return self.terms[0].n_features

    @cached_property
    def merged(self) -> Sum:
        """The same sum with as few terms as possible: one for all trees, one for all linear parts.

        Its scores differ by rounding only. Terms without a factor are left out.
        """
        if not self.factors.any():
            return Sum((Linear(np.zeros(self.n_features)),), np.ones(1))
        pairs = zip(self.factors.tolist(), self.terms, strict=True)
        parts = [_simple(*part) for pair in pairs for part in _parts(*pair)]
        groups: dict[Any, list[Weighted]] = {}
        for number, (factor, scorer) in enumerate(parts):
            key = _group(scorer)
            groups.setdefault(number if key is None else key, []).append((factor, scorer))
        terms = [_joined(group) for group in groups.values()]
        return Sum(tuple(term for _, term in terms), np.array([factor for factor, _ in terms]))

    def decision_function(self, X: Matrix) -> FloatArray:
        scores = np.zeros(X.shape[0])
        for factor, term in zip(self.merged.factors, self.merged.terms, strict=True):
            scores += factor * term.decision_function(X)
        return scores

    def split_values(self, feature: int) -> FloatArray | None:
        values = [term.split_values(feature) for term in self.merged.terms]
        known = [value for value in values if value is not None]
        return np.unique(np.concatenate(known)) if len(known) == len(values) else None


def _parts(
    factor: float, scorer: Scorer, maps: tuple[RowMap, ...] = ()
) -> Iterator[tuple[float, Scorer, tuple[RowMap, ...]]]:
    """The terms of a scorer: factor, what scores, and what maps its rows; wrappers taken apart."""
    if factor == 0.0:
        return
    if isinstance(scorer, Sum):
        for inner, term in zip(scorer.factors.tolist(), scorer.terms, strict=True):
            yield from _parts(factor * inner, term, maps)
    elif isinstance(scorer, Ordinal):
        yield from _parts(factor, scorer.score, maps)
    elif isinstance(scorer, Mapped):
        yield from _parts(factor, scorer.score, (*maps, scorer.map))
    else:
        yield factor, scorer, maps


def _simple(factor: float, scorer: Scorer, maps: tuple[RowMap, ...]) -> Weighted:
    """The plainest equal scorer; scalers and the factor become part of its weights if possible."""
    if isinstance(scorer, Network) and len(scorer.layers) == 2:
        scorer = Linear(scorer.weights)
    if isinstance(scorer, KernelExpansion) and scorer.kernel.name == "linear":
        scorer = Linear(scorer.coef @ scorer.support, float(scorer.intercept))
    affine = folded(maps, scorer.n_features) if maps else None
    if affine is not None and isinstance(scorer, Linear):
        behind = _folded_into(scorer.coef[:, None], *affine)
        if behind is not None:
            (table, offset), maps = behind, ()
            scorer = Linear(np.ascontiguousarray(table[:, 0]), float(scorer.intercept + offset[0]))
    elif affine is not None and isinstance(scorer, Network):
        (table, bias), *others = unpack_layers(scorer.layers.tolist(), scorer.weights)
        behind = _folded_into(table, *affine)
        if behind is not None:
            (table, offset), maps = behind, ()
            scorer = _network([(table, bias + offset), *others])
    if factor != 1.0 and scorer.kind in _MERGES:
        factor, scorer = 1.0, _MERGES[scorer.kind]([(factor, scorer)])
    for step in reversed(maps):
        scorer = Mapped(step, scorer)
    return factor, scorer


def _folded_into(table: FloatArray, factor: FloatArray, offset: FloatArray) -> Any:
    """A table of weights of scaled columns as one of raw columns, and offsets of its outputs."""
    moved = np.abs(offset[:, None] * table).max(initial=0.0)
    if not moved <= MOST_OFFSET * np.abs(table).max(initial=0.0):
        return None
    return factor[:, None] * table, offset @ table


def _network(layers: list[tuple[FloatArray, FloatArray]]) -> Network:
    sizes = [len(layers[0][0]), *(table.shape[1] for table, _ in layers)]
    numbers = [part.ravel() for table, offset in layers for part in (table, offset)]
    return Network(np.array(sizes, np.int64), np.concatenate(numbers))


def _group(scorer: Scorer) -> Any:
    """What scorers have in common that can be merged; None if it is merged with none."""
    if isinstance(scorer, Mapped):
        behind = _group(scorer.score)
        return None if behind is None else (scorer.kind, *_content(scorer.map), behind)
    if isinstance(scorer, Additive | Slopes | Trees):
        return scorer.kind, scorer.absent_abstains
    if isinstance(scorer, KernelExpansion):
        return scorer.kind, *scorer.kernel.values().values()
    is_one_layer = isinstance(scorer, Network) and len(scorer.layers) == 3
    return scorer.kind if isinstance(scorer, Linear) or is_one_layer else None


def _content(step: RowMap) -> tuple[Any, ...]:
    """A map as something that equals that of an equal map."""
    values = step.values().values()
    return (step.kind, *(v.tobytes() if isinstance(v, np.ndarray) else v for v in values))


def _joined(group: list[Weighted]) -> Weighted:
    """A group as one scorer with its factor."""
    merge = _MERGES.get(group[0][1].kind)
    return group[0] if len(group) == 1 or merge is None else (1.0, merge(group))


def _linear(group: list[tuple[float, Linear]]) -> Linear:
    coef = np.sum([factor * line.coef for factor, line in group], axis=0)
    return Linear(coef, float(sum(factor * line.intercept for factor, line in group)))


def _slopes(group: list[tuple[float, Slopes]]) -> Slopes:
    feature = np.concatenate([line.feature for _, line in group])
    used, index = np.unique(feature, return_inverse=True)

    def summed(name: str) -> FloatArray:
        values = np.concatenate([factor * getattr(line, name) for factor, line in group])
        return np.bincount(index, values, len(used)).astype(np.float64)

    slope, offset, missing = map(summed, ("slope", "offset", "missing"))
    return replace(group[0][1], feature=used, slope=slope, offset=offset, missing=missing)


def _additive(group: list[tuple[float, Additive]]) -> Additive:
    """Step functions of the same feature become one, with the steps of all."""
    curves: dict[int, list[Any]] = {}
    for factor, steps in group:
        for i, feature in enumerate(steps.feature.tolist()):
            curves.setdefault(feature, []).append((factor, *steps._curve(i)))
    used, thresholds, values, missing = sorted(curves), [], [], []
    for feature in used:
        limits = np.unique(np.concatenate([limit for _, limit, _, _ in curves[feature]]))
        total = np.zeros(len(limits) + 1)
        for factor, limit, value, _ in curves[feature]:
            below = np.searchsorted(limit, limits, side="right")
            total += factor * value[np.concatenate([[0], below])]
        thresholds.append(limits)
        values.append(total)
        missing.append(sum(factor * absent for factor, _, _, absent in curves[feature]))
    none = [np.zeros(0)]
    return replace(
        group[0][1],
        feature=np.array(used, np.int64),
        ptr=np.cumsum([0, *map(len, thresholds)], dtype=np.int64),
        threshold=np.concatenate(thresholds or none),
        value=np.concatenate(values or none),
        missing=np.array(missing, np.float64),
    )


def _trees(group: list[tuple[float, Trees]]) -> Trees:
    """All trees in one list, the factors in their weights."""
    first, *others = (replace(trees, weight=factor * trees.weight) for factor, trees in group)
    return first.joined(*others)


def _expansions(group: list[tuple[float, KernelExpansion]]) -> KernelExpansion:
    """All support rows in one table, equal rows once: folds share most of their rows."""
    rows = np.concatenate([expansion.support for _, expansion in group])
    coef = np.concatenate([factor * expansion.coef for factor, expansion in group])
    support, index = np.unique(rows, axis=0, return_inverse=True)
    total = np.bincount(index.ravel(), coef, len(support)).astype(np.float64)
    intercept = float(sum(factor * expansion.intercept for factor, expansion in group))
    return replace(group[0][1], support=support, coef=total, intercept=intercept)


def _networks(group: list[tuple[float, Network]]) -> Network:
    """Networks of one hidden layer side by side, the factors in the last weights.

    A group of one may have any number of layers.
    """
    layers = [unpack_layers(net.layers.tolist(), net.weights) for _, net in group]
    last = [factor * net[-1][0] for (factor, _), net in zip(group, layers, strict=True)]
    output = np.concatenate(last), np.zeros(0)
    if len(group) == 1:
        return _network([*layers[0][:-1], output])
    tables, offsets = zip(*(net[0] for net in layers), strict=True)
    return _network([(np.concatenate(tables, axis=1), np.concatenate(offsets)), output])


def _mapped(group: list[tuple[float, Mapped]]) -> Mapped:
    """Scorers behind equal maps, as one scorer behind one of them."""
    factor, score = _joined([(factor, mapped.score) for factor, mapped in group])
    assert factor == 1.0
    return Mapped(group[0][1].map, score)


_MERGES: dict[str, Callable[[Any], Scorer]] = {
    Mapped.kind: _mapped,
    Linear.kind: _linear,
    Slopes.kind: _slopes,
    Additive.kind: _additive,
    Trees.kind: _trees,
    KernelExpansion.kind: _expansions,
    Network.kind: _networks,
}
