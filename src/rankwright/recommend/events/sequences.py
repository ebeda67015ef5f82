"""Order: ridge regression of what comes next on what came last."""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import IntArray
from rankwright.exceptions import DataError
from rankwright.rankers import schema
from rankwright.rankers.schema import floats32, integers
from rankwright.recommend.events.base import Expert, Scores
from rankwright.recommend.events.histories import Histories, HistoryRows, pointers
from rankwright.recommend.events.neighbors import neighbor_pairs
from rankwright.runtime import map_blocks, n_threads, ranges

COLUMNS = 512  # items whose weights are solved at once
REFRESH = 0.02  # share of new events after which an update fits again


class SLIT(Expert):
    """Linear item transitions: ridge regression of the next items on the last ones.

    Each place of a history is a training row. Its inputs are the last ``window`` items, where the
    one k places back counts ``decay**k``; its targets are the next three items, where the one m
    places ahead counts ``0.5**m``. With the Gram matrix A of the inputs and their products B with
    the targets, the weights are the inverse of (A + l2 I) times B. The score of an item is the sum
    over the last items of a history; an item of weight w counts log2(1 + w) as well if events have
    types or a half-life. Where events have sessions, a training row has items of one session only,
    and an item of an earlier session than the last one counts a tenth in scores.

    Only the ``max_items`` items with most users take part; other items score 0. With m of them a
    model holds m**2 float32 (``weight_``).

    A new event counts at once, because scores depend on the last items. The weights follow after
    each 2 % of new events.

    Parameters
    ----------
    decay : an item k places before the last counts ``decay**k``
    window : how many of the last items count
    l2_regularization : added to the diagonal
    max_items : how many items take part

    References
    ----------
    M. Choi, J. Kim, J. Lee, H. Shim and J. Lee, Session-aware Linear Item-Item Models for
    Session-based Recommendation, WWW 2021.
    """

    exact: ClassVar = False
    follows_order: ClassVar = True
    _constraints: ClassVar = {
        "decay": schema.positive(1.0),
        "window": schema.at_least(1),
        "l2_regularization": schema.positive(),
        "max_items": schema.at_least(1),
    }
    _learned: ClassVar = {
        "kept_": integers("n_kept", low=0),
        "weight_": floats32("n_kept", "n_kept"),
    }
    AHEAD: ClassVar = (1.0, 0.5, 0.25)  # what the next items count as targets

    def __init__(
        self,
        decay: float = 0.85,
        window: int = 25,
        l2_regularization: float = 200.0,
        max_items: int = 6000,
    ) -> None:
        self.decay = decay
        self.window = window
        self.l2_regularization = l2_regularization
        self.max_items = max_items

    def fit(self, histories: Histories) -> Self:
        from scipy.linalg import lapack

        from rankwright.recommend.events._kernels import count_transitions

        self._prepare(histories)
        order = np.argsort(-histories.item_counts, kind="stable")[: self.max_items]
        self.kept_ = np.sort(order)
        width = len(self.kept_)
        gram = np.zeros((width, width))
        gram[np.diag_indices_from(gram)] = self.l2_regularization
        self.weight_ = np.zeros((width, width), np.float32)
        pairs, lags = neighbor_pairs(histories.by_session()), self._lags()
        tables = (pairs, lags, self.kept_, self._column_of(), gram, self.weight_)
        blocks = ranges(width, 8 * n_threads()) if width > 64 else [(0, width)]
        map_blocks(lambda block: count_transitions(*tables, *block), blocks)
        # The transpose of a symmetric matrix in C order is itself, in the order of LAPACK.
        factor, info = lapack.dpotrf(gram.T, lower=True, overwrite_a=True)
        assert info == 0, "a Gram matrix plus l2 is positive definite"
        for start in range(0, width, COLUMNS):
            part = slice(start, start + COLUMNS)
            targets = np.asfortranarray(self.weight_[:, part], np.float64)
            solved, _ = lapack.dpotrs(factor, targets, lower=True, overwrite_b=True)
            self.weight_[:, part] = solved
        return self

    def _lags(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """What two items add by how far they are apart.

        To the Gram matrix, (window, window + 1): at the index of their distance and of how many
        items follow the later one, because each of these is a training row. To the products of
        inputs and targets, (window + 2,): at the index of their distance less 1.
        """
        powers = self.decay ** np.arange(self.window)
        gram = np.zeros((self.window, self.window + 1))
        for apart in range(self.window):
            sums = np.cumsum(powers[apart:] * powers[: self.window - apart])
            gram[apart, 1 : len(sums) + 1] = sums
            gram[apart, len(sums) + 1 :] = sums[-1]
        return gram, np.convolve(powers, self.AHEAD)

    def _column_of(self) -> NDArray[np.int64]:
        """The index of each item in ``kept_``, or -1."""
        column_of = np.full(self._n_items, -1, np.int64)
        column_of[self.kept_] = np.arange(len(self.kept_))
        return column_of

    def _prepare(self, histories: Histories) -> None:
        self._n_items, self._n_behind = histories.n_items, 0

    def prepare(self, histories: Histories) -> None:
        super().prepare(histories)
        if len(self.kept_) and self.kept_.max() >= histories.n_items:
            raise DataError(f"SLIT.kept_: numbers must lie in 0 .. {histories.n_items - 1}.")
        self._prepare(histories)

    def update(self, histories: Histories, before: Histories, users: IntArray) -> None:
        self._n_items = histories.n_items
        self._n_behind += max(len(users), len(histories) - len(before))
        if self._n_behind > REFRESH * len(histories):
            self.fit(histories)

    def scores(self, rows: HistoryRows) -> Scores:
        from scipy.sparse import csr_array

        back = np.repeat(rows.ptr[1:], np.diff(rows.ptr)) - 1 - np.arange(len(rows.item))
        column = self._column_of()[rows.item]
        used = (back < self.window) & (column >= 0)
        value = (self.decay ** back[used] * rows.recent_strength[used]).astype(np.float32)
        shape = (rows.n_rows, len(self.kept_))
        table = csr_array((value, column[used], pointers(used)[rows.ptr]), shape=shape)
        kept_scores = np.asarray(table @ self.weight_)
        if len(self.kept_) == self._n_items:
            return kept_scores
        scores = np.zeros((rows.n_rows, self._n_items), np.float32)
        scores[:, self.kept_] = kept_scores
        return scores

    def contributions(
        self, items: NDArray[np.int32], weight: Scores, item: int, *, weighted: bool = False
    ) -> Scores:
        back = np.arange(len(items))[::-1]
        alone = super().contributions(items, weight, item, weighted=weighted)
        return np.asarray(alone * np.where(back < self.window, self.decay**back, 0.0), np.float32)
