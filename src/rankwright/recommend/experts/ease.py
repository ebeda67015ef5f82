"""EASE: a linear item-item model in closed form."""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import IntArray
from rankwright.exceptions import DataError
from rankwright.parallel import map_blocks
from rankwright.rankers import schema
from rankwright.rankers.schema import floats, floats32, integers
from rankwright.recommend.experts.base import SETTLING, Expert, Scores
from rankwright.recommend.experts.histories import Histories, Rows
from rankwright.recommend.experts.neighbors import neighbor_pairs, row_ranges

BLOCK = 1024  # users whose products are added at once


class EASE(Expert):
    """Ridge regression of every item on all others (Steck 2019).

    With the Gram matrix G of the users' items and P = inverse of (G + l2 I), the weight of item i
    for item j is -P[i, j] / P[j, j], and 0 for j itself.

    Only the ``max_items`` items with most users take part; other items score 0. With m of them a
    model holds m**2 float32 (``weight_``), and ``fit`` needs three times as much.

    An update is a correction of P of rank two for each changed user, made of all of them at once
    when scores are next needed: exact but for rounding in float32. Items that were not among the m
    at ``fit`` stay out until the next ``fit``, unless there is room below ``max_items``.

    Parameters
    ----------
    l2_regularization : added to the diagonal
    max_items : how many items take part

    References
    ----------
    H. Steck, Embarrassingly Shallow Autoencoders for Sparse Data, WWW 2019.
    """

    exact: ClassVar = False
    _constraints: ClassVar = {
        "l2_regularization": schema.positive(),
        "max_items": schema.at_least(1),
    }
    _learned: ClassVar = {
        "kept_": integers("n_kept", low=0),
        "weight_": floats32("n_kept", "n_kept"),
        "diagonal_": floats("n_kept", low=0.0),
    }

    _before: dict[int, NDArray[np.int32]]  # what changed users had, until P is corrected

    def __init__(self, l2_regularization: float = 300.0, max_items: int = 6000) -> None:
        self.l2_regularization = l2_regularization
        self.max_items = max_items

    def fit(self, histories: Histories) -> Self:
        from scipy.linalg import lapack

        self._n_items, self._before = histories.n_items, {}
        order = np.argsort(-histories.item_counts, kind="stable")[: self.max_items]
        self.kept_ = np.sort(order)
        gram = common_users(histories, self.kept_, self._place())
        gram[np.diag_indices_from(gram)] += self.l2_regularization
        # In place: one float64 matrix. Only the lower triangle is computed.
        factor, info = lapack.dpotrf(gram, lower=True, overwrite_a=True)
        inverse, info = lapack.dpotri(factor, lower=True, overwrite_c=True)
        assert info == 0, "the Gram matrix plus l2 is positive definite"
        upper = np.triu(inverse.T.astype(np.float32), 1)  # the transpose is in C order
        self.diagonal_ = np.diagonal(inverse).copy()
        del factor, inverse, gram
        upper += upper.T
        upper /= -self.diagonal_.astype(np.float32)
        self.weight_ = upper
        return self

    def _place(self) -> NDArray[np.int64]:
        place = np.full(self._n_items, -1, np.int64)
        place[self.kept_] = np.arange(len(self.kept_))
        return place

    def prepare(self, histories: Histories) -> None:
        super().prepare(histories)
        if len(self.kept_) and self.kept_.max() >= histories.n_items:
            raise DataError(f"EASE.kept_: numbers must lie in 0 .. {histories.n_items - 1}.")
        self._n_items, self._before = histories.n_items, {}

    def update(self, histories: Histories, before: Histories, users: IntArray) -> None:
        self._histories = histories
        for user in users.tolist():
            known = user < before.n_users
            earlier = before.rows.row(user)[0] if known else np.zeros(0, np.int32)
            self._before.setdefault(user, earlier)
        self._grow(histories)
        if len(self._before) > len(self.kept_) // 8:  # corrections would cost more than a new fit
            self.fit(histories)

    def settle(self, rows: Rows | None = None) -> None:
        if not self._before:
            return
        with SETTLING:
            users, earlier = np.array(list(self._before), np.int64), list(self._before.values())
            ptr = np.cumsum([0, *map(len, earlier)])
            item = np.concatenate([np.zeros(0, np.int32), *earlier])
            old = Rows(ptr, item, np.ones(len(item), np.float32))
            place, width = self._place(), len(self.kept_)
            after = _dense(self._histories.rows.take(users), place, width)
            before = _dense(old, place, width)
            changed = (after != before).any(axis=1)
            if changed.any():
                self._correct(after[changed], before[changed])
            self._before = {}

    def _correct(self, after: Scores, before: Scores) -> None:
        """P for G + after' after - before' before, by the Woodbury identity."""
        diagonal = self.diagonal_.astype(np.float32)
        U = np.concatenate([after, before]).T
        PU = diagonal[:, None] * U - (self.weight_ @ (diagonal[:, None] * U))  # P = (I - W) D
        sign = np.repeat([1.0, -1.0], len(after))
        middle = np.linalg.inv(np.diag(sign) + U.T @ PU.astype(np.float64))
        left = (PU @ middle).astype(np.float32)
        self.diagonal_ = self.diagonal_ - np.einsum("ij,ij->i", left, PU)
        # In place, in blocks of rows: W = -P / diag(P) off the diagonal.
        scale = self.diagonal_.astype(np.float32)
        for start in range(0, len(left), BLOCK):
            rows = slice(start, start + BLOCK)
            self.weight_[rows] *= diagonal
            self.weight_[rows] += left[rows] @ PU.T
            self.weight_[rows] /= scale
        np.fill_diagonal(self.weight_, 0.0)

    def _grow(self, histories: Histories) -> None:
        """Room for new items: so far nobody took them."""
        fresh = np.arange(self._n_items, histories.n_items)[: self.max_items - len(self.kept_)]
        self._n_items = histories.n_items
        if len(fresh):
            self.kept_ = np.concatenate([self.kept_, fresh])
            self.weight_ = np.pad(self.weight_, (0, len(fresh)))
            one = np.full(len(fresh), 1.0 / self.l2_regularization)
            self.diagonal_ = np.concatenate([self.diagonal_, one])

    def scores(self, rows: Rows) -> Scores:
        self.settle()
        place = self._place()[rows.item]
        inside = place >= 0
        before = np.concatenate([np.zeros(1, np.int64), np.cumsum(inside)])
        kept = Rows(before[rows.ptr], place[inside].astype(np.int32), rows.weight[inside])
        found = np.asarray(kept.matrix(len(self.kept_)) @ self.weight_)
        if len(self.kept_) == self._n_items:
            return found
        scores = np.zeros((rows.n_rows, self._n_items), np.float32)
        scores[:, self.kept_] = found
        return scores


