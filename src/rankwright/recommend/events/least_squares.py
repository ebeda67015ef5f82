"""Least squares models of interactions: EASE and alternating least squares."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import IntArray
from rankwright.data.vocabulary import hash_ids, mix
from rankwright.exceptions import DataError
from rankwright.rankers import schema
from rankwright.rankers.schema import floats, floats32, integers
from rankwright.recommend.events.base import FLUSHING, Expert, Scores
from rankwright.recommend.events.histories import Histories, HistoryRows, pointers
from rankwright.recommend.events.neighbors import neighbor_pairs, row_ranges
from rankwright.runtime import current_engine, map_blocks, ranges, single_threaded_blas

BLOCK = 1024  # users whose products are added at once (EASE)
N_BLOCKS = 16  # of users, and of items, on an engine
N_REFIT = 4  # sweeps from factors that are nearly right
REFRESH = 0.002  # share of new events after which an update sweeps once
START = 0.01  # standard deviation of the factors at the start


class EASE(Expert):
    """Ridge regression of every item on all others (Steck 2019).

    With the Gram matrix G of the users' items and P = inverse of (G + l2 I), the weight of item i
    for item j is -P[i, j] / P[j, j], and 0 for j itself. An item of weight w in a history counts
    log2(1 + w) if events have types or a half-life.

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
        gram = common_users(histories, self.kept_, self._column_of())
        gram[np.diag_indices_from(gram)] += self.l2_regularization
        # In column_of: one float64 matrix. Only the lower triangle is computed.
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

    def _column_of(self) -> NDArray[np.int64]:
        """The index of each item in ``kept_``, or -1."""
        column_of = np.full(self._n_items, -1, np.int64)
        column_of[self.kept_] = np.arange(len(self.kept_))
        return column_of

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

    def flush(self, rows: HistoryRows | None = None) -> None:
        if not self._before:
            return
        with FLUSHING:
            users, earlier = np.array(list(self._before), np.int64), list(self._before.values())
            ptr = np.cumsum([0, *map(len, earlier)])
            item = np.concatenate([np.zeros(0, np.int32), *earlier])
            old = HistoryRows(ptr, item, np.ones(len(item), np.float32))
            column_of, width = self._column_of(), len(self.kept_)
            after = _dense(self._histories.rows.take(users), column_of, width)
            before = _dense(old, column_of, width)
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
        # In column_of, in blocks of rows: W = -P / diag(P) off the diagonal.
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

    def scores(self, rows: HistoryRows) -> Scores:
        from scipy.sparse import csr_array

        self.flush()
        column = self._column_of()[rows.item]
        inside = column >= 0
        entries = (rows.strength[inside], column[inside], pointers(inside)[rows.ptr])
        table = csr_array(entries, shape=(rows.n_rows, len(self.kept_)))
        kept_scores = np.asarray(table @ self.weight_)
        if len(self.kept_) == self._n_items:
            return kept_scores
        scores = np.zeros((rows.n_rows, self._n_items), np.float32)
        scores[:, self.kept_] = kept_scores
        return scores


def _dense(rows: HistoryRows, column_of: NDArray[np.int64], width: int) -> Scores:
    """Rows of 0 and 1 over the items that take part."""
    dense = np.zeros((rows.n_rows, width), np.float32)
    column = column_of[rows.item]
    inside = column >= 0
    dense[rows.number[inside], column[inside]] = 1.0
    return dense


