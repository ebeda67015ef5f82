"""Attributes of items or users: numbers, categories and word counts, by id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import Column, DataFrame, MatrixLike
from rankwright.data.behavior.ratings import find_column, in_int64
from rankwright.data.inputs import checked_rows, columns_of
from rankwright.data.vocabulary import Vocabulary, as_column, as_ids
from rankwright.exceptions import DataError


class Attributes:
    """Sparse features of items or users, one row per id.

    Parameters
    ----------
    ids : (n_rows,) distinct ids of items or users
    matrix : (n_rows, n_features) SciPy sparse matrix or array, such as counts of words
    titles : (n_rows,) texts or None, shown in lists and explanations

    Examples
    --------
    >>> films = {"item": [7, 8], "genres": ["Crime|Drama", "Horror"], "title": ["Heat", "Alien"]}
    >>> features = Attributes.from_frame(films)
    >>> features
    Attributes(2 rows, 3 features, titles)
    >>> features.names
    ('genres=Crime', 'genres=Drama', 'genres=Horror')
    """

    def __init__(
        self,
        ids: Column,
        matrix: MatrixLike,
        *,
        titles: Sequence[object] | NDArray[Any] | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        from scipy.sparse import csr_array

        self.ids: NDArray[Any] = in_int64(as_ids(ids, "ids"))
        self._vocabulary = Vocabulary(self.ids, "features")
        self.matrix = csr_array(checked_rows(matrix, "Attributes"), dtype=np.float64)
        if self.matrix.shape[0] != len(self.ids):
            raise DataError(
                f"Attributes: {len(self.ids)} ids and {self.matrix.shape[0]} rows of features. "
                "Give one row for each id."
            )
        if not np.isfinite(self.matrix.data).all():
            entry = int(np.argmin(np.isfinite(self.matrix.data)))
            row = int(np.searchsorted(self.matrix.indptr, entry, side="right")) - 1
            raise DataError(
                f"Attributes: {self.ids[row]!s} has the value {self.matrix.data[entry]:g} in "
                f"column {self.matrix.indices[entry]}. Replace it by a finite "
                "number, or leave it out (0)."
            )
        if titles is not None and len(titles) != len(self.ids):
            raise DataError(
                f"Attributes: {len(titles)} titles for {len(self.ids)} ids. Give one per id."
            )
        self.titles = None if titles is None else np.array([str(t) for t in titles], object)
        self.names = None if names is None else tuple(names)

    @classmethod
    def from_frame(
        cls,
        frame: DataFrame | Mapping[str, Any],
        *,
        id: str | None = None,
        title: str | None = None,
        columns: Sequence[str] | None = None,
    ) -> Attributes:
        """Convert a data frame or dict of columns: numbers are standardized, strings are
        categories.

        Parameters
        ----------
        frame : data frame
        id : the column of ids; None looks for a common name of an item, then of a user
        title : the column of titles; None looks for ``title`` or ``name``
        columns : the columns of features; None uses all others. A string with ``|`` is several
            categories. A missing value is no feature.
        """
        table = columns_of(frame)
        names = list(table)
        key = find_column("item", id, names, optional=True) or find_column("user", id, names)
        shown = title or next((n for n in names if n.lower() in ("title", "name")), None)
        used = [n for n in names if n not in (key, shown)] if columns is None else list(columns)
        for name in (shown, *used):
            if name is not None and name not in table:
                raise DataError(f"the frame has no column {name!r}; it has {names}.")
        blocks = [_block(name, table[name]) for name in used]
        titles = None if shown is None else table[shown]
        return cls(table[str(key)], _stacked(blocks, len(table[str(key)])), titles=titles,
                   names=[name for names, _ in blocks for name in names])  # fmt: skip

    def rows_of(self, ids: NDArray[Any]) -> Any:
        """Return the rows of some ids as a CSR array; an unknown id has no features."""
        from scipy.sparse import csr_array, vstack

        number = self._vocabulary.numbers(ids, unknown=len(self.ids))
        empty = csr_array((1, self.matrix.shape[1]))
        return vstack([self.matrix, empty]).tocsr()[number]

    def titles_of(self, ids: NDArray[Any]) -> NDArray[Any]:
        """Return the titles of some ids; an unknown id is its own title."""
        known: Mapping[Any, str] = {}
        if self.titles is not None:
            known = dict(zip(self.ids.tolist(), self.titles.tolist(), strict=True))
        return np.array([known.get(key, str(key)) for key in ids.tolist()], object)

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        titles = "" if self.titles is None else ", titles"
        return f"Attributes({len(self):,} rows, {self.matrix.shape[1]:,} features{titles})"


class SideFeatures(NamedTuple):
    """Attributes of the items and of the users of a recommender, where they are known."""

    items: Attributes | None = None
    users: Attributes | None = None


def as_features(given: Attributes | DataFrame | Mapping[str, Any]) -> Attributes:
    """Attributes as they are, or those in the columns of a data frame or dict.

    >>> as_features({"item": [7, 8], "kind": ["Crime", "Horror"]})
    Attributes(2 rows, 2 features)
    """
    return given if isinstance(given, Attributes) else Attributes.from_frame(given)


def _block(name: str, column: NDArray[Any]) -> tuple[list[str], Any]:
    from scipy.sparse import csr_array

    if column.dtype.kind in "iufb":
        values = as_column(column, name, len(column), finite=False)
        known = np.isfinite(values)
        # By a power of two: squares neither overflow nor vanish, and no bit changes otherwise.
        largest = float(np.abs(values[known]).max(initial=0.0))
        values = np.ldexp(values, -int(np.frexp(largest)[1]))
        spread = values[known].std() if known.any() else 0.0
        center = values[known].mean() if known.any() else 0.0
        scaled = np.where(known, (values - center) / (spread or 1.0), 0.0)
        return [name], csr_array(scaled[:, None])
    cells = [[] if cell is None or cell != cell else str(cell).split("|") for cell in column]
    parts = [[part for part in cell if part] for cell in cells]
    distinct = sorted({part for cell in parts for part in cell})
    part_index = {part: number for number, part in enumerate(distinct)}
    ptr = np.cumsum([0, *map(len, parts)])
    index = np.array([part_index[part] for cell in parts for part in cell], np.int64)
    shape = (len(cells), len(distinct))
    table = csr_array((np.ones(len(index)), index, ptr), shape=shape)
    return [f"{name}={part}" for part in distinct], table


def _stacked(blocks: list[tuple[list[str], Any]], n_rows: int) -> Any:
    from scipy.sparse import csr_array, hstack

    tables = [table for _, table in blocks if table.shape[1]]
    return hstack(tables).tocsr() if tables else csr_array((n_rows, 0))
