"""Which rows belong to which query: ids of any type turned into dense numbers, once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright.exceptions import DataError

__all__ = ["Queries"]

IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Queries:
    """The queries of a list of items, in order of first appearance.

    Attributes
    ----------
    codes : (n_items,) int64
        The query of each row, 0 .. n_queries - 1.
    ids : (n_queries,) array
        The id of each query, as given.

    Examples
    --------
    >>> queries = Queries.from_ids(["b", "a", "b"])
    >>> queries.codes, queries.ids.tolist(), queries.sizes
    (array([0, 1, 0]), ['b', 'a'], array([2, 1]))
    >>> queries.order, queries.ptr
    (array([0, 2, 1]), array([0, 2, 3]))
    """

    codes: IntArray
    ids: NDArray[Any]

    def __post_init__(self) -> None:
        self.codes.setflags(write=False)
        self.ids.setflags(write=False)

    @classmethod
    def from_ids(cls, qid: Any, n_items: int | None = None) -> Queries:
        """Read one id per row, of any hashable type, in any order; ``None`` is one single query."""
        if qid is None:
            if n_items is None:
                raise DataError("qid is None and the number of rows is not known: give n_items.")
            codes = np.zeros(n_items, dtype=np.int64)
            return cls(codes, np.zeros(1 if n_items else 0, dtype=np.int64))
        ids = _as_ids(qid)
        if n_items is not None and len(ids) != n_items:
            raise DataError(
                f"qid has {len(ids)} entries and X has {n_items} rows. qid needs one id per row "
                "(for group sizes, use np.repeat(np.arange(len(sizes)), sizes))."
            )
        return cls(*_encode(ids))

    @property
    def n_items(self) -> int:
        return len(self.codes)

    @property
    def n_queries(self) -> int:
        return len(self.ids)

    @cached_property
    def sizes(self) -> IntArray:
        """How many rows each query has."""
        return np.bincount(self.codes, minlength=self.n_queries).astype(np.int64)

    @cached_property
    def ptr(self) -> IntArray:
        """Where each query starts in ``order``; length n_queries + 1."""
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(self.sizes)])

    @cached_property
    def is_contiguous(self) -> bool:
        """Whether the rows of each query already stand together, in the order of ``ids``."""
        return bool(np.all(self.codes[1:] >= self.codes[:-1]))

    @cached_property
    def order(self) -> IntArray:
        """Rows grouped by query; inside a query they keep the order given."""
        if self.is_contiguous:
            return np.arange(self.n_items, dtype=np.int64)
        return np.argsort(self.codes, kind="stable").astype(np.int64)


def _as_ids(qid: Any) -> NDArray[Any]:
    """A one-dimensional array of ids from an array, a list or a column of any data frame."""
    if hasattr(qid, "to_numpy"):
        qid = qid.to_numpy()
    if not isinstance(qid, np.ndarray):
        items = list(qid) if isinstance(qid, Iterable) else None
        if items is None or isinstance(qid, str | bytes):
            raise DataError(f"qid is {qid!r}: give one id per row, as a list, array or column.")
        # np.asarray would turn [1, "1"] into two equal strings, and tuples into a second axis.
        kinds = {type(item) for item in items}
        plain = len(kinds) == 1 and not kinds & {tuple, frozenset, bytes}
        ids = np.asarray(items) if plain else np.empty(len(items), dtype=object)
        if not plain:
            ids[:] = items
        qid = ids
    if qid.ndim == 2 and qid.shape[1] == 1:
        qid = qid[:, 0]
    if qid.ndim != 1:
        raise DataError(f"qid has {qid.ndim} axes {qid.shape}: give one id per row.")
    if qid.dtype.kind == "f" and np.isnan(qid).any():
        raise DataError(
            f"qid is NaN in row {int(np.flatnonzero(np.isnan(qid))[0])}: every row needs a query."
        )
    return np.asarray(qid)


def _encode(ids: NDArray[Any]) -> tuple[IntArray, NDArray[Any]]:
    """Dense codes in order of first appearance, and the distinct ids."""
    if len(ids) == 0:
        return np.zeros(0, np.int64), ids.copy()
    if ids.dtype == object:
        table: dict[Any, int] = {}
        try:
            codes = np.fromiter((table.setdefault(i, len(table)) for i in ids), np.int64, len(ids))
        except TypeError as error:
            raise DataError(f"qid holds an id that cannot be hashed ({error}).") from None
        distinct = np.empty(len(table), dtype=object)
        distinct[:] = list(table)
        return codes, distinct
    starts = np.flatnonzero(np.concatenate([[True], ids[1:] != ids[:-1]]))
    runs = ids[starts]  # usually the file is grouped already, so there are far fewer runs than rows
    distinct, first, code = np.unique(runs, return_index=True, return_inverse=True)
    place = np.empty(len(distinct), np.int64)
    place[np.argsort(first)] = np.arange(len(distinct))
    lengths = np.diff(np.concatenate([starts, [len(ids)]]))
    return np.repeat(place[code.reshape(-1)], lengths), runs[np.sort(first)]