def common_users(
    histories: Histories, kept: IntArray, column_of: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Common users of each two items, a lower triangle in Fortran order.

    Counted pair by pair, or, where histories are long beside the catalog, by products of blocks of
    users in float32, which are exact to 2**24.
    """
    from scipy.linalg import blas

    rows, width = histories.rows, len(kept)
    lengths = np.diff(rows.ptr).astype(np.float64)
    if 16.0 * (lengths @ lengths) < rows.n_rows * float(width) ** 2:
        from rankwright.recommend.events._kernels import count_common

        counted = np.zeros((width, width))
        pairs = neighbor_pairs(histories)
        map_blocks(
            lambda block: count_common(pairs, kept, column_of, *block, counted), row_ranges(width)
        )
        return counted.T
    gram = np.zeros((width, width), np.float32, order="F")
    for start in range(0, rows.n_rows, BLOCK):
        block = _dense(
            rows.take(np.arange(start, min(start + BLOCK, rows.n_rows))), column_of, width
        )
        gram = blas.ssyrk(1.0, block.T, beta=1.0, c=gram, lower=True, overwrite_c=True)
    return gram.astype(np.float64)


class ImplicitALS(Expert):
    """Weighted matrix factorization: 1 for what a user took with confidence 1 + alpha * weight,
    0 with confidence 1 for the rest (Hu, Koren and Volinsky 2008), by conjugate gradients.

    Only the factors of items are kept. Those of a user are solved from the history each time, so
    an event counts at once. The factors of new items are solved from their users; those of known
    items follow by one sweep over all users and items after each 0.2 % of new events.

    The start is drawn by a hash of the item's id and the seed: events in another order, or a few
    more of them, start at the same place.

    Parameters
    ----------
    n_factors, l2_regularization, alpha : of the model
    max_iter : sweeps over users and items
    random_state : seed of the start
    """

    exact: ClassVar = False
    _constraints: ClassVar = {
        "n_factors": schema.at_least(1),
        "l2_regularization": schema.positive(),
        "alpha": schema.positive(),
        "max_iter": schema.at_least(1),
        "random_state": schema.at_least(0),
    }
    _learned: ClassVar = {"factors_": floats32("n_items", "n_factors")}

    def __init__(
        self,
        n_factors: int = 64,
        l2_regularization: float = 10.0,
        alpha: float = 5.0,
        max_iter: int = 10,
        random_state: int = 0,
    ) -> None:
        self.n_factors = n_factors
        self.l2_regularization = l2_regularization
        self.alpha = alpha
        self.max_iter = max_iter
        self.random_state = random_state

    _gram: Scores | None = None  # of the factors and l2, until they change

    def fit(self, histories: Histories) -> Self:
        self.factors_ = _start(histories.items, self.n_factors, self.random_state)
        return self._sweep(histories, self.max_iter)

    def prepare(self, histories: Histories) -> None:
        super().prepare(histories)
        self._n_behind, self._gram = 0, None

    def refit(self, histories: Histories) -> None:
        """Some more sweeps, from the factors so far."""
        if len(getattr(self, "factors_", ())) != histories.n_items:
            self.fit(histories)
        else:
            self._sweep(histories, min(N_REFIT, self.max_iter))

    def _sweep(self, histories: Histories, n_sweeps: int) -> Self:
        self._n_behind, self._gram = 0, None
        users = np.zeros((histories.n_users, self.n_factors), np.float32)
        columns = _columns(histories)
        if current_engine() is not None:
            return self._sweep_blocks(histories.rows, columns, users, n_sweeps)
        for _ in range(n_sweeps):
            self._solve(histories.rows, self.factors_, users)
            self._solve(columns, users, self.factors_)
        return self

    def _sweep_blocks(
        self, rows: HistoryRows, columns: HistoryRows, users: Scores, n_sweeps: int
    ) -> Self:
        """The same on the engine: blocks of users, then of items, are solved by its workers."""
        sides = [_Blocks(rows, users), _Blocks(columns, self.factors_)]
        for _ in range(n_sweeps):
            for side, other in (sides, sides[::-1]):
                side.solve(self, other.values)
        self.factors_ = sides[1].values
        return self

    def _solve(
        self,
        rows: HistoryRows,
        factors: Scores,
        solution: Scores,
        max_iter: int = 3,
        gram: Scores | None = None,
    ) -> None:
        from rankwright.recommend.events._kernels import solve_rows

        gram = self._gram_of(factors) if gram is None else gram
        table = (rows.frozen(), factors, gram, self.alpha, max_iter)
        map_blocks(lambda block: solve_rows(*table, *block, solution), row_ranges(rows.n_rows))

    def _gram_of(self, factors: Scores) -> Scores:
        diagonal = np.float32(self.l2_regularization) * np.eye(factors.shape[1], dtype=np.float32)
        with single_threaded_blas():  # threads take more CPU time for such a narrow table
            return np.asarray(factors.T @ factors + diagonal, np.float32)

    def users(self, rows: HistoryRows) -> Scores:
        """Factors of the users with these histories, (n_rows, n_factors)."""
        if self._gram is None:
            self._gram = self._gram_of(self.factors_)
        users = np.zeros((rows.n_rows, self.factors_.shape[1]), np.float32)
        self._solve(rows, self.factors_, users, 8, self._gram)
        return users

    def update(self, histories: Histories, before: Histories, users: IntArray) -> None:
        n_known = len(self.factors_)
        if histories.n_items > n_known:
            fresh = np.zeros((histories.n_items - n_known, self.factors_.shape[1]), np.float32)
            self.factors_, self._gram = np.concatenate([self.factors_, fresh]), None
            columns = _columns(histories).take(np.arange(n_known, histories.n_items))
            takers, index = np.unique(columns.item, return_inverse=True)
            solved = self.users(histories.rows.take(takers.astype(np.int64)))
            self._solve(columns._replace(item=index.astype(np.int32)), solved, fresh, max_iter=8)
            self.factors_[n_known:], self._gram = fresh, None
        self._n_behind += max(len(users), len(histories) - len(before))
        if self._n_behind > REFRESH * len(histories):
            self._solve(_columns(histories), self.users(histories.rows), self.factors_)
            self._n_behind, self._gram = 0, None

    def scores(self, rows: HistoryRows) -> Scores:
        return np.asarray(self.users(rows) @ self.factors_.T)

    def contributions(
        self, items: NDArray[np.int32], weight: Scores, item: int, *, weighted: bool = False
    ) -> Scores:
        """The user is a weighted sum over the history, and so is the score."""
        taken = self.factors_[items].astype(np.float64)
        confidence = 1.0 + self.alpha * np.asarray(weight, np.float64)
        system = self.factors_.T @ self.factors_ + self.l2_regularization * np.eye(taken.shape[1])
        system = system + (taken * (confidence - 1.0)[:, None]).T @ taken
        direction = np.linalg.solve(system, self.factors_[item].astype(np.float64))
        return np.asarray(confidence * (taken @ direction), np.float32)


def _start(ids: NDArray[Any], n_factors: int, seed: int) -> Scores:
    """Uniform numbers of mean 0, each by a hash of the item's id, the factor and the seed."""
    keys = hash_ids(ids)[:, None] ^ mix(np.arange(n_factors) + np.int64(seed) * n_factors)
    uniform = mix(keys.ravel()).reshape(keys.shape).astype(np.float32) / np.float32(2.0**63) - 1.0
    return np.asarray(START * np.sqrt(3.0) * uniform, np.float32)


class _Blocks:
    """Users or items on the workers of the engine: their events, and their factors so far."""

    def __init__(self, rows: HistoryRows, start: Scores) -> None:
        self._engine, self.values = current_engine(), start
        cuts = ranges(rows.n_rows, N_BLOCKS)
        self._rows = self._engine.scatter(rows.take(np.arange(*cut)) for cut in cuts)
        self._solved = self._engine.scatter(start[slice(*cut)] for cut in cuts)

    def solve(self, expert: ImplicitALS, factors: Scores) -> None:
        """Solve all rows given the factors of the other side."""
        shared = self._engine.broadcast((expert, factors))
        self._solved = self._engine.map(_solved_block, (self._rows, self._solved), shared)
        self.values = np.concatenate(self._engine.gather(self._solved))


def _solved_block(rows: HistoryRows, start: Scores, shared: tuple[ImplicitALS, Scores]) -> Scores:
    expert, factors = shared
    solution = start.copy()
    expert._solve(rows, factors, solution)
    return solution


def _columns(histories: Histories) -> HistoryRows:
    """The users of each item."""
    ptr, entry = histories.by_item
    return HistoryRows(ptr, histories.user[entry], histories.weight[entry])
