"""Matrix factorization of implicit feedback by alternating least squares."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import IntArray
from rankwright.data.vocabulary import hash_ids, mix
from rankwright.parallel import current_engine, map_blocks, ranges
from rankwright.rankers import schema
from rankwright.rankers.schema import floats32
from rankwright.recommend.experts.base import Expert, Scores
from rankwright.recommend.experts.histories import Histories, Rows
from rankwright.recommend.experts.neighbors import row_ranges

N_BLOCKS = 16  # of users, and of items, on an engine
N_REFIT = 4  # sweeps from factors that are nearly right
REFRESH = 0.002  # share of new events after which an update sweeps once
START = 0.01  # standard deviation of the factors at the start


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

    def fit(self, histories: Histories) -> Self:
        self.factors_ = _start(histories.items, self.n_factors, self.random_state)
        return self._sweep(histories, self.max_iter)

    def prepare(self, histories: Histories) -> None:
        super().prepare(histories)
        self._n_behind = 0

    def refit(self, histories: Histories) -> None:
        """Some more sweeps, from the factors so far."""
        if len(getattr(self, "factors_", ())) != histories.n_items:
            self.fit(histories)
        else:
            self._sweep(histories, min(N_REFIT, self.max_iter))

    def _sweep(self, histories: Histories, n_sweeps: int) -> Self:
        self._n_behind = 0
        users = np.zeros((histories.n_users, self.n_factors), np.float32)
        columns = _columns(histories)
        if current_engine() is not None:
            return self._sweep_blocks(histories.rows, columns, users, n_sweeps)
        for _ in range(n_sweeps):
            self._solve(histories.rows, self.factors_, users)
            self._solve(columns, users, self.factors_)
        return self

    def _sweep_blocks(self, rows: Rows, columns: Rows, users: Scores, n_sweeps: int) -> Self:
        """The same on the engine: blocks of users, then of items, are solved by its workers."""
        sides = [_Blocks(rows, users), _Blocks(columns, self.factors_)]
        for _ in range(n_sweeps):
            for side, other in (sides, sides[::-1]):
                side.solve(self, other.values)
        self.factors_ = sides[1].values
        return self

    def _solve(self, rows: Rows, factors: Scores, solution: Scores, max_iter: int = 3) -> None:
        from rankwright.recommend.experts._kernels import solve_rows

        gram = factors.T @ factors + np.float32(self.l2_regularization) * np.eye(
            factors.shape[1], dtype=np.float32
        )
        table = (rows.frozen(), factors, gram, self.alpha, max_iter)
        map_blocks(lambda block: solve_rows(*table, *block, solution), row_ranges(rows.n_rows))

    def users(self, rows: Rows) -> Scores:
        """Factors of the users with these histories, (n_rows, n_factors)."""
        users = np.zeros((rows.n_rows, self.factors_.shape[1]), np.float32)
        self._solve(rows, self.factors_, users, max_iter=8)
        return users

    def update(self, histories: Histories, before: Histories, users: IntArray) -> None:
        n_known = len(self.factors_)
        if histories.n_items > n_known:
            fresh = np.zeros((histories.n_items - n_known, self.factors_.shape[1]), np.float32)
            self.factors_ = np.concatenate([self.factors_, fresh])
            columns = _columns(histories).take(np.arange(n_known, histories.n_items))
            takers, place = np.unique(columns.item, return_inverse=True)
            solved = self.users(histories.rows.take(takers.astype(np.int64)))
            self._solve(columns._replace(item=place.astype(np.int32)), solved, fresh, max_iter=8)
            self.factors_[n_known:] = fresh
        self._n_behind += max(len(users), len(histories) - len(before))
        if self._n_behind > REFRESH * len(histories):
            self._solve(_columns(histories), self.users(histories.rows), self.factors_)
            self._n_behind = 0

    def scores(self, rows: Rows) -> Scores:
        return np.asarray(self.users(rows) @ self.factors_.T)

    def contributions(self, items: NDArray[np.int32], weight: Any, item: int) -> Scores:
        """The user is a weighted sum over the history, and so is the score."""
        chosen = self.factors_[items].astype(np.float64)
        confidence = 1.0 + self.alpha * np.asarray(weight, np.float64)
        system = self.factors_.T @ self.factors_ + self.l2_regularization * np.eye(chosen.shape[1])
        system = system + (chosen * (confidence - 1.0)[:, None]).T @ chosen
        direction = np.linalg.solve(system, self.factors_[item].astype(np.float64))
        return np.asarray(confidence * (chosen @ direction), np.float32)


def _start(ids: NDArray[Any], n_factors: int, seed: int) -> Scores:
    """Uniform numbers of mean 0, each by a hash of the item's id, the factor and the seed."""
    keys = hash_ids(ids)[:, None] ^ mix(np.arange(n_factors) + np.int64(seed) * n_factors)
    uniform = mix(keys.ravel()).reshape(keys.shape).astype(np.float32) / np.float32(2.0**63) - 1.0
    return np.asarray(START * np.sqrt(3.0) * uniform, np.float32)


class _Blocks:
    """Users or items on the workers of the engine: their events, and their factors so far."""

    def __init__(self, rows: Rows, start: Scores) -> None:
        self._engine, self.values = current_engine(), start
        cuts = ranges(rows.n_rows, N_BLOCKS)
        self._rows = self._engine.scatter(rows.take(np.arange(*cut)) for cut in cuts)
        self._solved = self._engine.scatter(start[slice(*cut)] for cut in cuts)

    def solve(self, expert: ImplicitALS, factors: Scores) -> None:
        """Solve all rows given the factors of the other side."""
        shared = self._engine.broadcast((expert, factors))
        self._solved = self._engine.map(_solved_block, (self._rows, self._solved), shared)
        self.values = np.concatenate(self._engine.gather(self._solved))


def _solved_block(rows: Rows, start: Scores, shared: tuple[ImplicitALS, Scores]) -> Scores:
    expert, factors = shared
    solution = start.copy()
    expert._solve(rows, factors, solution)
    return solution


def _columns(histories: Histories) -> Rows:
    """The users of each item."""
    ptr, entry = histories.by_item
    return Rows(ptr, histories.user[entry], histories.weight[entry])
