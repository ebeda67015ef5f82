"""Items to rank: one row of features each, with a grade, a query and an id."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwright._typing import FloatArray
from rankwright.data.columns import Read, TableEncoding, reading_table
from rankwright.data.display import html_table
from rankwright.data.inputs import checked_rows
from rankwright.data.queries import Queries
from rankwright.data.vocabulary import as_ids, entries, read_only, row_numbers
from rankwright.exceptions import DataError, Message

Matrix = Any  # (n_items, n_features): a NumPy array or a SciPy CSR array, of floats


class BadLine(NamedTuple):
    """A line of a file that was left out: its position, the reason, and its text."""

    line: int
    column: int
    reason: str
    text: str


class RankedItem(NamedTuple):
    """An item in the list of its query."""

    query: Any
    item: str
    rank: int
    score: float


@dataclass(frozen=True, eq=False, repr=False)
class Items:
    """Rows of features with grades, queries and ids, in the order given, as read-only views.

    Attributes
    ----------
    X : (n_items, n_features) array or SciPy CSR array of float64
        Features. NaN means that the feature is missing (``NULL`` in a file).
    y : (n_items,) float64
        Grades, higher is better.
    qid : (n_items,) array or None
        The query of each row, of any type and in any order; None means one query.
    docid : (n_items,) array of str or None
        The id of each row (None in a row that has none).
    feature_names : tuple of str or None
        One name per column of ``X``.
    comment : (n_items,) array of str or None
        The text after ``#`` in the file, if the reader keeps it.
    bad_lines : tuple of BadLine
        The lines that the reader skipped.
    weight : (n_items,) float64 or None
        The weight of each row, for ``fit(..., sample_weight=items.weight)``.
    encoding : Encoding, FittedFeatures or None
        How text, booleans and dates of a table became the columns of ``X``; None if it has only
        numbers.
    read : tuple of Read
        How each column of a table was read, and why; ``reading`` prints it.

    Examples
    --------
    >>> items = Items([[1.0, 0.0], [0.5, 2.0], [0.0, 1.0]], [2, 0, 1], qid=["a", "a", "b"])
    >>> items
    Items(3 items, 2 features, 2 queries, grades 0 to 2)
    >>> items.take(items.qid == "a").y
    array([2., 0.])
    """

    X: Matrix
    y: NDArray[np.float64]
    qid: NDArray[Any] | None = None
    docid: NDArray[Any] | None = None
    feature_names: tuple[str, ...] | None = None
    comment: NDArray[Any] | None = None
    bad_lines: tuple[BadLine, ...] = ()
    weight: NDArray[np.float64] | None = None
    encoding: TableEncoding | None = None
    read: tuple[Read, ...] = ()

    def __post_init__(self) -> None:
        set_field = object.__setattr__
        set_field(self, "X", _as_matrix(self.X))
        set_field(self, "y", read_only(np.asarray(self.y, dtype=np.float64)))
        if self.qid is not None:
            set_field(self, "qid", read_only(as_ids(self.qid)))
        if self.weight is not None:
            set_field(self, "weight", read_only(np.asarray(self.weight, dtype=np.float64)))
        for name in ("docid", "comment"):
            if getattr(self, name) is not None:
                set_field(self, name, read_only(_as_texts(getattr(self, name))))
        if self.feature_names is not None:
            set_field(self, "feature_names", tuple(str(name) for name in self.feature_names))
        if self.y.ndim != 1:
            raise DataError(f"y has the shape {self.y.shape}: give one grade per row.")
        for name in ("y", "qid", "docid", "comment", "weight"):
            column = getattr(self, name)
            if column is not None and len(column) != self.n_items:
                sizes = f"{name} has {entries(len(column))} and X has {self.n_items} rows"
                raise DataError(f"{sizes}. Give one entry of {name} per row of X.")
        names = self.feature_names
        if names is not None and len(names) != self.n_features:
            sizes = f"feature_names has {len(names)} names and X has {self.n_features} columns"
            raise DataError(f"{sizes}. Give one name per column.")

    def __len__(self) -> int:
        return int(self.X.shape[0])

    @property
    def n_items(self) -> int:
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        return int(self.X.shape[1])

    @property
    def n_queries(self) -> int:
        return self.queries.n_queries

    @property
    def is_sparse(self) -> bool:
        """Whether ``X`` is a SciPy CSR array."""
        return not isinstance(self.X, np.ndarray)

    @property
    def reading(self) -> Message:
        """The table "column, read as, why" of items that were read from a table."""
        return reading_table(self.read)

    @cached_property
    def queries(self) -> Queries:
        """Which rows belong to which query."""
        return Queries.from_ids(self.qid, self.n_items)

    def take(self, rows: ArrayLike | slice) -> Items:
        """Select rows by a boolean mask, row numbers in any order, or a slice.

        >>> Items([[1.0], [2.0], [3.0]], [0, 1, 2]).take([2, 0]).y
        array([2., 0.])
        """
        index = row_numbers(rows, self.n_items)
        part: dict[str, Any] = {
            name: None if getattr(self, name) is None else getattr(self, name)[index]
            for name in ("X", "y", "qid", "docid", "comment", "weight")
        }
        return replace(self, **part, bad_lines=())

    def ranking(self, scores: FloatArray, cutoff: int | None = None) -> Iterator[RankedItem]:
        """Rank the items of each query by score, best first; equal scores keep the order of the
        rows.

        An item without an id is identified by its row, from 1.

        >>> [tuple(row) for row in Items([[1.0], [2.0]], [0, 0]).ranking(np.array([0.5, 3.0]))]
        [(0, '2', 1, 3.0), (0, '1', 2, 0.5)]
        """
        ranks = self.queries.places(scores)
        for row in np.lexsort((ranks, self.queries.codes)).tolist():
            if cutoff is None or ranks[row] <= cutoff:
                query = 0 if self.qid is None else self.qid[row]
                docid = None if self.docid is None else self.docid[row]
                name = str(row + 1 if docid is None else docid)
                yield RankedItem(query, name, int(ranks[row]), float(scores[row]))

    @classmethod
    def concat(cls, parts: Sequence[Items]) -> Items:
        """Concatenate several containers; a column that one of them lacks is dropped.

        >>> one = Items([[1.0]], [0], qid=[7])
        >>> Items.concat([one, one]).qid
        array([7, 7])
        """
        if not parts:
            raise DataError("Items.concat: the list is empty. Give at least one container.")
        widths = sorted({part.n_features for part in parts})
        if len(widths) > 1:
            raise DataError(
                f"Items.concat: the parts have {', '.join(map(str, widths))} features. Read each "
                f"of them with n_features={widths[-1]}."
            )
        names_of_columns = ("y", "qid", "docid", "comment", "weight")
        columns: Any = {name: _join(parts, name) for name in names_of_columns}
        first = parts[0]
        names = first.feature_names
        if any(part.feature_names != names for part in parts):
            names = None
        if all(part.encoding == first.encoding for part in parts):
            columns |= {"encoding": first.encoding, "read": first.read}
        X = [part.X for part in parts]
        if not any(part.is_sparse for part in parts):
            return cls(np.concatenate(X), **columns, feature_names=names)
        from scipy.sparse import csr_array, vstack

        stacked = vstack([csr_array(matrix) for matrix in X], format="csr")
        return cls(stacked, **columns, feature_names=names)

    def facts(self) -> str:
        """What it holds, in numbers."""
        parts = [f"{self.n_items:,} items", f"{self.n_features:,} features"]
        if self.qid is not None:
            parts.append(f"{self.n_queries:,} queries")
        if len(self):
            parts.append(f"grades {self.y.min():g} to {self.y.max():g}")
        if self.is_sparse:
            parts.append("sparse")
        if self.bad_lines:
            parts.append(f"{len(self.bad_lines):,} bad lines left out")
        return ", ".join(parts)

    def __repr__(self) -> str:
        return f"Items({self.facts()})"

    def _repr_html_(self) -> str:
        """The first rows and columns, in notebooks."""
        shown, width = self.take(np.arange(min(len(self), 5))), min(self.X.shape[1], 8)
        X = shown.X[:, :width].toarray() if hasattr(shown.X, "toarray") else shown.X[:, :width]
        named = {"query": shown.qid, "document": shown.docid, "grade": shown.y}
        columns = {name: list(column) for name, column in named.items() if column is not None}
        names = self.feature_names or [f"feature {k + 1}" for k in range(width)]
        columns |= {str(name): X[:, k].tolist() for k, name in enumerate(names[:width])}
        return html_table(list(columns), zip(*columns.values(), strict=True), repr(self))


def first_missing(items: Items) -> str | None:
    """Where the first missing value is, in words; None if no value is missing.

    >>> first_missing(Items([[1.0, 2.0], [3.0, float("nan")]], [0, 1]))
    'item 2 has no value for feature 2 (1 values are missing)'
    """
    if items.is_sparse:
        cells = items.X.tocoo()
        nan = np.isnan(cells.data)
        rows, columns = cells.row[nan], cells.col[nan]
    else:
        rows, columns = np.isnan(items.X).nonzero()
    if len(rows) == 0:
        return None
    row, column = min(zip(rows.tolist(), columns.tolist(), strict=True))
    name = f"feature {column + 1}" if items.feature_names is None else items.feature_names[column]
    return f"item {row + 1} has no value for {name} ({len(rows):,} values are missing)"


def _as_matrix(X: Any) -> Matrix:
    """A read-only float matrix; sparse input becomes CSR with sorted indices."""
    X = X if isinstance(X, np.ndarray) else checked_rows(X)
    if hasattr(X, "tocsr"):
        from scipy.sparse import csr_array

        X = csr_array(X, copy=False)
        if X.dtype.kind != "f":
            X = X.astype(np.float64)
        if not X.has_canonical_format:
            X = X.copy()  # do not change the caller's arrays
            X.sum_duplicates()
        for name in ("data", "indices", "indptr"):
            setattr(X, name, read_only(getattr(X, name)))
        return X
    if hasattr(X, "to_numpy"):
        X = X.to_numpy()
    X = np.asarray(X)
    if X.dtype.kind != "f":
        X = X.astype(np.float64)
    if X.ndim != 2:
        raise DataError(f"X has the shape {X.shape}: give (n_items, n_features).")
    return read_only(X)


def _as_texts(values: NDArray[Any]) -> NDArray[Any]:
    """An object array that can hold text and None side by side."""
    if isinstance(values, np.ndarray) and values.dtype == object:
        return values
    texts = np.empty(len(values), dtype=object)
    texts[:] = [value if value is None else str(value) for value in values]
    return texts


def _join(parts: Sequence[Items], name: str) -> NDArray[Any] | None:
    columns = [getattr(part, name) for part in parts]
    if any(column is None for column in columns):
        return None
    kinds = {column.dtype.kind for column in columns}
    if len(kinds) > 1:  # concatenating 1 and "1" as text would make two queries one
        columns = [column.astype(object) for column in columns]
    return np.concatenate(columns)
