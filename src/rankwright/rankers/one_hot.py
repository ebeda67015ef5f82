"""OneHotDecoder: columns of 0 and 1 back to the number of a level, in front of trees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from rankwright._typing import FloatArray, IntArray, Matrix, MatrixLike
from rankwright.exceptions import DataError
from rankwright.rankers import schema
from rankwright.rankers.preprocessing import RowTransformer
from rankwright.scoring.base import row_blocks
from rankwright.scoring.transforms import LevelNumbers

FEWEST_LEVELS = 5  # of a category that is found in columns of 0 and 1


class OneHotDecoder(RowTransformer):
    """Turn columns of 0 and 1, one for each level of a category, back into numbers of levels.

    Linear rankers need a column for each level. Trees do better with the level itself: they put
    any set of levels on one side of a split (``categorical_features`` of :class:`LambdaMART`). With
    this step in front of trees, both learn from one matrix. The other columns come first, in their
    order, then one column for each category: 1 is its first level, 0 is none of them. Missing
    values (NaN) stay in the other columns; in those of a category they are no level.

    Parameters
    ----------
    categories : list of (first, stop) pairs, or None
        The columns of each category: from ``first`` up to, not including, ``stop``. None finds
        them: neighbors that hold 0 and 1 only, exactly one 1 in each row.
    min_levels : int >= 2, default 5
        The fewest levels of a category that is found. Trees see few levels as well as columns.

    Attributes
    ----------
    categories_ : (n_categories, 2) array
        The first column of each category, and the one after its last.
    n_features_in_ : int
    feature_names_in_ : (n_features,) array of str, if X has column names

    See Also
    --------
    rankwright.features.TableEncoder : makes such columns from text.

    Examples
    --------
    >>> rows = [[7.0, 1.0, 0.0, 0.0], [9.0, 0.0, 0.0, 1.0], [8.0, 0.0, 1.0, 0.0]]
    >>> OneHotDecoder(min_levels=3).fit_transform(rows)
    array([[7., 1.],
           [9., 3.],
           [8., 2.]])
    """

    _checks: ClassVar = {"ensure_all_finite": "allow-nan", "accept_sparse": "csr"}
    _constraints: ClassVar = {
        "categories": schema.optional(
            schema.Constraint(
                "a list of pairs (first, stop) of columns in ascending order",
                lambda value: _are_column_ranges(value),
            )
        ),
        "min_levels": schema.at_least(2),
    }

    categories_: IntArray

    def __init__(
        self,
        *,
        categories: Sequence[tuple[int, int]] | None = None,
        min_levels: int = FEWEST_LEVELS,
    ) -> None:
        self.categories = categories
        self.min_levels = min_levels

    def fit(self, X: MatrixLike, y: ArrayLike | None = None) -> Self:
        """Find the columns of each category, unless they were given."""
        schema.check_parameters(self)
        rows = self._rows(X, reset=True)
        given = self.categories
        found = one_hot_columns(rows, self.min_levels) if given is None else given
        self.categories_ = np.array(found, np.int64).reshape(-1, 2)
        if self.categories_.max(initial=0) > self.n_features_in_:
            raise DataError(
                f"OneHotDecoder: categories={given!r}, but X has {self.n_features_in_} columns.",
                fix="Give the columns of X.",
            )
        return self

    def transform(self, X: MatrixLike) -> FloatArray:
        """Return the other columns, then the number of the level of each category."""
        check_is_fitted(self, "n_features_in_")
        rows, transform = self._rows(X, reset=False), self._transform()
        if transform is None:
            return rows if isinstance(rows, np.ndarray) else rows.toarray()
        decoded = np.empty((rows.shape[0], transform.n_outputs))
        for block in row_blocks(*rows.shape):  # sparse rows are made dense a block at a time
            decoded[block] = transform.transform(rows[block])
        return decoded

    def get_feature_names_out(self, input_features: Sequence[str] | None = None) -> NDArray[Any]:
        """The names of the other columns, then of each category: what its levels begin with."""
        check_is_fitted(self, "n_features_in_")
        names = getattr(self, "feature_names_in_", input_features)
        if names is None:
            names = [f"x{number}" for number in range(self.n_features_in_)]
        names, transform = [str(name) for name in names], self._transform()
        if transform is None:
            return np.array(names, dtype=object)
        levels = [_shared_start(names[part]).rstrip("=_. ") for part in transform.categories]
        firsts = [names[part.start] for part in transform.categories]
        named = [shared or first for shared, first in zip(levels, firsts, strict=True)]
        return np.array([*(names[i] for i in transform.others), *named], dtype=object)

    def _transform(self) -> LevelNumbers | None:
        if not len(self.categories_):
            return None
        first, stop = np.ascontiguousarray(self.categories_.T)
        return LevelNumbers(self.n_features_in_, first, stop)

    @classmethod
    def learned(cls) -> Mapping[str, schema.Learned]:
        """Every learned attribute, with what it may be."""
        return {**super().learned(), "categories_": schema.integers("n_categories", 2, low=0)}


def one_hot_columns(X: Matrix, min_levels: int) -> list[tuple[int, int]]:
    """Neighboring columns of 0 and 1 that have exactly one 1 in each row: (first, stop) of each.

    >>> one_hot_columns(np.array([[0, 1, 0, 5], [1, 0, 1, 2], [1, 1, 0, 3]]), 2)
    [(1, 3)]
    """
    columns: Any = X.T if isinstance(X, np.ndarray) else X.tocsc()
    n_rows, n_columns = X.shape
    found: list[tuple[int, int]] = []
    first, ones = 0, np.zeros(n_rows, np.int64)  # of the columns from first on

    def column(number: int) -> NDArray[Any]:
        return np.asarray(
            columns[number]
            if isinstance(columns, np.ndarray)
            else columns[:, [number]].toarray()[:, 0]
        )

    for stop in range(1, n_columns + 1):
        values = column(stop - 1)
        is_one = values == 1
        if not (is_one | (values == 0)).all():
            first, ones = stop, np.zeros(n_rows, np.int64)
            continue
        ones += is_one
        while ones.max(initial=0) > 1:
            ones -= column(first) == 1
            first += 1
        if n_rows and ones.min() == 1:
            found.append((first, stop))
            first, ones = stop, np.zeros(n_rows, np.int64)
    return [(first, stop) for first, stop in found if stop - first >= min_levels]


def _shared_start(words: list[str]) -> str:
    """What all words begin with.

    >>> _shared_start(["color=blue", "color=red"])
    'color='
    """
    low, high = min(words), max(words)  # others are between them
    return low[: next((i for i, c in enumerate(low) if c != high[i : i + 1]), len(low))]


def _are_column_ranges(value: object) -> bool:
    value = value.tolist() if isinstance(value, np.ndarray) else value
    if not isinstance(value, list | tuple) or not all(
        isinstance(pair, list | tuple) and len(pair) == 2 for pair in value
    ):
        return False
    ends = [end for pair in value for end in pair]
    whole = all(schema.at_least(0).test(end) for end in ends)
    return whole and ends == sorted(ends) and all(first < stop for first, stop in value)