def _dense(rows: Rows, place: NDArray[np.int64], width: int) -> Scores:
    """Rows of 0 and 1 over the items that take part."""
    dense = np.zeros((rows.n_rows, width), np.float32)
    row, column = np.repeat(np.arange(rows.n_rows), np.diff(rows.ptr)), place[rows.item]
    dense[row[column >= 0], column[column >= 0]] = 1.0
    return dense


def common_users(
    histories: Histories, kept: IntArray, place: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Common users of each two items, a lower triangle in Fortran order.

    Counted pair by pair, or, where histories are long beside the catalog, by products of blocks of
    users in float32, which are exact to 2**24.
    """
    from scipy.linalg import blas

    rows, width = histories.rows, len(kept)
    lengths = np.diff(rows.ptr).astype(np.float64)
    if 16.0 * (lengths @ lengths) < rows.n_rows * float(width) ** 2:
        from rankwright.recommend.experts._kernels import count_common

        counted = np.zeros((width, width))
        pairs = neighbor_pairs(histories)
        map_blocks(
            lambda block: count_common(pairs, kept, place, *block, counted), row_ranges(width)
        )
        return counted.T
    gram = np.zeros((width, width), np.float32, order="F")
    for start in range(0, rows.n_rows, BLOCK):
        block = _dense(rows.take(np.arange(start, min(start + BLOCK, rows.n_rows))), place, width)
        gram = blas.ssyrk(1.0, block.T, beta=1.0, c=gram, lower=True, overwrite_c=True)
    return gram.astype(np.float64)
