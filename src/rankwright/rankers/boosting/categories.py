"""Categorical features of many levels: in what order the levels are when one tree is grown.

A tree splits such a feature as if it were a number: the statistic of the row's level, its gradient
over its Hessian (the step that would be right for the level alone), shrunk towards 0. A row's own
gradient must not be in it, or levels of few rows would tell the tree what it is to learn. So
queries are drawn into a few folds for each tree, and a row has the statistic of its level in
the other folds. Scores are made with the statistic of all folds.

The statistic without a fold has an error against that fold: where the sum of a level is near 0,
the rest is high where the fold is low. A split that gives the side with the higher statistic
the lower value learns this error, so it is not allowed.

The Hessian of a row is what the loss takes one unit of the score to be worth, so shrinking by
``cat_smooth`` rows of average Hessian is the same for all losses, and a level with many pairs
(a high Hessian) is believed sooner than one with few.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import BoolArray, FloatArray, IntArray, Matrix
from rankwright.data.vocabulary import Hashes, hash_rows, mix
from rankwright.feedback.base import Grades
from rankwright.rankers.boosting.binning import MISSING, QuantileBins, column, find_edges
from rankwright.runtime import Team

if TYPE_CHECKING:
    from rankwright.rankers.boosting.grower import Tree

FOLDS = 5
FEW_QUERIES = 4 * FOLDS  # with fewer, rows are drawn into folds


@dataclass(frozen=True)
class LevelCodes:
    """Rows as codes of bins and, where a feature has many levels, as numbers of levels.

    Attributes
    ----------
    codes : (n_blocks, n_rows) uint32, four features to a word
    levels : {feature: (n_rows,) int32}, which count the levels that are known; the number after
        them is that of all other values, and the one after that of missing ones
    n_levels : {feature: int}, how many are known
    """

    codes: NDArray[np.uint32]
    levels: dict[int, NDArray[np.int32]]
    n_levels: dict[int, int]

    @classmethod
    def of(cls, bins: QuantileBins, X: Matrix, rows: IntArray | None, pool: Team) -> Self:
        return cls.coded(bins, bins.encode(X, rows, pool), level_numbers(bins, X, rows))

    @classmethod
    def coded(
        cls, bins: QuantileBins, codes: NDArray[np.uint32], levels: dict[int, NDArray[np.int32]]
    ) -> Self:
        return cls(codes, levels, {feature: len(bins.edges[feature]) for feature in levels})

    def add(self, tree: Tree, out: FloatArray) -> None:
        """Add a tree times its weight to the scores of the rows."""
        from rankwright.rankers.boosting._kernels.predictor import walk_tree

        for feature, table in tree.level_codes.items():
            self.write(feature, table[:, None], np.zeros(0, np.uint8))
        walk_tree(self.codes, tree.table(), tree.alpha, 0, len(out), out)

    def write(self, feature: int, table: NDArray[np.uint8], fold: NDArray[np.uint8]) -> None:
        from rankwright.rankers.boosting._kernels.categories import write_codes

        words, shift = self.codes[feature >> 2], 8 * (feature & 3)
        write_codes(self.levels[feature], fold, table, shift, words)


def level_numbers(
    bins: QuantileBins, X: Matrix, rows: IntArray | None
) -> dict[int, NDArray[np.int32]]:
    """The numbers of the levels of each feature that has many."""
    if not bins.ordered.any():
        return {}
    X = X.tocsc() if hasattr(X, "tocsc") else X
    numbers = {}
    for feature in np.flatnonzero(bins.ordered).tolist():
        values, known = column(X, feature), bins.edges[feature]
        values = values if rows is None else values[rows]
        number = np.searchsorted(known, values)
        number[known[np.minimum(number, len(known) - 1)] != values] = len(known)
        number[np.isnan(values)] = len(known) + 1
        numbers[feature] = number.astype(np.int32)
    return numbers


def fold_keys(
    grades: Grades, parts: list[Any], rows: IntArray, categorical: BoolArray, n_queries: int
) -> Hashes:
    """A key of each row that says which fold it is in, the same for all rows of a query.

    It depends on the content of the query, not on ids, the order of rows or where they are.
    ``parts`` are the rows of the grades in one or more matrices; ``n_queries`` are there in all.
    """
    features = np.flatnonzero(categorical)
    content = [hash_rows(X[:, features]) for X in parts]
    own = mix(np.concatenate([np.zeros(0, np.uint64), *content]) + hash_rows(grades.y[:, None]))
    if n_queries < FEW_QUERIES:
        return own[rows]
    codes = grades.queries.codes
    whole = np.zeros(len(grades.queries.ids), np.uint64)
    np.add.at(whole, codes[rows], own[rows])  # modulo 2**64, so in any order
    return whole[codes[rows]]


class Folds(NamedTuple):
    """The keys by which rows are drawn into folds, once for each tree."""

    distinct: Hashes
    inverse: IntArray  # (n_rows,) which of them each row has

    @classmethod
    def of(cls, keys: Hashes) -> Self:
        return cls(*np.unique(keys, return_inverse=True))

    def draw(self, number: int) -> NDArray[np.uint8]:
        """The fold of each row for the tree of this number."""
        salt = mix(np.array([number]))
        folds = (mix(self.distinct ^ salt) >> np.uint64(11)) % np.uint64(FOLDS)
        drawn: NDArray[np.uint8] = folds.astype(np.uint8)[self.inverse]
        return drawn


def code_levels(
    sums: IntArray, bits: int, smoothing: float, max_bins: int
) -> tuple[NDArray[np.uint8], NDArray[np.uint8], int]:
    """Codes of levels in ascending order of their statistic, from sums by level and fold.

    sums : (n_levels + 2, n_folds, 2), the last two of other and of missing values

    Returns the codes of rows of each level and fold, by the sums of the other folds; those of all
    rows of each level; and how many different codes there are.
    """
    whole = sums.sum(axis=1)
    statistic = _shrunk(whole, bits, smoothing)
    statistic[-2] = 0.0  # other values: nothing is known of those to come
    others = _shrunk(whole[:, None] - sums, bits, smoothing)
    others[-2] = 0.0
    distinct, index = np.unique(statistic[:-1], return_inverse=True)
    n_rows = (whole[:-1, 1] & ((1 << bits) - 1)).astype(np.float64)
    mass = np.bincount(index, n_rows, len(distinct)).astype(np.float64)
    edges = find_edges(distinct, mass, max_bins)
    codes = np.searchsorted(edges, np.column_stack([others, statistic])).astype(np.uint8)
    codes[-1] = MISSING
    return codes[:, :-1].copy(), codes[:, -1].copy(), len(edges) + 1


def _shrunk(sums: IntArray, bits: int, smoothing: float) -> FloatArray:
    shrunk: FloatArray = sums[..., 0] / ((sums[..., 1] >> bits) + smoothing)
    return shrunk
