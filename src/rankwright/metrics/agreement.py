"""How far judges agree: Cohen's kappa, Krippendorff's ordinal alpha, the largest differences."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rankwright._typing import FloatArray, IntArray
from rankwright.exceptions import DataError

Grades = Mapping[str, Mapping[Any, float]]  # judge -> item -> grade


class Agreement(NamedTuple):
    """The measure that suits the number of judges; NaN where it is not defined."""

    measure: str  # "kappa" or "alpha"
    value: float
    n_judges: int
    n_items: int  # graded by two judges or more


class JudgePair(NamedTuple):
    """Two judges: the items that both graded, their kappa and mean absolute difference."""

    first: str
    second: str
    n_items: int
    kappa: float
    difference: float


class ItemSpread(NamedTuple):
    """An item that judges grade differently, and each judge's grade."""

    item: Any
    spread: float
    grades: dict[str, float]


def cohen_kappa(first: ArrayLike, second: ArrayLike) -> float:
    """Agreement of two judges on the same items, 1 if perfect and 0 if as by chance.

    An item with NaN from either judge is left out. The value is NaN where chance agreement is
    certain: no common item, or one and the same grade everywhere.

    >>> round(cohen_kappa([0, 1, 2, 2], [0, 1, 2, 1]), 3)
    0.636
    """
    pair = np.array([first, second], dtype=np.float64).reshape(2, -1)
    _, codes = np.unique(pair[:, ~np.isnan(pair).any(axis=0)], return_inverse=True)
    codes = codes.reshape(2, -1)
    n_items, n_grades = codes.shape[1], int(codes.max(initial=-1)) + 1
    if n_grades < 2:
        return float("nan")
    shares = [np.bincount(row, minlength=n_grades) / n_items for row in codes]
    chance = float(shares[0] @ shares[1])
    return float((np.mean(codes[0] == codes[1]) - chance) / (1.0 - chance))


def krippendorff_alpha(grades: ArrayLike) -> float:
    """Krippendorff's alpha for ordinal grades, by any number of judges.

    The disagreement of two grades counts the square of how many grades were given between them,
    so that only the order of the grades matters.

    Parameters
    ----------
    grades : (n_judges, n_items) array, NaN where a judge has not graded an item

    Returns
    -------
    float, 1 if perfect and 0 if as by chance; NaN if no item has two grades, or if all the grades
    of the items that have two are equal

    Examples
    --------
    >>> nan = float("nan")
    >>> round(krippendorff_alpha([[0, 1, 2, nan], [0, 1, 1, 2], [0, 2, 2, 2]]), 3)
    0.697
    """
    table = np.array(grades, dtype=np.float64)
    if table.ndim != 2:
        raise DataError(f"grades have the shape {table.shape}: give one row a judge.")
    counts = _value_counts(table)
    n_graded = counts.sum(axis=1)
    counts, n_graded = counts[n_graded > 1], n_graded[n_graded > 1]
    weights = 1.0 / (n_graded - 1.0)
    coincidences = (counts * weights[:, None]).T @ counts - np.diag(weights @ counts)
    totals = coincidences.sum(axis=0)
    distance = _ordinal_distance(totals)
    chance = float(totals @ distance @ totals)
    if chance == 0.0:
        return float("nan")
    return float(1.0 - (totals.sum() - 1.0) * (coincidences * distance).sum() / chance)


def _value_counts(table: FloatArray) -> IntArray:
    """How many judges gave each grade to each item: (n_items, n_values)."""
    judge, item = np.nonzero(~np.isnan(table))
    values, codes = np.unique(table[judge, item], return_inverse=True)
    counts = np.zeros((table.shape[1], len(values)), np.int64)
    np.add.at(counts, (item, codes), 1)
    return counts


def _ordinal_distance(totals: FloatArray) -> FloatArray:
    """Squares of the grades given from one value to the other, half of the two ends' counted."""
    middle = np.cumsum(totals) - totals / 2.0
    distance: FloatArray = (middle[:, None] - middle) ** 2
    return distance


def agreement(grades: Grades) -> Agreement:
    """Cohen's kappa if two judges graded, Krippendorff's ordinal alpha if more did.

    >>> agreement({"ann": {"d1": 2, "d2": 0}, "bob": {"d1": 2, "d2": 0, "d3": 1}})
    Agreement(measure='kappa', value=1.0, n_judges=2, n_items=2)
    """
    table, _ = grade_table(grades)
    n_common = int(((~np.isnan(table)).sum(axis=0) > 1).sum())
    if len(table) > 2:
        return Agreement("alpha", krippendorff_alpha(table), len(table), n_common)
    value = cohen_kappa(*table) if len(table) == 2 else float("nan")
    return Agreement("kappa", value, len(table), n_common)


def grade_table(grades: Grades) -> tuple[FloatArray, list[Any]]:
    """Grades as (n_judges, n_items), NaN where there is none, and the items of the columns.

    Judges without a grade have no row.
    """
    judges = [given for given in grades.values() if given]
    items = list(dict.fromkeys(item for given in judges for item in given))
    table = np.full((len(judges), len(items)), np.nan)
    for row, given in zip(table, judges, strict=True):
        row[:] = [given.get(item, np.nan) for item in items]
    return table, items


def judge_pairs(grades: Grades) -> list[JudgePair]:
    """Every two judges with common items, those who differ most first."""
    pairs = []
    for first, second in combinations(grades, 2):
        common = [item for item in grades[first] if item in grades[second]]
        if common:
            table = np.array([[grades[judge][i] for i in common] for judge in (first, second)])
            difference = float(np.abs(table[0] - table[1]).mean())
            pairs.append(JudgePair(first, second, len(common), cohen_kappa(*table), difference))
    return sorted(pairs, key=lambda pair: -pair.difference)


def most_disputed(grades: Grades, n: int = 10) -> list[ItemSpread]:
    """The items whose highest and lowest grades are farthest apart, at most ``n`` of them.

    >>> most_disputed({"ann": {"d1": 2, "d2": 0}, "bob": {"d1": 2, "d2": 1}})
    [ItemSpread(item='d2', spread=1.0, grades={'ann': 0, 'bob': 1})]
    """
    by_item: dict[Any, dict[str, float]] = {}
    for judge, given in grades.items():
        for item, grade in given.items():
            by_item.setdefault(item, {})[judge] = grade
    spreads = [
        ItemSpread(item, float(max(given.values()) - min(given.values())), given)
        for item, given in by_item.items()
    ]
    disputed = [entry for entry in spreads if entry.spread > 0]
    return sorted(disputed, key=lambda entry: -entry.spread)[:n]
