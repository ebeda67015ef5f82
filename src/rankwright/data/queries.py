"""Which rows belong to which query: ids of any type as dense numbers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import IntArray
from rankwright.data.vocabulary import as_ids, encode
from rankwright.exceptions import DataError


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
        """From one id per row, of any hashable type, in any order; ``None`` is a single query."""
        if qid is None:
            if n_items is None:
                raise DataError("qid is None, so the number of rows is unknown: give n_items.")
            codes = np.zeros(n_items, dtype=np.int64)
            return cls(codes, np.zeros(1 if n_items else 0, dtype=np.int64))
        ids = as_ids(qid)
        if n_items is not None and len(ids) != n_items:
            raise DataError(
                f"qid has {len(ids)} entries and X has {n_items} rows. qid needs one id per row "
                "(for group sizes, use np.repeat(np.arange(len(sizes)), sizes))."
            )
        return cls(*encode(ids))

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
        """Whether the rows are sorted by query, in the order of ``ids``."""
        return bool(np.all(self.codes[1:] >= self.codes[:-1]))

    @cached_property
    def order(self) -> IntArray:
        """Rows grouped by query; within a query they keep their order."""
        if self.is_contiguous:
            return np.arange(self.n_items, dtype=np.int64)
        return np.argsort(self.codes, kind="stable").astype(np.int64)

    def places(self, scores: NDArray[np.float64]) -> IntArray:
        """The rank of each row in its query, 1 for the highest; equal scores keep their order.

        >>> Queries.from_ids(["b", "a", "b"]).places(np.array([0.5, 3.0, 2.0]))
        array([2, 1, 1])
        """
        order = np.lexsort((-scores, self.codes))
        places = np.empty(self.n_items, dtype=np.int64)
        places[order] = np.arange(self.n_items) - self.ptr[self.codes[order]] + 1
        return places
